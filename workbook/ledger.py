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
- Names and memos are words of at most 100 letters. A line has at most 1,000 bytes, and an APPEND at
  most 10,000 lines. A connection is closed after a minute of silence.
"""

from __future__ import annotations

import itertools
import signal
import socket
import socketserver
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from select import select
from typing import BinaryIO, Self

from tutorial_pkg.core.places import LOOPBACK
from tutorial_pkg.core.waiting import Answer, Tries
from workbook.services import ServerProcess

DOCUMENTATION = __doc__
PAGE_ENTRIES = 50
MOST_LINES, MOST_BYTES, MOST_LETTERS = 10_000, 1_000, 100
SILENCE_SECONDS = PATIENCE_SECONDS = 60
BUSY_SECONDS, SLOW_SECONDS = 0.05, 0.3

# The reply may be BUSY, late, missing or cut.
BUSY, SLOW, LOST, CUT = "busy", "slow", "lost", "cut"
Trouble = Callable[[str], str]  # by the request's first line; an empty text for none

_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS entries (book TEXT, number INT, text TEXT, PRIMARY KEY (book, number));
CREATE TABLE IF NOT EXISTS memos (book TEXT, writer TEXT, memo TEXT, PRIMARY KEY (book, writer));
"""


class Books:
    """The data on disk, for several threads."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.RLock()
        self._database = sqlite3.connect(file, check_same_thread=False)
        self._database.executescript(_TABLES)

    def answer(self, words: list[str], lines: list[str], gone: Callable[[], bool]) -> str:
        """Carry out a request in one transaction, and return the reply.

        Raises `ValueError` if the request is wrong, and `ConnectionError` if the client of an
        APPEND is gone. One that closes its connection later finds the memo, because it has to wait
        for the lock.
        """
        with self._lock:
            match words:
                case ["LAST", book]:
                    return f"OK {self.last(book)}\n"
                case ["PAGE", book, page] if page.isdecimal():
                    entries = self._page(book, int(page))
                    return f"OK {len(entries)}\n" + "".join(f"{n} {text}\n" for n, text in entries)
                case ["MEMO", book, writer]:
                    query = "SELECT memo FROM memos WHERE book = ? AND writer = ?"
                    row = self._database.execute(query, (book, writer)).fetchone()
                    return f"OK {row[0] if row else '-'}\n"
                case ["APPEND", book, writer, memo, _]:
                    if gone():
                        raise ConnectionError("the client is gone")
                    return f"OK {self.append(book, writer, memo, lines)}\n"
        raise ValueError("expected LAST book, PAGE book page, MEMO book writer or APPEND …")

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def last(self, book: str) -> int:
        query = "SELECT coalesce(max(number), 0) FROM entries WHERE book = ?"
        with self._lock:
            return int(self._database.execute(query, (book,)).fetchone()[0])

    def _page(self, book: str, page: int) -> list[tuple[int, str]]:
        query = "SELECT number, text FROM entries WHERE book = ? AND number <= ? ORDER BY 1 DESC"
        newest = self.last(book) - page * PAGE_ENTRIES
        return self._database.execute(f"{query} LIMIT {PAGE_ENTRIES}", (book, newest)).fetchall()

    def append(self, book: str, writer: str, memo: str, lines: list[str]) -> int:
        insert = "INSERT OR REPLACE INTO memos VALUES (?, ?, ?)"
        with self._lock, self._database:
            last = self.last(book)
            rows = [(book, number, line) for number, line in enumerate(lines, start=last + 1)]
            self._database.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
            self._database.execute(insert, (book, writer, memo))
        return last + len(lines)


class LedgerHandler(socketserver.StreamRequestHandler):
    """A client's connection: request after request."""

    timeout = SILENCE_SECONDS
    server: LedgerServer

    def handle(self) -> None:
        with suppress(OSError):  # the client is gone, or silent
            while (line := self._line()).endswith("\n") and self._answer(line[:-1]):
                pass

    def _line(self) -> str:
        return self.rfile.readline(MOST_BYTES + 1).decode(errors="replace")

    def _answer(self, request: str) -> bool:
        """Reply to a request; return whether the connection stays open."""
        try:
            words, lines = self._read(request)
            trouble = self.server.trouble(request)
            if trouble == BUSY:
                self.wfile.write(f"BUSY {BUSY_SECONDS}\n".encode())
                return True
            if trouble == SLOW:
                time.sleep(SLOW_SECONDS)
            reply = self.server.books.answer(words, lines, self._gone).encode()
        except ValueError as error:
            self.wfile.write(f"NO {error}\n".encode())
            return False  # the next request may begin anywhere
        if trouble in (LOST, CUT):
            self.wfile.write(reply[: len(reply) // 2] if trouble == CUT else b"")
            return False
        self.wfile.write(reply)
        return True

    def _read(self, request: str) -> tuple[list[str], list[str]]:
        """Return the words of a request, and the lines that follow it. Raises `ValueError`."""
        words, lines = request.split(" "), []
        if "" in words or max(map(len, words)) > MOST_LETTERS:
            raise ValueError(f"expected words of 1 to {MOST_LETTERS} letters")
        if words[0] == "APPEND":
            if not words[-1].isdecimal() or not 1 <= int(words[-1]) <= MOST_LINES:
                raise ValueError(f"APPEND takes 1 to {MOST_LINES} lines")
            lines = [self._line() for _ in range(int(words[-1]))]
            if not all(line.endswith("\n") for line in lines):
                raise ValueError(f"expected whole lines of at most {MOST_BYTES} bytes")
        return words, [line[:-1] for line in lines]

    def _gone(self) -> bool:
        """Whether the client has closed the connection."""
        readable, _, _ = select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)


def no_trouble(request: str) -> str:
    return ""


def usual_trouble() -> Trouble:
    """Return some of each kind, by the number of the request."""
    numbers = itertools.count(1)

    def trouble(request: str) -> str:
        number = next(numbers)
        turns = ((7, BUSY), (11, CUT), (13, LOST), (17, SLOW))
        return next((name for every, name in turns if number % every == 0), "")

    return trouble


class LedgerServer(socketserver.ThreadingTCPServer):
    """A ledger in this process, on `port` of the loopback; 0 finds a free one.

    It serves while it is used as a context manager.
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
        self.books.close()


# ---- A ledger in its own process -----------------------------------------------------------------


class Ledger(ServerProcess):
    """A ledger at `address`, with its data in `folder`. It makes the usual trouble."""

    documentation = DOCUMENTATION

    def __init__(self, folder: Path, port: int) -> None:
        self.address = f"{LOOPBACK}:{port}"
        command = [sys.executable, "-m", __name__, Path(folder).resolve(), port]
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
        return [rest, *(_read_line(stream) for _ in range(int(rest) if line[:4] == "PAGE" else 0))]


def _read_line(stream: BinaryIO) -> str:
    line = stream.readline()
    if not line.endswith(b"\n"):  # the cut may go through a letter
        raise ConnectionError("the connection broke in the middle of a reply")
    return line[:-1].decode()


def ask_until_reply(address: str, line: str) -> list[str]:
    """Send a request that changes nothing, again and again, until there is a reply."""
    return _retry(lambda: request(address, line))


def append_once(address: str, book: str, writer: str, memo: str, lines: Sequence[str]) -> None:
    """Append the lines once, even if replies get lost. Each call needs a new memo."""

    def work() -> None:
        if request(address, f"MEMO {book} {writer}") != [memo]:
            request(address, f"APPEND {book} {writer} {memo} {len(lines)}", lines)

    _retry(work)


def _retry(work: Callable[[], Answer]) -> Answer:
    may_pass = lambda error: isinstance(error, OSError)  # noqa: E731
    return Tries(may_pass, PATIENCE_SECONDS, BUSY_SECONDS).patiently(work)


def entries(address: str, book: str) -> list[str]:
    """Return the texts of a book, from its first entry on."""
    texts: dict[int, str] = {}
    page, lines = 0, [""]
    while lines:
        _, *lines = ask_until_reply(address, f"PAGE {book} {page}")
        texts |= {int(number): text for number, _, text in (line.partition(" ") for line in lines)}
        page += 1
    return [texts[number] for number in sorted(texts)]


if __name__ == "__main__":
    with LedgerServer(Path(sys.argv[1]) / "ledger.db", int(sys.argv[2]), usual_trouble()):
        signal.pause()
