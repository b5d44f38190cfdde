"""Senders with a name: every line is in the log once, whatever was cut."""

from __future__ import annotations

import contextlib
import json
import logging
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.faults.cutting_proxy import CuttingProxy
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.__main__ import main
from tutorial_pkg.connectors.network_lines import forward
from tutorial_pkg.connectors.network_lines.connection import RefusedError
from tutorial_pkg.connectors.network_lines.forward import (
    Exchange,
    NameInUseError,
    follow,
    send_named,
)
from tutorial_pkg.connectors.network_lines.listener import PortLimits
from tutorial_pkg.connectors.network_lines.named import greeting_of
from tutorial_pkg.connectors.network_lines.names import Names
from tutorial_pkg.connectors.network_lines.notes import split, with_note
from tutorial_pkg.connectors.network_lines.sender import SenderRefusedError, send_lines
from tutorial_pkg.connectors.network_lines.tls import client_tls
from tutorial_pkg.durable_log.segments import SegmentWriter, frames


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


def test_over_tls_the_name_belongs_to_the_client(start, tmp_path, certificates) -> None:
    running, file = start(tls=certificates.files()), tmp_path / "file"
    expected = write(file, range(100_000))
    one, two = certificates.client("one"), certificates.client("two")
    send_named(file, HOST, running.port, "host-7", tls=one)
    with pytest.raises(SenderRefusedError, match="'host-7' belongs to the client 'one', and this"):
        send_named(file, HOST, running.port, "host-7", tls=two)
    assert running.lines() == expected


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


def test_blocks_are_acknowledged_only_when_they_are_on_disk(start, monkeypatch) -> None:
    running = start()
    go, sync = threading.Event(), running.log.sync
    with exchange(running) as sender:
        monkeypatch.setattr(running.log, "sync", lambda: (go.wait(SECONDS), sync())[1])
        sender.send(b"a\n", 1)
        assert running.wait_for_lines(1) == [b"a"]
        sender.rest(0.2)
        assert sender._stored == 0
        go.set()
        sender.finish()
        assert sender._stored == 1


def test_what_plain_senders_do_not_notice(start) -> None:
    """`nc` gets no answer; a NUL at its beginning is text; a greeting later is a line."""
    running = start()
    greeting = greeting_of("host-7")
    with running.connect() as client:
        client.sendall(b"\0netw")
        client.sendall(b"\nhello\n" + greeting)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    assert running.lines() == [b"\0netw", b"hello", greeting.rstrip()]


@pytest.mark.parametrize("cut", [1, 5, 15, 20, -1])
def test_half_a_greeting_is_no_line_that_is_kept(start, cut: int) -> None:
    """Its sender was killed, or cut off, right after it had connected."""
    running = start(keep_unterminated=True)
    with running.connect() as client:
        client.sendall(greeting_of("host-7")[:cut])
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            client.recv(1_000)
    send_lines(HOST, running.port, ["a line"])
    assert running.lines() == [b"a line"]
    assert running.status.kept_unterminated == 0


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_greeting_in_pieces(start, size: int) -> None:
    running, greeting = start(), greeting_of("host-7")
    with running.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(greeting), size):
            client.sendall(greeting[place : place + size])
        welcome = json.loads(client.recv(1_000))
        assert welcome["position"] is None
        block = b'{"bytes":4,"position":{"next":4}}\na\nb\n'
        for place in range(0, len(block), size):
            client.sendall(block[place : place + size])
        assert json.loads(client.recv(1_000)) == {"stored": 1}
    assert running.lines() == [b"a", b"b"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b'\0network_lines {"version":2,"name":"a"}\n', "the sender speaks version 2, and the rec"),
        (b'\0network_lines {"version":1,"name":""}\n', "a name has 1 to 200 letters, digits, blan"),
        (b'\0network_lines {"version":1,"name":"a\\n"}\n', "a name has 1 to 200 letters, digits"),
        (b'\0network_lines {"version":1}\n', "got None"),
        (b"\0network_lines \n", "not a greeting: "),
        (greeting_of("a") + b"more\n", "not a greeting: "),
    ],
)
def test_greetings_that_are_refused(start, said: bytes, expected: str) -> None:
    running = start()
    with running.connect() as client:
        client.sendall(said)
        answer = json.loads(client.recv(1_000))
    assert expected in answer["refused"]
    assert running.status.refused == {"sender": 1}
    send_lines(HOST, running.port, ["others are served"])


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (b"hello\n", "not the header of a block: b'hello'"),
        (b'{"bytes":2}\na\n', "a block needs the position behind it"),
        (b'{"bytes":-1,"position":1}\n', "a block has 1310720 bytes at most, got -1"),
        (b'{"bytes":99999999,"position":1}\n', "a block has 1310720 bytes at most, got 99999999"),
        (b'{"bytes":1,"position":1}\na', "a block is whole lines"),
        (b'{"bytes":3,"position":1}\na\nb', "a block is whole lines"),
        (b"x" * (1 << 20) + b"xx", "a header of more than 1048576 bytes"),
    ],
)
def test_blocks_that_are_refused(start, block: bytes, expected: str) -> None:
    running = start()
    with running.connect() as client:
        client.sendall(greeting_of("host-7"))
        client.recv(1_000)
        client.sendall(block)
        assert expected in json.loads(client.recv(1_000))["refused"]
    assert running.lines() == []


@pytest.fixture
def wait_for_sign(monkeypatch) -> Callable[[Exchange, Callable[[], bool]], None]:
    """Let a third of the idle time pass for a sender that has nothing to send."""
    passed = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0])

    def wait(sender: Exchange, heard: Callable[[], bool]) -> None:
        monkeypatch.setattr(forward, "time", clock)
        passed[0] += sender.welcome["idle_seconds"] / 3 + 1
        wait_until(lambda: sender.rest(0.01) or heard(), SECONDS, "a sign of life")

    return wait


