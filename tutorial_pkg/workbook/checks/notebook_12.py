"""Checks of notebook 12: the learner's socket client meets a server of the check's own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.workbook.checks.trial import Buffer, context_of
from tutorial_pkg.workbook.checks.verdict import Wrong, exercise

SECONDS = 3.0
FILL_SECONDS, PATIENCE_SECONDS = 0.5, 1.0  # so long `fill` may wait; and more if all is slow
PIECES = b"one\ntwo\nthr", b"ee\n\xc3", b"\xa9\ntail"  # é in two pieces, and no newline at the end
HOST = "127.0.0.1"


@contextmanager
def _server(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that talks to one client; its port."""
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(SECONDS)

        def serve() -> None:
            try:
                client, _ = listener.accept()
                with client:
                    client.settimeout(SECONDS)
                    talk(client)
            except OSError:
                return  # nobody came, or went too early: the check says so

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            thread.join(2 * SECONDS)


def _hears_the_end(connection: socket.socket, received: bytearray) -> bool:
    """Whether the client closes in time; what it sends until then goes into `received`."""
    try:
        while data := connection.recv(65536):
            received += data
    except TimeoutError:
        return False
    except ConnectionError:
        return True  # it closed before it had read all
    return True


# ---- Exercise 1: a source ------------------------------------------------------------------------


@exercise("class Client")
def check_12_1(answer: Any) -> str:
    """Does the class `answer` read a server's lines, also those that come in pieces?"""
    _reads(answer)
    return "Whole lines only, no waiting, and it knows the end."


def _reads(client: Any) -> None:
    go_on, ended = threading.Semaphore(0), threading.Event()

    def talk(connection: socket.socket) -> None:
        for piece in PIECES:
            connection.sendall(piece)
            go_on.acquire(timeout=SECONDS)
        connection.shutdown(socket.SHUT_WR)
        if _hears_the_end(connection, bytearray()):
            ended.set()

    with _server(talk) as port:
        try:
            state = client(context_of(port=port))
            _reads_all(state, go_on)
            state.close()
            if not ended.wait(SECONDS):
                raise Wrong("The server still has a connection: `close` closes the socket.")
        finally:
            go_on.release(len(PIECES))


def _reads_all(state: Any, go_on: threading.Semaphore) -> None:
    buffer = Buffer()
    _fill(state, buffer, 2)
    _expect(buffer, ["one", "two"], "A line is whole when its newline is there; keep the rest.")
    started = time.monotonic()
    state.fill(buffer)
    if time.monotonic() - started > FILL_SECONDS + PATIENCE_SECONDS:
        raise Wrong(
            "`fill` waits for what has not come: "
            f"set a timeout, of {FILL_SECONDS:g} seconds at most."
        )
    go_on.release()
    _fill(state, buffer, 3)
    go_on.release()
    _fill(state, buffer, 4)
    _expect(buffer, ["one", "two", "three", "é"], "Lines come in pieces: join, then decode.")
    go_on.release()
    _fill(state, buffer, 5)
    hint = "What is behind the last newline is no line, also when the server has closed: leave it."
    _expect(buffer, ["one", "two", "three", "é"], hint)
    if not buffer.closed:
        raise Wrong("The server has closed (`recv` returned b''): call `buffer.close()`.")


def _fill(state: Any, buffer: Buffer, rows: int) -> None:
    end = time.monotonic() + SECONDS
    while len(buffer.rows) < rows and not buffer.closed and time.monotonic() < end:
        try:
            state.fill(buffer)
        except UnicodeDecodeError as error:
            raise Wrong("A character came in two pieces: join the bytes, then decode.") from error


def _expect(buffer: Buffer, wanted: list[str], hint: str) -> None:
    if buffer.rows != wanted:
        raise Wrong(f"{hint} Wanted {wanted}, got {buffer.rows}.")


# ---- Exercise 2: a sink --------------------------------------------------------------------------


@exercise("class Sender")
def check_12_2(answer: Any) -> str:
    """Does the class `answer` send each row as a line, and all of them before it closes?"""
    _sends(answer)
    return "Each row is a line, and `close` leaves nothing behind."


def _sends(sender: Any) -> None:
    received, ended = bytearray(), threading.Event()
    rows = [f"row {number} é" for number in range(1000)]

    def talk(connection: socket.socket) -> None:
        if _hears_the_end(connection, received):
            ended.set()

    with _server(talk) as port:
        state = sender(context_of(port=port))
        for row in rows:
            state.receive(SimpleNamespace(line=row))
        state.close()
    lines = received.decode().splitlines()
    if lines != rows:
        raise Wrong(
            f"1,000 rows were given, and {len(lines)} lines arrived, the first one {lines[:1]}: "
            "`sendall`, not `send`, of the text, encoded, with a newline behind it."
        )
    if not ended.is_set():
        raise Wrong("All rows arrived, but the connection stays open: `close` closes the socket.")
