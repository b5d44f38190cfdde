"""The checks of notebook 11."""

from __future__ import annotations

import select
import socket
from functools import partial
from typing import Any, ClassVar

import pytest

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_11_1, check_11_2, notebook_11


@pytest.fixture(autouse=True)
def less_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as long as a `fill` waits here."""
    monkeypatch.setattr(notebook_11, "PATIENCE", 2.0)


class Client:
    def __init__(self, context: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", context.options.port))
        self.socket.settimeout(0.2)
        self.rest = b""

    def fill(self, buffer: Any) -> None:
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            return
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            buffer.add(line.decode())
        if not data:
            buffer.close()

    def close(self) -> None:
        self.socket.close()


client = partial(changed, Client)


class Torn(Client):
    def fill(self, buffer: Any) -> None:
        for line in self.socket.recv(65536).decode().split():
            buffer.add(line)


class ByReadline(Client):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.file = self.socket.makefile()

    def fill(self, buffer: Any) -> None:
        try:
            line = self.file.readline()
        except TimeoutError:
            return
        buffer.add(line.removesuffix("\n")) if line else buffer.close()


class Loops(Client):
    def fill(self, buffer: Any) -> None:
        while not buffer.closed:
            super().fill(buffer)


class SharedRest(Client):
    pieces: ClassVar[list[bytes]] = []

    def fill(self, buffer: Any) -> None:
        self.rest = b"".join(self.pieces)
        super().fill(buffer)
        self.pieces[:] = [self.rest]


class WithoutDict:
    __slots__ = ("rest", "socket")

    __init__, fill, close = Client.__init__, Client.fill, Client.close


class BySelect(Client):
    def fill(self, buffer: Any) -> None:
        if select.select([self.socket], [], [], 0.2)[0]:
            super().fill(buffer)


BY_PIECE = (
    ('rest = b""', 'rest = ""'),
    ('data).split(b"\\n")', 'data.decode()).split("\\n")'),
    ("line.decode()", "line"),
)
BY_SPLITLINES = (
    ("*lines, self.rest", "whole, _, self.rest"),
    ('.split(b"\\n")', '.rpartition(b"\\n")'),
    ("in lines:", "in whole.decode().splitlines():"),
    ("line.decode()", "line"),
)
IGNORE = ("data.decode()", 'data.decode(errors="ignore")')
test_11_1 = tried(
    check_11_1,
    (Client, "✓ Whole lines only"),
    (Torn, "A line is whole when its newline is there"),
    (client(("(0.2)", "(None)")), "`fill` waits for what has not come"),
    (client(("buffer.close()", "pass")), "call `buffer.close()`"),
    (client(*BY_PIECE), "join the bytes, then decode"),
    (client(*BY_PIECE, IGNORE), "join the bytes, then decode"),
    (
        client(("buffer.close()", "buffer.add(self.rest.decode()); buffer.close()")),
        "What follows the last newline is no line",
    ),
    (client(("self.socket.close()", "pass")), "`close` closes the socket"),
    (client(("socket.close()", "socket.shutdown(1)")), "`close` closes the socket"),
    (client(("(0.2)", "(1)")), "`fill` waits for 1.0 seconds"),
    (client(("def fill", "def receive")), "`fill` raised AttributeError"),
    (client(("line.decode()", "line.decode().strip()")), "not strip() or splitlines()"),
    (client(("in lines:", "in filter(None, lines):")), "it may be empty: use split(b'\\n')"),
    (client(*BY_SPLITLINES), "not strip() or splitlines()"),
    (ByReadline, "A file made by `makefile` cannot be read any more after a time-out"),
    (client(("line.decode()", "str(line)")), "A line is wanted as a str, this is \"b' one '\""),
    (client(("buffer.close()", "self.close()")), "the server has closed it, call `buffer.close()`"),
    (client(("line.decode()", "line")), "A line is wanted as a str, this is b' one '"),
    (client(("            return\n", "            data = b''\n")), "the server was still there"),
    (Loops, "recv() once"),
    (SharedRest, "Another client has another server's rest"),
    (client(("buffer.add(line", "_ = (line")), "`fill` has added nothing"),
    (
        client(("in lines:", "in dict.fromkeys(lines):")),
        "Wanted [' one ', '', 'two', 'two'], got [' one ', '', 'two']",
    ),
    (client(("decode()", "decode('latin-1')")), "decode them as UTF-8"),
    (WithoutDict, "✓ Whole lines only"),
    (BySelect, "✓ Whole lines only"),
)


class Sender:
    def __init__(self, context: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", context.options.port))

    def receive(self, row: Any) -> None:
        self.socket.sendall(f"{row.line}\n".encode())

    def close(self) -> None:
        self.socket.close()


class AllInClose(Sender):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.rows: list[str] = []

    def receive(self, row: Any) -> None:
        self.rows.append(row.line)

    def close(self) -> None:
        self.socket.sendall("\n".join(self.rows).encode())
        super().close()


class Buffered(Sender):
    """A file keeps some lines until it is closed."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.file = self.socket.makefile("w", encoding="utf-8")

    def receive(self, row: Any) -> None:
        print(row.line, file=self.file)

    def close(self) -> None:
        self.file.close()
        super().close()