def test_a_sender_that_is_silent_between_lines_keeps_its_connection(start, wait_for_sign) -> None:
    running = start()
    with exchange(running) as sender:
        [connection] = running.listener._ports[running.port]._connections
        for _ in range(5):
            before = connection.last_line
            wait_for_sign(sender, lambda: connection.last_line > before)  # noqa: B023
        sender.send(b"a\n", 1)
        sender.finish()


def test_a_disk_that_is_full_ends_the_query_and_confirms_nothing(start, monkeypatch) -> None:
    running = start()

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with exchange(running) as sender:
        monkeypatch.setattr(running.log, "append", no_room)
        with pytest.raises(ConnectionError):
            sender.send(b"a\n", 1)
            sender.finish()
    wait_until(lambda: running.listener._ports[running.port].failure, SECONDS, "the failure")
    with pytest.raises(OSError, match="No space left on device"):
        running.listener.raise_failure()


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


def test_positions_are_found_in_the_newest_segment_alone(tmp_path) -> None:
    """As a table at each segment's start, so that older ones can be deleted."""
    log = SegmentWriter(tmp_path, segment_bytes=1)
    names = Names([log], 100, lambda: 1.0)
    for number, name in enumerate(["one", "two", "one", "three"]):
        names.begin(name, None)
        append = lambda senders: log.append(with_note(b"x\n", {"senders": senders}), 1, 0)  # noqa: E731
        names.append(log, name, None, str(number), append)
        names.end(name)
    log.append(with_note(b"plain\n", {"senders": names.all_for(log)}), 1, 0)
    log.sync()
    log.delete_below(log.end)
    found = Names([log], 100, lambda: 1.0)
    assert {name: found.position(name) for name in ("one", "two", "three")} == {
        "one": "2",
        "two": "1",
        "three": "3",
    }
    log.close()


def test_a_name_in_several_logs_has_its_newest_position(tmp_path) -> None:
    logs = [SegmentWriter(tmp_path / name) for name in ("a", "b")]
    names = Names(logs, 100, lambda: 1.0)
    for number in (0, 1, 0):
        names.begin("host", None)
        position = str(names._known["host"].count) if number or names._known else "0"
        names.append(
            logs[number],
            "host",
            None,
            position,
            lambda senders, log=logs[number]: log.append(
                with_note(b"x\n", {"senders": senders}), 1, 0
            ),
        )
        names.end("host")
    assert Names(logs, 100, lambda: 1.0).position("host") == "2"
    for log in logs:
        log.close()


def test_names_are_forgotten_but_not_while_they_are_connected(tmp_path) -> None:
    log, now = SegmentWriter(tmp_path), [0.0]
    names = Names([log], 100, lambda: now[0])
    for name in ("gone", "there"):
        names.begin(name, None)
        names.append(log, name, None, "7", lambda _: None)
    names.end("gone")
    now[0] = 99.0
    assert names.begin("gone", None).position == "7"
    names.end("gone")
    now[0] = 300.0
    assert names.begin("gone", None).position == "null"
    assert names.is_getting_old("there") is False
    now[0] = 330.0
    assert names.is_getting_old("there")
    assert names.position("there") == "7"
    log.close()


@pytest.mark.parametrize("ports", [("1", "1"), ("1", "2")])
def test_a_name_that_was_forgotten_keeps_what_it_has_sent_since(tmp_path, ports) -> None:
    """The log still has its position of before, which must not count as the newer one."""
    now = [0.0]

    def logs() -> dict[str, SegmentWriter]:
        return {port: SegmentWriter(tmp_path / port) for port in ("1", "2")}

    def send(port: str, position: int) -> None:
        def write(senders: Any) -> None:
            opened[port].append(with_note(b"a\n", {"senders": senders}), 1, 0)

        names.append(opened[port], "host-7", None, str(position), write)

    opened = logs()
    names = Names(opened.values(), 100, lambda: now[0])
    for position in range(50):
        send(ports[0], position)
    now[0] = 500.0
    assert names.begin("host-7", None).position == "null"
    send(ports[1], 3)
    for log in opened.values():
        log.close()
    opened = logs()
    assert Names(opened.values(), 100, lambda: now[0]).begin("host-7", None).position == "3"
    for log in opened.values():
        log.close()


def test_a_silent_sender_is_written_down_before_it_would_be_forgotten(start, wait_for_sign) -> None:
    running = start(forget_seconds=100)
    with exchange(running) as sender:
        sender.send(b"a\n", 1)
        running.wait_for_lines(1)
        running.now += 90
        end = running.log.end
        wait_for_sign(sender, lambda: running.log.end > end)
    [last] = list(frames(running.directory / str(running.port), end, running.log.end))[:1]
    assert last.rows == 0
    running.now += 90
    free(running)
    with exchange(running) as sender:
        assert sender.welcome["position"] == 1


def test_too_many_names_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tutorial_pkg.connectors.network_lines.names.MOST_NAMES", 2)
    log = SegmentWriter(tmp_path)
    names = Names([log], 100)
    names.begin("one", None)
    names.begin("two", None)
    with pytest.raises(RefusedError, match="the receiver knows 0 names already"):
        names.begin("three", None)
    log.close()


@pytest.mark.parametrize("lines", [b"", b"a\n", b"\0\n", b"a\n\0\0\0\0\0\n"])
def test_notes_and_lines_are_told_apart(lines: bytes) -> None:
    for note in ({}, {"client": "a\0\n"}, {"senders": {"x": {"position": "1"}}}):
        found, read = split(memoryview(with_note(lines, note)))
        assert (bytes(found), read) == (lines, note)


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
