"""send_lines: what arrives, when they return, and their errors."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.unit.network_lines.running import HOST, RESET_ON_CLOSE, SECONDS
from tutorial_pkg.connectors.network_lines import sender
from tutorial_pkg.connectors.network_lines.forward import send_named
from tutorial_pkg.connectors.network_lines.sender import (
    LinesDroppedError,
    SenderRefusedError,
    send_lines,
)


class Receiver:
    """Reads what its client sends until it ends, replies when `close_now` is set, and closes."""

    def __init__(self, server: socket.socket, reply: bytes) -> None:
        self._server, self._reply = server, reply
        self.port = server.getsockname()[1]
        self.received = b""
        self.all_received, self.close_now = threading.Event(), threading.Event()

    def run(self) -> None:
        with self._server.accept()[0] as client:
            self.received = b"".join(iter(lambda: client.recv(65536), b""))
            self.all_received.set()
            self.close_now.wait(SECONDS)
            client.sendall(self._reply)


@contextmanager
def receiver(reply: bytes = b"") -> Iterator[Receiver]:
    with ThreadPoolExecutor(1) as thread, socket.create_server((HOST, 0)) as server:
        receiver = Receiver(server, reply)
        running = thread.submit(receiver.run)
        receiver.close_now.set()
        yield receiver
        running.result(SECONDS)


def test_each_line_ends_with_one_newline() -> None:
    with receiver() as server:
        assert send_lines(HOST, server.port, ["eins", b"zwei\n", "", "größer"]) == 4
    assert server.received == "eins\nzwei\n\ngrößer\n".encode()


def test_send_returns_when_receiver_closes() -> None:
    with receiver() as server, ThreadPoolExecutor(1) as thread:
        server.close_now.clear()
        sending = thread.submit(send_lines, HOST, server.port, ["a"])
        assert server.all_received.wait(SECONDS)
        assert not sending.done()
        server.close_now.set()
        assert sending.result(SECONDS) == 1


@pytest.mark.parametrize(
    ("lines", "options", "error"),
    [
        ([], {"rate": 0}, ValueError),
        (["fine", "a\nb"], {}, ValueError),
        (["fine", 1], {}, TypeError),
        ("abc", {}, TypeError),
    ],
)
def test_wrong_arguments_are_errors(lines: Any, options: dict[str, Any], error: type) -> None:
    with socket.create_server((HOST, 0)) as server, pytest.raises(error, match="got"):
        send_lines(HOST, server.getsockname()[1], lines, **options)


# ---- A receiver that does not store everything ---------------------------------------------------


def test_nothing_listens(free_ports) -> None:
    port = free_ports(1)
    with pytest.raises(ConnectionRefusedError, match=f"nothing listens on {HOST}:{port}"):
        send_lines(HOST, port, ["a"])


@pytest.mark.parametrize("resets", [True, False])
def test_early_close_confirms_nothing(resets: bool) -> None:
    with socket.create_server((HOST, 0)) as server:

        def endless() -> Iterator[str]:
            yield from map(str, range(sender.LINES_AT_ONCE))
            client, _ = server.accept()
            if resets:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            client.close()
            while True:
                yield "x" * 100

        with pytest.raises(ConnectionError, match=r"broke after about \d+ lines"):
            send_lines(HOST, server.getsockname()[1], endless())


def test_dropped_lines_are_counted() -> None:
    with (
        receiver(reply=b"network_lines dropped: 1 too_long\n") as server,
        pytest.raises(LinesDroppedError, match=r"dropped some of 3 lines \(1 too_long\)"),
    ):
        send_lines(HOST, server.port, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "no `network_lines` listens there"),
        (b"network_lines " * 10_000, "no `network_lines` listens there"),
        (b"\xff\xfe\n", "no `network_lines` listens there"),
        (b"\x15\x03\x03\x00\x02\x02\x32", "expects TLS"),
    ],
)
def test_strange_reply_confirms_nothing(reply: bytes, expected: str) -> None:
    with receiver(reply=reply) as server, pytest.raises(SenderRefusedError, match=expected):
        send_lines(HOST, server.port, ["a"])


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_silent_receiver_is_a_timeout(count: int) -> None:
    with (
        socket.create_server((HOST, 0)) as server,
        pytest.raises(TimeoutError, match=r"for 0\.1 s"),
    ):
        send_lines(HOST, server.getsockname()[1], map(str, range(count)), timeout=0.1)


def test_slow_lines_use_up_no_patience() -> None:
    """The receiver's time to confirm begins when the sender waits for it."""

    def lines() -> Iterator[str]:
        yield "a"
        time.sleep(1.6)

    with receiver() as server, ThreadPoolExecutor(1) as thread:
        server.close_now.clear()
        sending = thread.submit(send_lines, HOST, server.port, lines(), timeout=1.5)
        assert server.all_received.wait(SECONDS)
        time.sleep(0.7)
        server.close_now.set()
        assert sending.result(SECONDS) == 1


# ---- A port of the wrong kind --------------------------------------------------------------------


@pytest.mark.parametrize("name", [None, "host-7"])
@pytest.mark.parametrize("lines", [1, 100_000])
@pytest.mark.parametrize("kind", ["TLS", "RELP"])
def test_plain_sender_learns_the_protocol(
    start, tmp_path, certificates, kind: str, lines: int, name: str | None
) -> None:
    running = start(**certificates.files()) if kind == "TLS" else start(protocol="relp")
    (tmp_path / "file").write_bytes(b"a line\n" * lines)
    with pytest.raises(SenderRefusedError, match=f"expects {kind}"):
        if name:
            send_named(tmp_path / "file", HOST, running.port, name)
        else:
            send_lines(HOST, running.port, (tmp_path / "file").open("rb"))
    assert running.lines() == []


def test_tls_sender_learns_that_port_is_plain(start, certificates) -> None:
    running = start()
    with pytest.raises(SenderRefusedError, match="probably expects no TLS"):
        send_lines(HOST, running.port, ["a"], tls=certificates.client())
    assert running.lines() == []
