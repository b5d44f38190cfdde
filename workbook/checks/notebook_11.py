"""Checks of notebook 11: the learner's socket client meets a server of the check's own."""

from __future__ import annotations

import errno
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self
from unittest import mock

from pyspark.sql import Row

from workbook.checks.trial import Buffer, context_of
from workbook.checks.verdict import Wrong, exercise, told

PATIENCE = 5.0  # seconds: ten times as long as `fill` may wait, so that a slow machine passes
LONGEST_WAIT = 0.8  # seconds, of a `fill` for which nothing has come: half a second, and some time
HOST = "127.0.0.1"


class _Server(socketserver.ThreadingTCPServer):
    """Talks to each client in a thread of its own, until `talk` comes back."""

    request_queue_size = 100
    daemon_threads = True  # one whose client does not close ends with the process

    def __init__(self, talk: Callable[[socket.socket], None]) -> None:
        super().__init__((HOST, 0), socketserver.BaseRequestHandler)
        self.port, self.clients, self.ended = int(self.server_address[1]), 0, threading.Event()
        self._talk = talk

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def finish_request(self, request: Any, client_address: Any) -> None:
        self.clients += 1
        with suppress(OSError):  # the client closed before it had read all
            self._talk(request)
        self.ended.set()


def _connections(state: Any) -> list[socket.socket]:
    """The learner's open ones."""
    held = getattr(state, "__dict__", {}).values()
    sockets = [each for each in held if isinstance(each, socket.socket)]
    return [each for each in sockets if each.fileno() >= 0]


def _read_to_end(connection: socket.socket, received: bytearray) -> None:
    while data := connection.recv(65536):
        received += data


# ---- Exercise 1: a source ------------------------------------------------------------------------

PIECES = (
    b" one \n\ntwo\ntwo\nthr",
    b"ee\rx\n\xc3",  # é is cut in two
    b"\xa9\xe2\x80\xa8y\ntail",  # a line separator that is none of ours; this tail then grows
)
LINES = [" one ", "", "two", "two", "three\rx", "é\u2028y"]
_WHOLE = "A line is whole when its newline is there; keep the rest for the next piece."
_ALL = (
    "A line is all that is between two newlines, spaces too, and it may be empty: use "
    "split(b'\\n'), not strip() or splitlines()."
)
_DECODE = "A character came in two pieces: join the bytes, then decode them as UTF-8."
_OWN = "Another client has another server's rest: keep it in `self`, and begin it in `__init__`."
_TAIL = "What follows the last newline is no line, even when the server has closed: leave it out."


@exercise("class Client")
def check_11_1(answer: Any) -> str:
    """Does the class `answer` read a server's lines, also those that come in pieces?"""
    go_on = threading.Semaphore(0)

    def talk(connection: socket.socket) -> None:
        for piece in PIECES:
            connection.sendall(piece)
            last = piece is PIECES[-1]
            while not go_on.acquire(timeout=0.05 if last else None):
                connection.sendall(b".")  # a server that never rests
        connection.shutdown(socket.SHUT_WR)
        _read_to_end(connection, bytearray())

    try:
        with _Server(talk) as server:
            state = answer(context_of(port=server.port))
            _read_all(state, go_on)
            state.close()
            if not server.ended.wait(PATIENCE) or _connections(state):
                raise Wrong("The server still has a connection: `close` closes the socket.")
            go_on.release(len(PIECES))
            _read_at_once(answer(context_of(port=server.port)))
    finally:
        go_on.release(len(PIECES))
    return "Whole lines only, no long wait, and it notices the end."


def _read_all(state: Any, go_on: threading.Semaphore) -> None:
    buffer, waits = Buffer(), []
    for rows, hint in ((4, _WHOLE), (5, _WHOLE), (6, _DECODE)):
        _fill(state, buffer, rows)
        _compare(buffer, LINES[:rows], hint)
        begin = time.monotonic()
        _fill_once(state, buffer)  # no newline has come
        waits.append(time.monotonic() - begin)
        if buffer.closed:
            raise Wrong(
                "It called `buffer.close()` while the server was still there: a TimeoutError says "
                "only that nothing has come yet. The end is when `recv` returns b''."
            )
        if len(waits) == 2 and min(waits) > LONGEST_WAIT:
            raise Wrong(f"`fill` waits for {min(waits):.1f} seconds: use settimeout(0.5).")
        go_on.release()
    _fill(state, buffer, len(LINES) + 1)
    _compare(buffer, LINES, _TAIL)
    if not buffer.closed:
        raise Wrong("The server has closed (`recv` returned b''): call `buffer.close()`.")


def _read_at_once(state: Any) -> None:
    """A second client, whose server sends everything and closes."""
    buffer = Buffer()
    _fill(state, buffer, len(LINES) + 1)
    state.close()
    _compare(buffer, LINES, _OWN)


def _fill(state: Any, buffer: Buffer, rows: int) -> None:
    """Call `fill` until there are that many rows."""
    end = time.monotonic() + PATIENCE
    while len(buffer.rows) < rows and not buffer.closed and time.monotonic() < end:
        _fill_once(state, buffer)


