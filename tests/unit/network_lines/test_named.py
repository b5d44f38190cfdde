"""Senders with a name: every line is in the log once, whatever was cut."""

from __future__ import annotations

import logging
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.faults.cutting_proxy import CuttingProxy
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.__main__ import main
from tutorial_pkg.connectors.network_lines import forward
from tutorial_pkg.connectors.network_lines.forward import (
    Exchange,
    NameInUseError,
    follow,
    send_named,
)
from tutorial_pkg.connectors.network_lines.listener import PortLimits
from tutorial_pkg.connectors.network_lines.sender import SenderRefusedError
from tutorial_pkg.connectors.network_lines.tls import client_tls
from tutorial_pkg.durable_log.segments import frames


def write(path: Path, lines: range) -> list[bytes]:
    expected = [b"line %d" % number for number in lines]
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in expected))
    return expected


def exchange(running: Running, name: str = "host-7") -> Exchange:
    return Exchange((HOST, running.port), name, None)


def free(running: Running) -> None:
    wait_until(lambda: running.status.connections == 0, SECONDS, "the end of the connection")


# ---- A file --------------------------------------------------------------------------------------


def test_a_file_is_sent_once_however_often_it_is_sent(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    expected = write(file, range(50_000))
    assert send_named(file, HOST, running.port, "host-7") == 50_000
    assert send_named(file, HOST, running.port, "host-7") == 0
    expected += write(file, range(50_000, 50_100))
    assert send_named(file, HOST, running.port, "host-7") == 100
    assert running.lines() == expected


def test_it_goes_on_after_a_restart_of_the_receiver(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    expected = write(file, range(1_013))
    send_named(file, HOST, running.port, "host-7")
    running.restart()
    expected += write(file, range(1_013, 1_100))
    assert send_named(file, HOST, running.port, "host-7") == 87
    assert running.lines() == expected


def test_connections_cut_anywhere_lose_and_repeat_nothing(start, tmp_path, monkeypatch) -> None:
    """A proxy cuts each connection after some bytes, mostly in the middle of a line."""
    monkeypatch.setattr("tutorial_pkg.connectors.network_lines.named.BLOCK_BYTES", 10_000)
    running, file = start(), tmp_path / "file"
    expected = write(file, range(60_000))
    chance, cuts = random.Random(27), 0
    with CuttingProxy(running.port) as proxy:
        while running.lines() != expected:
            proxy.most = chance.randint(0, 200_000)
            try:
                send_named(file, HOST, proxy.port, "host-7")
            except ConnectionError:
                cuts += 1
            free(running)
    assert cuts > 3
    assert running.status.dropped == {"too_long": 0, "unterminated": 0}


def test_a_last_line_without_newline_is_not_sent_and_said(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    file.write_bytes(b"whole\ntorn")
    with pytest.raises(ValueError, match="its last 4 bytes have no newline after them"):
        send_named(file, HOST, running.port, "host-7")
    assert running.lines() == [b"whole"]
    file.write_bytes(b"whole\ntorn no more\n")
    assert send_named(file, HOST, running.port, "host-7") == 1
    assert running.lines() == [b"whole", b"torn no more"]


@pytest.mark.parametrize("content", [b"", b"a\n", b"x\nb\n", b"a\nx\nc\n"])
def test_a_replaced_or_truncated_file_is_refused(start, tmp_path, content: bytes) -> None:
    running, file = start(), tmp_path / "file"
    file.write_bytes(b"a\nb\n")
    send_named(file, HOST, running.port, "host-7")
    file.write_bytes(content)
    expected = "does not begin with the 4 bytes that the receiver has from this name: it was rep"
    with pytest.raises(ValueError, match=expected):
        send_named(file, HOST, running.port, "host-7")
    assert running.lines() == [b"a", b"b"]
    assert send_named(file, HOST, running.port, "host-7 anew") == content.count(b"\n")


def test_a_line_that_is_too_long_is_an_error_and_nothing_behind_it_is_sent(start, tmp_path) -> None:
    running, file = start(line_bytes=1_000), tmp_path / "file"
    file.write_bytes(b"a" * 1_000 + b"\nb\n" + b"c" * 1_001 + b"\nd\n")
    expected = "the line at byte 1003 has more than 1000 bytes, and the receiver takes no longer"
    with pytest.raises((ValueError, SenderRefusedError), match=r"1001 bytes|" + expected):
        send_named(file, HOST, running.port, "host-7")


def test_lines_longer_than_a_block(start, tmp_path) -> None:
    running, file = start(line_bytes=1 << 20), tmp_path / "file"
    lines = [b"x" * size for size in (300_000, 5, 1 << 20, 0, 262_143, 262_144)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    send_named(file, HOST, running.port, "host-7")
    assert running.lines() == lines


def test_frames_stay_within_the_limits(start, tmp_path) -> None:
    running, file = start(frame_rows=100, frame_bytes=1_000), tmp_path / "file"
    expected = write(file, range(5_000))
    send_named(file, HOST, running.port, "host-7")
    assert running.lines() == expected
    found = list(frames(running.directory / str(running.port), 0, running.log.end))
    assert max(frame.rows for frame in found) <= 100


def test_the_rate_is_kept(start, tmp_path, monkeypatch) -> None:
    running, file = start(), tmp_path / "file"
    write(file, range(1_000))
    slept: list[float] = []
    clock = type("Clock", (), {"monotonic": lambda: 5.0 + sum(slept), "sleep": slept.append})
    monkeypatch.setattr(forward, "time", clock)
    send_named(file, HOST, running.port, "host-7", rate=500)
    assert sum(slept) == pytest.approx(975 / 500)


# ---- What the two sides say ----------------------------------------------------------------------


def test_a_second_sender_with_the_name_is_refused(start, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(forward, "IN_USE_SECONDS", 0.0)
    running, file = start(), tmp_path / "file"
    write(file, range(3))
    with exchange(running) as first:
        with pytest.raises(NameInUseError, match="another sender with the name 'host-7' is conne"):
            send_named(file, HOST, running.port, "host-7")
        send_named(file, HOST, running.port, "host-8")
        first.send(b"still served\n", {"next": 13})
        first.finish()
    assert running.status.refused == {"in_use": 1}
    assert b"still served" in running.lines()
    free(running)
    with exchange(running) as third:
        assert third.welcome["position"] == {"next": 13}


def test_a_receiver_that_does_not_answer_any_more_is_away(start) -> None:
    """Something in between may keep up a connection whose other end is gone."""
    running = start(idle_seconds=0.3)
    with exchange(running) as sender:
        running.listener._ports[running.port]._wait_for_room = lambda: None
        running.backlog._max_bytes = -1  # it reads nothing from now on
        with pytest.raises(ConnectionResetError, match="does not answer any more"):
            while True:
                sender.rest(0.05)


def test_a_close_in_good_order_while_nothing_is_sent_is_noticed() -> None:
    """A receiver resets; what stands before it may not."""
    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(1) as thread:

        def welcome_and_close() -> None:
            with server.accept()[0] as client:
                client.recv(1_000)
                client.sendall(b'{"position":null,"idle_seconds":300}\n')

        thread.submit(welcome_and_close)
        with (
            Exchange(server.getsockname(), "host-7", None) as sender,
            pytest.raises(ConnectionResetError, match="has ended the connection"),
        ):
            wait_until(lambda: sender.rest(0.01), SECONDS, "the end")


# ---- What is known of names ----------------------------------------------------------------------


# ---- Files that grow -----------------------------------------------------------------------------


class Following:
    """`follow` on a thread, until `stop`, which raises what ended it."""

    def __init__(self, path: Path, port: int, tls: Callable[[], Any] = lambda: None) -> None:
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        words = path, HOST, port, "host-7", tls, self._stopping
        self._ended = self._thread.submit(follow, *words)

    def stop(self) -> None:
        self._stopping.set()
        self._ended.result(SECONDS)
        self._thread.shutdown()


@pytest.fixture
def followed() -> Iterator[Callable[..., Following]]:
    begun: list[Following] = []

    def begin(*words: Any) -> Following:
        begun.append(Following(*words))
        return begun[-1]

    yield begin
    for each in begun:
        each.stop()


def test_a_folder_is_followed_through_rotation(start, tmp_path, followed) -> None:
    running, folder = start(), tmp_path / "logs"
    folder.mkdir()
    expected = write(folder / "app.log", range(1_000))
    followed(folder, running.port)
    running.wait_for_lines(1_000)
    for turn in range(1, 4):
        (folder / "app.log").rename(folder / f"app.log.{turn}")
        expected += write(folder / "app.log", range(turn * 1_000, turn * 1_000 + 500))
        running.wait_for_lines(len(expected))
    assert sorted(running.lines()) == sorted(expected)


def test_following_needs_no_memory_for_a_large_file(start, tmp_path) -> None:
    listening, file, line = start(), tmp_path / "app.log", b"x" * 999 + b"\n"
    file.write_bytes(line)
    words = ["send", "--follow", file, "--name", "host-7", "--port", listening.port]
    command = [sys.executable, "-m", "tutorial_pkg", *map(str, words)]
    with subprocess.Popen(command) as sender:
        try:
            listening.wait_for_lines(1)
            before = peak_memory(sender.pid)
            for _ in range(128):
                with file.open("ab") as growing:
                    growing.write(line * 1_000)
            wait_until(lambda: listening.status.lines == 128_001, SECONDS, "all lines")
            assert peak_memory(sender.pid) - before < 32 << 20
        finally:
            sender.kill()


def peak_memory(process: int) -> int:
    """In bytes, since its start."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10


def test_following_goes_on_where_it_stopped(start, tmp_path, followed) -> None:
    running, file = start(), tmp_path / "app.log"
    expected = write(file, range(1_000))
    for turn in range(1, 4):
        following = followed(file, running.port)
        running.wait_for_lines(len(expected))
        following.stop()
        expected += write(file, range(turn * 1_000, turn * 1_000 + 999))
    followed(file, running.port)
    running.wait_for_lines(len(expected))
    assert running.lines() == expected


def test_a_receiver_that_is_away_is_waited_for_and_said_once(
    tmp_path, free_ports, followed, caplog
) -> None:
    port, file = free_ports(1), tmp_path / "app.log"
    expected = write(file, range(100))
    with caplog.at_level(logging.INFO):
        followed(file, port)
        wait_until(lambda: "is away" in caplog.text, SECONDS, "the warning")
        running = Running(tmp_path / "log", port, PortLimits(1 << 20, 256, 300))
        assert running.wait_for_lines(100) == expected
        running.close()
        wait_until(lambda: caplog.text.count("is away") == 2, SECONDS, "the second warning")
        write(file, range(100, 200))
        running = Running(tmp_path / "log", port, PortLimits(1 << 20, 256, 300))
        wait_until(lambda: len(running.lines()) == 200, SECONDS, "all lines")
        assert caplog.text.count("is away") == 2
    assert running.lines() == [b"line %d" % number for number in range(200)]
    running.close()


def test_a_network_that_is_away_is_waited_for_too(
    start, tmp_path, followed, caplog, monkeypatch
) -> None:
    """A host that is down refuses no connection, nor does one that breaks off a handshake."""
    running, file = start(), tmp_path / "app.log"
    expected = write(file, range(100))
    connect = socket.create_connection
    away: list[OSError] = [
        OSError(113, "No route to host"),
        TimeoutError(),
        socket.gaierror(-3, ""),
    ]

    def try_to_connect(*words: Any, **more: Any) -> socket.socket:
        if away:
            raise away.pop()
        return connect(*words, **more)

    monkeypatch.setattr(socket, "create_connection", try_to_connect)
    followed(file, running.port)
    assert running.wait_for_lines(100) == expected
    assert caplog.text.count("is away") == 1


@pytest.mark.parametrize(
    ("whose", "names", "broken", "said"),
    [
        ("server", [HOST], False, "shows a certificate that is not to be trusted: certificate has"),
        ("host-7", ["host-7"], False, "does not accept this sender's certificate"),
        ("host-7", ["host-7"], True, "host-7.pem cannot be used"),
    ],
    ids=["the receiver's has expired", "the sender's has expired", "the sender's is half written"],
)
def test_following_waits_for_a_renewed_certificate(
    start, tmp_path, followed, caplog, whose, names, broken, said
) -> None:
    mine, file = Certificates(tmp_path), tmp_path / "app.log"
    client = mine.issue("host-7", "host-7")
    running, expected = start(tls=mine.files()), write(file, range(100))
    followed(file, running.port, lambda: client_tls(mine.ca, client))
    running.wait_for_lines(100)
    renewed = mine.issue(whose, *names, until=datetime.now(UTC) - timedelta(days=1))
    if broken:
        renewed.write_bytes(renewed.read_bytes()[:100])
    running.restart()
    wait_until(lambda: said in caplog.text, SECONDS, "the reason")
    expected += write(file, range(100, 200))
    mine.issue(whose, *names)
    wait_until(lambda: len(running.lines()) == 200, SECONDS, "all lines")
    assert running.lines() == expected
    assert caplog.text.count(said) == 1


def test_a_name_is_for_one_kind_of_sending(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    write(file, range(3))
    send_named(file, HOST, running.port, "host-7")
    with pytest.raises(ValueError, match="this name was used for another kind of sending"):
        follow(file, HOST, running.port, "host-7")


# ---- The command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "give one of FILE and --follow PATH"),
        (["x", "--follow", "y"], "give one of FILE and --follow PATH"),
        (["--follow", "y"], "--follow needs a --name, by which the receiver knows what it has"),
        (["x", "--name", "n", "--connections", "2"], "a sender with a --name has one connection"),
        (["x", "--tls-certificate", "c"], "--tls-ca is missing: the authority that the receiver's"),
        (["x", "--tls-ca", "/none"], "`ca`: /none cannot be used: No such file or directory"),
    ],
)
def test_words_that_do_not_fit(words: list[str], expected: str, capsys) -> None:
    assert main(["send", *words]) == 1
    assert f"send: {expected}" in capsys.readouterr().err