class ByHundreds(AllInClose):
    def receive(self, row: Any) -> None:
        super().receive(row)
        if len(self.rows) == 100:
            self.socket.sendall("".join(f"{line}\n" for line in self.rows).encode())
            self.rows = []

    close = Sender.close


class AtTheFirstRow(Sender):
    socket: Any = None

    def __init__(self, context: Any) -> None:
        self.context = context

    def receive(self, row: Any) -> None:
        if not self.socket:
            super().__init__(self.context)
        super().receive(row)


class OnlyIfThereAreRows(AtTheFirstRow):
    def close(self) -> None:
        if self.socket:
            super().close()


class OneForAll(Sender):
    sockets: ClassVar[list[socket.socket]] = []

    def __init__(self, context: Any) -> None:
        if not self.sockets:
            super().__init__(context)
            self.sockets.append(self.socket)
        (self.socket,) = self.sockets


class AConnectionARow(Sender):
    def __init__(self, context: Any) -> None:
        self.context = context

    def receive(self, row: Any) -> None:
        Sender.__init__(self, self.context)
        super().receive(row)


sender = partial(changed, Sender)


test_11_2 = tried(
    check_11_2,
    (Sender, "✓ Each row is a line"),
    (sender(("row.line", "row['line']")), "✓ Each row is a line"),
    (
        sender(("row.line", "row[0]")),
        "yours is '0': send each row's `line`",
    ),
    (
        sender(("row.line", "row.line.strip()")),
        "Line 2 of 997 must be 'row 1 é ', yours is 'row 1 é': ",
    ),
    (
        sender(("        self.socket.sendall", "        row.line and self.socket.sendall")),
        "Line 1 of 997 must be '', yours is 'row 1 é '",
    ),
    (
        sender(("\\n", "")),
        "yours is 'row 1 é row 1 é row 2 é row 2 é row 3 é…'",
    ),
    (sender(("sendall", "send")), "`send` may send only a part of what it is given: use `sendall`"),
    (AllInClose, "The last line has no newline"),
    (
        changed(AllInClose, ('"\\n".join(self.rows)', '"\\n".join([*self.rows, ""])')),
        "before `close` nothing came",
    ),
    (Buffered, "✓ Each row is a line"),
    (AConnectionARow, "It opens a connection for each row"),
    (
        sender(("self.socket.sendall", "self.kept =")),
        "Of 997 lines none arrived: let `receive` send",
    ),
    (sender(("self.socket.close()", "pass")), "`close` closes the socket"),
    (sender(("socket.close()", "socket.shutdown(1)")), "`close` closes the socket"),
    (ByHundreds, "Of 997 lines only 900 arrived: let `receive`"),
    (AtTheFirstRow, "For a task with 0 rows it raised AttributeError"),
    (
        sender(("self.socket.close()", "self.socket.sendall(b'end'); self.socket.close()")),
        "After the lines of all 997 rows came b'end'",
    ),
    (OneForAll, "For a task with 1 rows it raised OSError"),
    (
        sender((".encode()", ".encode('latin-1')")),
        "Line 2 of 997 must be 'row 1 é ', yours is 'row 1 \ufffd '",
    ),
    (OnlyIfThereAreRows, "✓ Each row is a line"),
    (sender((".encode()", ".encode('utf-8')")), "✓ Each row is a line"),
)
