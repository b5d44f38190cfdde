"""Checks of notebook 12: the learner's socket client meets a server of the check's own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.workbook.checks.verdict import Verdict, Wrong, exercise, judged, not_yet

SECONDS = 3.0
HOST = "127.0.0.1"


@contextmanager
def _server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that talks to one client; its port."""
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(SECONDS)

        def serve() -> None:
            try:
                client, _ = listener.accept()
            except TimeoutError:
                return  # nobody came: the check says so
            with client:
                client.settimeout(SECONDS)
                talk(client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            thread.join(2 * SECONDS)


def _context(port: int) -> SimpleNamespace:
    return SimpleNamespace(index=0, count=1, options=SimpleNamespace(port=port))


# ---- Exercise 1: a source ------------------------------------------------------------------------


class Added:
    """Stands for the builder's buffer."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.closed = False

    def add(self, row: Any, token: Any = None) -> None:
        self.rows.append(row)

    def close(self) -> None:
        self.closed = True


@exercise
def check_12_1(answer: Any) -> Verdict:
    """Does the class `answer` read a server's lines, also those that come in pieces?"""
    if not isinstance(answer, type):
        return not_yet("A class is wanted: class Client: ...")
    return judged(lambda: _reads(answer), "Whole lines only, no waiting, and it knows the end.")


def _reads(client: Any) -> None:
    go_on = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(b"one\ntwo\nthr")
        go_on.wait(SECONDS)
        connection.sendall("ee\né\n".encode())

    with _server(talk) as port:
        state, buffer = client(_context(port)), Added()
        _fill(state, buffer, 2)
        _expect(buffer, ["one", "two"], "A line is whole when its newline is there; keep the rest.")
        started = time.monotonic()
        state.fill(buffer)
        if time.monotonic() - started > 2:
            raise Wrong("`fill` waits for what has not come: set a timeout of a second at most.")
        go_on.set()
        _fill(state, buffer, 4)
        _expect(buffer, ["one", "two", "three", "é"], "Lines come in pieces: join, then decode.")
        _fill(state, buffer, 5)
        if not buffer.closed:
            raise Wrong("The server has closed (`recv` returned b''): call `buffer.close()`.")
        state.close()


def _fill(state: Any, buffer: Added, rows: int) -> None:
    end = time.monotonic() + SECONDS
    while len(buffer.rows) < rows and not buffer.closed and time.monotonic() < end:
        state.fill(buffer)


def _expect(buffer: Added, wanted: list[str], hint: str) -> None:
    if buffer.rows != wanted:
        raise Wrong(f"{hint} Wanted {wanted}, got {buffer.rows}.")


# ---- Exercise 2: a sink --------------------------------------------------------------------------


@exercise
def check_12_2(answer: Any) -> Verdict:
    """Does the class `answer` send each row as a line, and all of them before it closes?"""
    if not isinstance(answer, type):
        return not_yet("A class is wanted: class Sender: ...")
    return judged(lambda: _sends(answer), "Each row is a line, and `close` leaves nothing behind.")


def _sends(sender: Any) -> None:
    received: list[bytes] = []
    rows = [f"row {number} é" for number in range(1000)]

    def talk(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            received.append(data)

    with _server(talk) as port:
        state = sender(_context(port))
        for row in rows:
            state.receive(SimpleNamespace(line=row))
        state.close()
    lines = b"".join(received).decode().splitlines()
    if lines != rows:
        raise Wrong(
            f"1,000 rows were given, and {len(lines)} lines arrived, the first one {lines[:1]}: "
            "`sendall`, not `send`, of the text, encoded, with a newline behind it."
        )
