"""The ledger, version 1: documentation for clients.

The ledger stores books. A book is a list of entries, and an entry is a line of text with a number:
1, 2, 3 and so on. Entries are never changed, removed or renumbered. A book is empty until the first
entry is appended.

Connect by TCP, send a request, and read the reply. All lines are UTF-8 and end with a newline. A
connection can be used for several requests, one after the other. Below, `>` marks what you send,
and `<` what you receive.

    > LAST orders
    < OK 117

Returns the number of the newest entry in the book `orders`, or 0 if the book is empty.

    > PAGE orders 0
    < OK 50
    < 117 nuts
    < 116 bolts
      …

Returns the newest 50 entries, newest first. `PAGE orders 1` returns the 50 entries before these,
and so on. The number after OK says how many lines follow. Each is an entry's number, a space, and
its text.

    > APPEND orders till-7 2041 2
    > nuts
    > bolts
    < OK 119

The writer `till-7` appends two lines (the 2 says so): both or neither, with consecutive numbers.
2041 is a memo. It may be any word, and is stored for the writer in the same step as the lines. The
reply has the number of the last line.

    > MEMO orders till-7
    < OK 2041

Returns the memo of the last APPEND by `till-7` to this book, or `-` if there was none.

What to be prepared for:

- `BUSY 0.05`: nothing was done. Try again after that many seconds.
- `NO …`: the request is wrong, and the text says why. The connection is closed. Don't repeat it.
- Pages are counted from the newest entry at that moment, and others append while you turn pages.
- A reply may take a second.
- The ledger is restarted at times. Then connections break, perhaps in the middle of a reply, and
  new ones are refused for some seconds. Lines confirmed with OK are on disk. A request without a
  reply may have been carried out, or not.
- An APPEND is carried out only while its connection is open. When you have closed the connection,
  it has been carried out, or it never will be.
- Names and memos are words. A line has at most 1,000 bytes, and an APPEND 1 to 10,000 lines.
"""

from __future__ import annotations

import json
import select
import socket
import socketserver
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedIOBase
from itertools import cycle
from pathlib import Path
from typing import Any, Self

from tutorial_pkg.core.places import LOOPBACK
from tutorial_pkg.core.waiting import Tries
from workbook.services import ServerProcess

DOCUMENTATION = __doc__
PAGE_ENTRIES = 50
MOST_LINES, MOST_BYTES = 10_000, 1_000
BUSY_SECONDS, SLOW_SECONDS = 0.05, 0.3

# The reply may be BUSY, late, missing or cut.
BUSY, SLOW, LOST, CUT = "busy", "slow", "lost", "cut"
Trouble = Callable[[str], str]  # by the request's first line; an empty text for none


class Books:
    """Entries and memos, in memory and in a file. Hold `lock` to use them for several steps."""

    def __init__(self, file: Path) -> None:
        self.lock = threading.RLock()
        self.entries = defaultdict[str, list[str]](list)
        self.memos = dict[tuple[str, str], str]()
        self._file = file
        file.touch()
        for line in file.read_text().splitlines():
            with suppress(ValueError):  # a kill has cut it short
                self._remember(*json.loads(line))

    def last(self, book: str) -> int:
        return len(self.entries[book])

    def append(self, book: str, writer: str, memo: str, lines: list[str]) -> int:
        """Append the lines and store their memo in one step; return the last one's number."""
        with self.lock:
            with self._file.open("a") as file:
                file.write("\n" + json.dumps([book, writer, memo, lines]))
            self._remember(book, writer, memo, lines)
            return self.last(book)

    def _remember(self, book: str, writer: str, memo: str, lines: list[str]) -> None:
        self.entries[book] += lines
        self.memos[book, writer] = memo


def _read_line(stream: BufferedIOBase, most: int = 2 * MOST_BYTES) -> str:
    line = stream.readline(most + 1)
    if line.endswith(b"\n"):
        return line[:-1].decode(errors="replace")
    if len(line) > most:
        raise ValueError(f"expected lines of at most {most} bytes")
    raise ConnectionError("the connection broke before the end of a line")


