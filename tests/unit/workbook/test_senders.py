"""The workbook's senders: lines in the background, a bar in the cell, ports that are free."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tutorial_pkg.processes.query_process import wait_until
from tutorial_pkg.workbook import senders
from tutorial_pkg.workbook.senders import Bar, free_ports, play, wait_for_listener


class Receiver(threading.Thread):
    """Takes all that one sender sends, when it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.may_read = threading.Event()
        self.received = b""
        self.start()

    def run(self) -> None:
        client, _ = self._server.accept()
        with client:
            self.may_read.wait(30)
            while data := client.recv(65536):
                self.received += data

    def close(self) -> None:
        self.may_read.set()
        self.join(30)
        self._server.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    there = Receiver()
    yield there
    there.close()


def test_lines_go_while_the_caller_goes_on(receiver: Receiver) -> None:
    sending = play(["one", "two", "three"], receiver.port)
    assert receiver.received == b""  # play() is back, though nobody has read yet
    receiver.may_read.set()
    assert sending.join() == 3
    assert receiver.received == b"one\ntwo\nthree\n"


def test_a_file_is_sent_as_it_is(receiver: Receiver, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes("größer\r\n\nlast\u2028line\n".encode())
    receiver.may_read.set()
    assert play(file, receiver.port).join() == 3
    assert receiver.received == file.read_bytes()


def test_join_raises_what_sending_raised() -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing listens on"):
        play(["one"], free_ports()).join()


def test_the_bar_shows_how_far_and_ends_full(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr(senders.DisplayHandle, "display", lambda self, bar: drawn.append(str(bar)))
    monkeypatch.setattr(senders.DisplayHandle, "update", lambda self, bar: drawn.append(str(bar)))
    sending = play([str(number) for number in range(50)], receiver.port, rate=100)
    wait_until(lambda: len(drawn) > 2, 60, "drawing the bar")
    receiver.may_read.set()
    sending.join()
    assert drawn[0] == "0 of 50 lines sent"
    assert drawn[-1] == "50 of 50 lines sent"
    assert drawn[1] != drawn[-1]


def test_the_bar_in_a_notebook() -> None:
    bar = Bar(10)
    bar.sent = 3
    assert bar._repr_html_() == '<progress value="3" max="10"></progress> 3 of 10 lines sent'


def test_free_ports_are_free_and_the_usual_one_is_preferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(senders, "_reserve", lambda port: True)
    monkeypatch.setattr(senders, "is_free", lambda port: True)
    assert free_ports(3) == 11000
    monkeypatch.setattr(senders, "is_free", lambda port: port != 11001)
    assert free_ports(1) == 11000
    assert free_ports(2) == 11002
    monkeypatch.setattr(senders, "is_free", lambda port: False)
    with pytest.raises(OSError, match="no 2 consecutive free ports from 11000"):
        free_ports(2)


def test_another_process_gets_other_ports() -> None:
    command = "from tutorial_pkg.workbook.senders import free_ports; print(free_ports())"
    mine = free_ports()
    others = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)
    assert int(others.stdout) != mine
    assert free_ports() == mine  # nothing listens there yet, and it is still ours


def test_a_port_that_is_taken_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", free_ports())) as taken:
        port = taken.getsockname()[1]
        assert free_ports() != port
        wait_for_listener(port, seconds=5)
    with pytest.raises(TimeoutError, match=f"somebody listening on port {port} did not happen"):
        wait_for_listener(port, seconds=0.1)


class EndedQuery:
    isActive = False

    def exception(self) -> Exception:
        return OSError("no such address")


def test_a_query_that_has_ended_is_not_waited_for() -> None:
    port = free_ports()
    with pytest.raises(RuntimeError, match="before it listened: OSError: no such address"):
        wait_for_listener(port, EndedQuery())
    with socket.create_server(("127.0.0.1", port)):
        wait_for_listener(port, EndedQuery())
