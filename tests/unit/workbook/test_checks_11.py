"""The checks of notebook 11."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import pytest

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_11_1, check_11_2, notebook_11


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
    (client(("(0.2)", "(1.5)")), "`fill` may wait for 1.5 seconds"),
    (client(("def fill", "def receive")), "`fill` raised AttributeError"),
    (client(("line.decode()", "line.decode().strip()")), "not strip() or splitlines()"),
    (client(("in lines:", "in filter(None, lines):")), "it may be empty: use split(b'\\n')"),
    (client(*BY_SPLITLINES), "not strip() or splitlines()"),
    (ByReadline, "A file made by `makefile` cannot be read any more after a time-out"),
    (client(("line.decode()", "line")), "A line is wanted as a str, this is b' one '"),
    (client(("            return\n", "            data = b''\n")), "the server was still there"),
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
    (sender(("row.line", "row[0]")), "✓ Each row is a line"),
    (sender(("row.line", "row.line.strip()")), "1000 lines arrived"),
    (
        sender(("        self.socket.sendall", "        row.line and self.socket.sendall")),
        "999 lines",
    ),
    (sender(("\\n", "")), "0 lines arrived, first 'row 1 é row 2"),
    (sender(("sendall", "send")), "`sendall`, not `send`"),
    (AllInClose, "The last line has no newline"),
    (AConnectionARow, "It opens a connection for each row"),
    (sender(("self.socket.sendall", "self.kept =")), "0 lines arrived"),
    (sender(("self.socket.close()", "pass")), "`close` closes the socket"),
    (sender(("socket.close()", "socket.shutdown(1)")), "`close` closes the socket"),
)