class LedgerHandler(socketserver.StreamRequestHandler):
    """A client's connection: request after request, until an error ends it."""

    server: LedgerServer
    timeout = 60  # seconds: a client that waits for more than the reply gets an end

    def handle(self) -> None:
        with suppress(OSError):  # the client is gone
            try:
                while True:
                    self._reply()
            except ValueError as error:  # the next request may begin anywhere
                self.wfile.write(f"NO {error}\n".encode())

    def _reply(self) -> None:
        """Read a request, and reply to it."""
        request = _read_line(self.rfile, MOST_BYTES)
        words = request.split(" ")
        count = int(words[-1]) if words[0] == "APPEND" and words[-1].isdecimal() else 0
        lines = [_read_line(self.rfile, MOST_BYTES) for _ in range(count)]
        trouble = self.server.trouble(request)
        if trouble == BUSY:
            self.wfile.write(f"BUSY {BUSY_SECONDS}\n".encode())
            return
        if trouble == SLOW:
            time.sleep(SLOW_SECONDS)
        with self.server.books.lock:
            first, *others = self._carry_out(words, lines)
        reply = "".join(f"{line}\n" for line in (f"OK {first}", *others)).encode()
        if trouble == CUT:
            self.wfile.write(reply[: len(reply) // 2])
        if trouble in (CUT, LOST):
            raise ConnectionError("in trouble")
        self.wfile.write(reply)

    def _carry_out(self, words: list[str], lines: list[str]) -> list[object]:
        """Carry out a request while no other thread does; return what follows OK."""
        books = self.server.books
        match words:
            case ["LAST", book]:
                return [books.last(book)]
            case ["PAGE", book, page] if page.isdecimal():
                newest = books.last(book) - PAGE_ENTRIES * int(page)
                numbers = range(newest, 0, -1)[:PAGE_ENTRIES]
                return [len(numbers), *(f"{n} {books.entries[book][n - 1]}" for n in numbers)]
            case ["MEMO", book, writer]:
                return [books.memos.get((book, writer), "-")]
            case ["APPEND", book, writer, memo, _] if 1 <= len(lines) <= MOST_LINES:
                # A client that closes its connection later finds the memo.
                readable, _, _ = select.select([self.connection], [], [], 0)
                if readable and not self.connection.recv(1, socket.MSG_PEEK):
                    raise ConnectionError("the client is gone")
                return [books.append(book, writer, memo, lines)]
            case ["APPEND", _, _, _, _]:
                raise ValueError(f"expected 1 to {MOST_LINES:,} lines")
        raise ValueError("expected LAST book, PAGE book page, MEMO book writer or APPEND …")


def no_trouble(request: str) -> str:
    return ""


class LedgerServer(socketserver.ThreadingTCPServer):
    """A ledger in this process, on `port` of the loopback; 0 finds a free one.

    As a context manager it serves in a thread.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, file: Path, port: int = 0, trouble: Trouble = no_trouble) -> None:
        super().__init__((LOOPBACK, port), LedgerHandler)
        self.books, self.trouble = Books(file), trouble
        self.address = f"{LOOPBACK}:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


# ---- A ledger in its own process -----------------------------------------------------------------


class Ledger(ServerProcess):
    """A ledger at `address`, with its data in `folder`. It makes the usual trouble."""

    documentation = DOCUMENTATION

    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"{LOOPBACK}:{port}"
        command = [sys.executable, "-m", __name__, folder / "books", port]
        super().__init__(folder, command, port, self.address)


start_ledger = Ledger


# ---- A client for the notebook and the drill -----------------------------------------------------


def request(address: str, line: str, lines: Sequence[str] = ()) -> list[str]:
    """Send one request; return the text after OK, and the lines that follow it.

    Raises `OSError` when the reply is BUSY or incomplete, `ValueError` when it is NO.
    """
    host, port = address.split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall("".join(f"{text}\n" for text in (line, *lines)).encode())
        kind, _, rest = _read_line(stream).partition(" ")
        if kind == "NO":
            raise ValueError(rest)
        if kind == "BUSY":
            raise OSError(f"the ledger is busy for {rest} s")
        count = int(rest) if line.startswith("PAGE") else 0
        return [rest, *(_read_line(stream) for _ in range(count))]


def ask_until_reply(address: str, line: str) -> list[str]:
    """Send a request that changes nothing, again and again, until there is a reply."""
    reply: list[str] = _patiently(lambda: request(address, line))
    return reply


def append_once(address: str, book: str, writer: str, memo: str, lines: Sequence[str]) -> None:
    """Append the lines once, even if replies get lost. Each call needs a new memo."""

    def append() -> None:
        if request(address, f"MEMO {book} {writer}") != [memo]:
            request(address, f"APPEND {book} {writer} {memo} {len(lines)}", lines)

    _patiently(append)


def _patiently(work: Callable[[], Any]) -> Any:
    tries = Tries(lambda error: isinstance(error, OSError), seconds=60, pause=BUSY_SECONDS)
    return tries.patiently(work)


def entries(address: str, book: str) -> list[str]:
    """Return the texts of a book, from its first entry on."""
    texts: dict[int, str] = {}
    page = 0
    while lines := ask_until_reply(address, f"PAGE {book} {page}")[1:]:
        texts |= {int(number): text for number, _, text in (line.partition(" ") for line in lines)}
        page += 1
    return [texts[number] for number in sorted(texts)]


if __name__ == "__main__":
    # Every seventeenth time the same, so that each kind of request meets each trouble.
    usual = cycle(["", "", "", "", "", "", BUSY, "", "", "", CUT, "", LOST, "", "", "", SLOW])
    file, port = sys.argv[1:]
    LedgerServer(Path(file), int(port), lambda request: next(usual)).serve_forever()
