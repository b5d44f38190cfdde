"""send_lines and send_file: what arrives, when, and what they say when it cannot."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.unit.network_lines.running import SECONDS
from tutorial_pkg.connectors.network_lines import sender
from tutorial_pkg.connectors.network_lines.sender import (
    LinesDroppedError,
    SenderRefusedError,
    send_file,
    send_lines,
)


class Receiver:
    """Takes everything that `connections` senders send, and says `answer` to each."""

    def __init__(self, connections: int, answer: bytes) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.received: list[bytes] = []
        self.close_now = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(connections, answer))
        self._thread.start()

    def _run(self, connections: int, answer: bytes) -> None:
        clients = [self._server.accept()[0] for _ in range(connections)]
        for client in clients:
            self.received.append(b"".join(iter(lambda c=client: c.recv(65536), b"")))
        self.close_now.wait(SECONDS)
        for client in clients:
            client.sendall(answer)
            client.close()

    def close(self) -> None:
        self.close_now.set()
        self._thread.join()
        self._server.close()


@contextmanager
def receiver(
    connections: int = 1, close_at_once: bool = True, answer: bytes = b""
) -> Iterator[Receiver]:
    opened = Receiver(connections, answer)
    if close_at_once:
        opened.close_now.set()
    try:
        yield opened
    finally:
        opened.close()


def test_lines_arrive_each_ended_by_one_newline() -> None:
    with receiver() as there:
        assert send_lines("127.0.0.1", there.port, ["eins", b"zwei\n", "", "größer"]) == 4
    assert there.received == ["eins\nzwei\n\ngrößer\n".encode()]


def test_any_iterable_of_any_length_is_sent() -> None:
    count = 3 * sender.LINES_AT_ONCE + 1
    with receiver() as there:
        assert send_lines("127.0.0.1", there.port, (f"{i}" for i in range(count))) == count
    assert there.received[0].split() == [b"%d" % i for i in range(count)]


def test_connections_take_turns_and_lose_nothing() -> None:
    count = 5 * sender.LINES_AT_ONCE
    with receiver(connections=3) as there:
        send_lines("127.0.0.1", there.port, map(str, range(count)), connections=3)
    assert all(there.received)
    assert sorted(int(line) for part in there.received for line in part.split()) == list(
        range(count)
    )


def test_it_returns_only_when_the_receiver_has_closed() -> None:
    with receiver(close_at_once=False) as there:
        sending = threading.Thread(target=send_lines, args=("127.0.0.1", there.port, ["a"]))
        sending.start()
        while not there.received:
            time.sleep(0.01)
        assert sending.is_alive()
        there.close_now.set()
        sending.join(SECONDS)
        assert not sending.is_alive()


def test_rate_spreads_the_lines_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(sender.time, "monotonic", lambda: 100.0 + sum(slept))
    monkeypatch.setattr(sender.time, "sleep", slept.append)
    groups = list(sender._paced(map(str, range(10)), rate=2))
    assert [len(group) for group in groups] == [1] * 10
    assert sum(slept) == pytest.approx(9 / 2)
    groups = list(sender._paced(map(str, range(1000)), rate=1000))
    assert [len(group) for group in groups] == [50] * 20


def test_file_with_and_without_last_newline(tmp_path) -> None:
    file = tmp_path / "lines"
    for content in (b"a\nb\r\n\n", b"a\nb\r\n\nlast"):
        file.write_bytes(content)
        with receiver() as there:
            send_file(file, "127.0.0.1", there.port)
        assert there.received == [content.removesuffix(b"\n") + b"\n"]


def test_nothing_listens(free_ports) -> None:
    port = free_ports(1)
    expected = f"nothing listens on 127.0.0.1:{port}; start the query first"
    with pytest.raises(ConnectionRefusedError, match=expected):
        send_lines("127.0.0.1", port, ["a"])


def test_broken_connection_says_how_far_it_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def endless() -> Iterator[str]:
            yield "first"
            client, _ = server.accept()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
            while True:
                yield "x" * 100

        expected = rf"the connection to 127\.0\.0\.1:{port} broke after about \d+ lines; what the"
        with pytest.raises(ConnectionError, match=expected):
            send_lines("127.0.0.1", port, endless())


@pytest.mark.parametrize("rate", [0, -1.5])
def test_bad_rate(rate: float) -> None:
    expected = f"^`rate` must be more than 0 lines per second, or None, got {rate}$"
    with pytest.raises(ValueError, match=expected):
        send_lines("127.0.0.1", 1, [], rate=rate)


def test_bad_connections() -> None:
    with pytest.raises(ValueError, match=r"^`connections` must be 1 or more, got 0$"):
        send_lines("127.0.0.1", 1, [], connections=0)


def test_newline_inside_a_line() -> None:
    expected = r"^a line cannot have a newline inside, got 'a\\nb'$"
    with receiver() as there, pytest.raises(ValueError, match=expected):
        send_lines("127.0.0.1", there.port, ["fine", "a\nb"])


@pytest.mark.parametrize("text", ["abc", b"abc"])
def test_a_text_is_not_taken_for_its_characters(text: str | bytes) -> None:
    kind = type(text).__name__
    with pytest.raises(TypeError) as error:
        send_lines("127.0.0.1", 1, text)
    assert str(error.value) == (
        f"`lines` must be an iterable of lines, got a {kind}, {text!r}; give [line] for one line, "
        "and text.splitlines() for a text"
    )


@pytest.mark.parametrize("line", [1, None, ("a",)])
def test_what_is_no_line(line: object) -> None:
    with receiver() as there, pytest.raises(TypeError) as error:
        send_lines("127.0.0.1", there.port, ["fine", line])
    assert str(error.value) == f"a line must be str or bytes, got {line!r}"


def test_dropped_lines_are_an_error_that_counts_them() -> None:
    with receiver(connections=2, answer=b"network_lines dropped: 1 too_long\n") as there:
        with pytest.raises(LinesDroppedError) as error:
            send_lines("127.0.0.1", there.port, ["a", "b", "c"], connections=2)
        assert str(error.value) == (
            f"127.0.0.1:{there.port} dropped 2 of 3 lines (2 too_long); the others are in its log. "
            "How long a line may be, the query's option `maxLineBytes` says"
        )


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b"network_lines " * 10_000])
def test_who_says_what_no_receiver_would_say_has_confirmed_nothing(answer: bytes) -> None:
    expected = r"^no `network_lines` listens there: it says '"
    with receiver(answer=answer) as there, pytest.raises(SenderRefusedError, match=expected):
        send_lines("127.0.0.1", there.port, ["a"])


def test_a_close_before_the_sender_has_ended_confirms_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def lines() -> Iterator[str]:
            yield from map(str, range(sender.LINES_AT_ONCE))
            client, _ = server.accept()
            with client, client.makefile() as taken:
                for _ in range(sender.LINES_AT_ONCE):
                    taken.readline()

        with pytest.raises(ConnectionError, match="broke after about 10000 lines"):
            send_lines("127.0.0.1", port, lines())


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_a_mute_receiver_is_not_waited_for_without_an_end(count: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        expected = f"^127.0.0.1:{port} has taken nothing and said nothing for 0.1 s; what the rec"
        with pytest.raises(TimeoutError, match=expected):
            send_lines("127.0.0.1", port, map(str, range(count)), timeout=0.1)