def _fill_once(state: Any, buffer: Buffer) -> None:
    """In a thread, since a `fill` that waits for what never comes must not stop the check."""
    errors: list[Exception] = []

    def fill() -> None:
        try:
            state.fill(buffer)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive():
        raise Wrong("`fill` waits for what has not come: settimeout(0.5), and recv() once.")
    for error in errors:
        _tell(error)


def _tell(error: Exception) -> None:
    if isinstance(error, UnicodeDecodeError):
        raise Wrong(_DECODE) from None
    if "timed out object" in str(error):
        raise Wrong(
            "A file made by `makefile` cannot be read any more after a time-out: use `recv`, and "
            "keep what follows the last newline in `self`."
        ) from None
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        raise Wrong(
            "`fill` was called after the connection was closed: when the server has closed it, "
            "call `buffer.close()`, so that the builder stops asking."
        ) from None
    raise Wrong(f"`fill` raised {told(error)}") from None


def _compare(buffer: Buffer, wanted: list[str], hint: str) -> None:
    found = buffer.rows
    if not found:
        raise Wrong("`fill` has added nothing: buffer.add(line.decode()) for every whole line.")
    for row in found:
        if not isinstance(row, str) or row.startswith("b'"):
            raise Wrong(f"A line is wanted as a str, this is {row!r}: buffer.add(line.decode()).")
    if found != wanted:
        same = "".join("".join(found).split()) == "".join("".join(wanted).split())
        raise Wrong(f"{_ALL if same else hint} Wanted {wanted}, got {found}.")


# ---- Exercise 2: a sink --------------------------------------------------------------------------


# Each twice, and no round number.
MOST_IN_A_BUFFER = 1000  # rows, that a file made by `makefile` may keep until it is closed
ROWS = ["", *(f"row {number // 2} é " for number in range(2, 998))]


@exercise("class Sender")
def check_11_2(answer: Any) -> str:
    """Does the class `answer` send each row as a line, and all of them before it closes?"""
    # The system may take a part only of what `send` is given; here it always does.
    with mock.patch.object(socket.socket, "send", _send_a_part):
        for rows in (ROWS, ["again"], [], 3 * ROWS):
            try:
                _send_all(answer, rows)
            except Wrong:
                raise
            except Exception as error:
                raise Wrong(f"For a task with {len(rows)} rows it raised {told(error)}") from None
    return "Each row is a line, and `close` leaves nothing behind."


def _send_all(answer: Any, rows: list[str]) -> None:
    received = bytearray()
    with _Server(lambda connection: _read_to_end(connection, received)) as server:
        state = answer(context_of(port=server.port))
        for number, row in enumerate(rows):
            state.receive(Row(number=number, line=row))
            if server.clients > 1:
                raise Wrong(
                    "It opens a connection for each row, which is slow, and the order of rows is "
                    "lost: open one in `__init__`, and use it for every row."
                )
        end = time.monotonic() + PATIENCE
        while len(rows) > MOST_IN_A_BUFFER and not received:
            if time.monotonic() > end:
                raise Wrong(
                    f"`receive` was called for {len(rows)} rows, and before `close` nothing came: "
                    "let `receive` send its row."
                )
            time.sleep(0.01)
        state.close()
        closed = not rows or server.ended.wait(PATIENCE)
    _compare_lines(bytes(received), rows)
    if not closed or _connections(state):
        raise Wrong("All rows arrived, but the connection stays open: `close` closes the socket.")


PART = 7  # bytes
_send = socket.socket.send


def _send_a_part(connection: socket.socket, data: bytes, *flags: int) -> int:
    return _send(connection, data[:PART], *flags)


def _compare_lines(received: bytes, rows: list[str]) -> None:
    each = [f"{row}\n".encode() for row in rows]
    wanted, lines = b"".join(each), received.decode(errors="replace").split("\n")
    if received == wanted:
        return
    if received == wanted[:-1]:
        raise Wrong("The last line has no newline: each row is a line, and a line ends with one.")
    if received == b"".join(line[:PART] for line in each):
        raise Wrong("`send` may send only a part of what it is given: use `sendall`.")
    if wanted.startswith(received):
        arrived = f"only {len(lines) - 1}" if received else "none"
        raise Wrong(
            f"Of {len(rows)} lines {arrived} arrived: let `receive` send its row, and flush what "
            "is kept, such as in a file made by `makefile`, before `close` ends."
        )
    if received.startswith(wanted):
        more = received.removeprefix(wanted)
        raise Wrong(f"After the lines of all {len(rows)} rows came {more[:40]!r}: send no more.")
    for number, (line, row) in enumerate(zip(lines, rows, strict=False), 1):
        if line != row:
            shown = line if len(line) < 40 else f"{line[:39]}…"
            raise Wrong(
                f"Line {number} of {len(rows)} must be {row!r}, yours is {shown!r}: send each "
                "row's `line` as it is, in order, encoded, with one newline after it."
            )
