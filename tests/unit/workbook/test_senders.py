"""The workbook's senders: lines in the background, a bar in the cell, ports that are free."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from spark_connector_tests.query_process import wait_until
from workbook import senders
from workbook.senders import Bar, free_ports, play, wait_for_listener


def test_join_raises_what_sending_raised() -> None:
    with pytest.raises(ConnectionRefusedError, match="nothing listens on"):
        play(["one"], free_ports()).join()


def test_lines_go_in_the_background_and_the_bar_ends_full(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    monkeypatch.setattr(senders.DisplayHandle, "display", lambda self, bar: drawn.append(str(bar)))
    monkeypatch.setattr(senders.DisplayHandle, "update", lambda self, bar: drawn.append(str(bar)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = [str(number) for number in range(50)]
        sending = play(lines, server.getsockname()[1], rate=100)
        wait_until(lambda: len(drawn) > 2, 60, "drawing the bar")
        client, _ = server.accept()
        with client:
            while client.recv(65536):
                """Take all that comes; its end is confirmed by closing."""
        assert sending.join() == 50
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
    command = "from workbook.senders import free_ports; print(free_ports())"
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
