"""The listener with real sockets and no Spark: what reaches the log, and what it counts."""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.connectors.network_lines import ports as ports_module
from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.listener import (
    Listener,
    PortLimits,
    PortListener,
)
from tutorial_pkg.connectors.network_lines.names import Names
from tutorial_pkg.connectors.network_lines.sender import LinesDroppedError, send_lines
from tutorial_pkg.connectors.network_lines.status import PortStatus, network_status
from tutorial_pkg.connectors.network_lines.whole_lines import FRAME_BYTES, LineBuffer
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import SegmentWriter, frames
from tutorial_pkg.durable_log.status import StatusFile

RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"


@contextmanager
def reset_when_done(client: socket.socket) -> Iterator[None]:
    """Close with a reset instead of in good order."""
    yield
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()


def test_lines_of_many_senders_are_complete_and_in_order(start) -> None:
    running = start()
    senders, each = 20, 5_000

    def send(sender: int) -> None:
        send_lines(HOST, running.port, (f"{sender},{number}" for number in range(each)))

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    received = [tuple(map(int, line.split(b","))) for line in running.lines()]
    for sender in range(senders):
        assert [number for who, number in received if who == sender] == list(range(each))
    assert len(received) == senders * each == running.status.lines
    assert running.status.accepted == senders


def test_a_sender_is_answered_only_after_its_lines_are_in_the_log(start) -> None:
    running = start()
    for number in range(50):
        send_lines(HOST, running.port, [str(number)])
        assert len(running.lines()) == number + 1


def test_a_sender_is_answered_only_after_its_lines_are_on_disk(start, monkeypatch) -> None:
    """All that end while the disk is at work share the next sync, and others are served."""
    running = start()
    go, syncs, sync = threading.Event(), [], running.log.sync

    def slow() -> int:
        syncs.append(sync())
        assert go.wait(SECONDS)
        return syncs[-1]

    monkeypatch.setattr(running.log, "sync", slow)
    senders = [threading.Thread(target=send_lines, args=(HOST, running.port, ["x"]))]
    senders[0].start()
    wait_until(lambda: syncs, SECONDS, "the first sync")
    senders += [threading.Thread(target=send_lines, args=(HOST, running.port, ["y"])) for _ in "ab"]
    for sender in senders[1:]:
        sender.start()
    assert running.wait_for_lines(3) == [b"x", b"y", b"y"]
    senders[0].join(0.1)
    assert all(sender.is_alive() for sender in senders)
    assert running.status.connections == 3
    go.set()
    for sender in senders:
        sender.join(SECONDS)
        assert not sender.is_alive()
    assert len(syncs) == 2


def test_a_disk_that_refuses_confirms_nothing_and_ends_the_query(start, monkeypatch) -> None:
    running = start()

    def broken(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as once:
        once.setattr(os, "fdatasync", broken)
        with pytest.raises(ConnectionError):
            send_lines(HOST, running.port, ["in the log, and not on disk"])
        wait_until(lambda: running.listener._ports[running.port].failure, SECONDS, "the failure")
    with pytest.raises(OSError, match="Input/output error"):
        running.listener.raise_failure()
    running.log._sync_failure = None  # for the teardown


class Packets:
    """A socket whose every read gives one packet."""

    def __init__(self, data: bytes, size: int) -> None:
        self.setblocking = self.setsockopt = lambda *_: None
        self._left = [data[place : place + size] for place in range(0, len(data), size)]

    def recv_into(self, room: memoryview) -> int:
        packet = self._left.pop(0) if self._left else b""
        room[: len(packet)] = packet
        return len(packet)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000])
def test_exact_bytes_however_they_are_cut_into_packets(size: int) -> None:
    text = b"crlf\r\n\n\r\n\xef\xbb\xbfbom\nnul\0nul\n\xff\xfe bad\n\xe2\x82\xac euro\nend"
    limits = PortLimits(line_bytes=1_000, connections=1, idle_seconds=1, keep_unterminated=True)
    buffer = LineBuffer(limits, PortStatus())
    connection = Connection(Packets(text, size))
    while buffer.receive(connection):
        pass
    buffer.end(connection)
    [(payload, rows)] = buffer.frames()
    assert bytes(payload) == text + b"\n"
    assert rows == 8


def test_half_lines_are_never_joined_to_those_of_others(start) -> None:
    running = start()
    with running.connect() as one, running.connect() as two:
        one.sendall(b"first ")
        wait_until(lambda: running.status.connections == 2, SECONDS, "both connections")
        two.sendall(b"other\nsecond ")
        running.wait_for_lines(1)
        one.sendall(b"half\n")
        running.wait_for_lines(2)
        two.sendall(b"half\n")
        assert running.wait_for_lines(3) == [b"other", b"first half", b"second half"]


def answer_to(running: Running, data: bytes) -> bytes:
    """Send `data`, and end; what comes back before a close in good order, or with a reset."""
    with running.connect() as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(1_000)
        if answer:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        return answer


def test_a_last_line_without_newline_is_dropped_and_the_sender_told(start) -> None:
    """The system closes a killed sender's connection in good order: it may be torn."""
    running = start()
    assert answer_to(running, b"amount=7\namount=10") == (
        b"network_lines dropped: 1 unterminated\n"
    )
    assert running.lines() == [b"amount=7"]
    assert running.status.dropped == {"too_long": 0, "unterminated": 1}
    assert running.status.kept_unterminated == 0


def test_a_last_line_without_newline_can_be_kept_and_is_counted(start) -> None:
    running = start(keep_unterminated=True)
    assert answer_to(running, b"a\nlast") == b""
    assert running.lines() == [b"a", b"last"]
    assert running.status.dropped == {"too_long": 0, "unterminated": 0}
    assert running.status.kept_unterminated == 1
    expected = "dropped: none, kept: 1 unterminated"
    wait_until(lambda: expected in str(network_status(running.directory)), SECONDS, expected)


def test_reasons_for_dropped_lines_are_told_together(start) -> None:
    running = start(line_bytes=3)
    answer = b"network_lines dropped: 2 too_long, 1 unterminated\n"
    assert answer_to(running, b"abcd\nabc\nefghij\nk") == answer
    assert running.lines() == [b"abc"]


def test_half_line_of_a_broken_connection_is_dropped_and_counted(start) -> None:
    running = start()
    client = running.connect()
    with reset_when_done(client):
        client.sendall(b"whole\nhalf")
        running.wait_for_lines(1)
    wait_until(lambda: running.status.dropped["unterminated"] == 1, SECONDS, "the count")
    send_lines(HOST, running.port, ["next"])
    assert running.lines() == [b"whole", b"next"]


@pytest.mark.parametrize("extra", [0, 1, 700, 5_000])
@pytest.mark.parametrize("ended_at_once", [True, False])
def test_too_long_line_is_dropped_and_counted_once(start, extra: int, ended_at_once: bool) -> None:
    running = start(line_bytes=1_000)
    longest, line = b"x" * 1_000, b"y" * (1_000 + extra)
    with running.connect() as client:
        client.sendall(b"before\n" + longest + b"\n" + line)
        if not ended_at_once:
            running.wait_for_lines(2)
        client.sendall(b"\nafter\n")
    kept = [line] if extra == 0 else []
    assert running.wait_for_lines(3 + len(kept)) == [b"before", longest, *kept, b"after"]
    assert running.status.dropped["too_long"] == 1 - len(kept)


def test_several_too_long_lines_in_a_row(start) -> None:
    running = start(line_bytes=10)
    lines = [b"z" * length for length in (11, 10, 200, 25, 9, 11, 0, 3_000)]
    with pytest.raises(LinesDroppedError, match=r"dropped 5 of 8 lines \(5 too_long\); the oth"):
        send_lines(HOST, running.port, lines)
    assert running.lines() == [line for line in lines if len(line) <= 10]
    assert running.status.dropped["too_long"] == 5


def test_endless_line_needs_no_memory(start) -> None:
    running = start()
    block = b"x" * (1 << 20)
    process = psutil.Process(os.getpid())
    with running.connect() as client:
        client.sendall(block)
        before = process.memory_info().rss
        for _ in range(200):
            client.sendall(block)
        client.sendall(b"\nnext\n")
        assert running.wait_for_lines(1) == [b"next"]
        assert process.memory_info().rss - before < 16 << 20
    assert running.status.dropped["too_long"] == 1


def test_frames_stay_within_the_limits(start) -> None:
    running = start(frame_rows=100, frame_bytes=1_000)
    lines = [b"%d" % number for number in range(5_000)] + [b"long" * 1_000]
    send_lines(HOST, running.port, lines)
    assert running.lines() == lines
    found = list(frames(running.directory / str(running.port), 0, running.log.end))
    assert sum(frame.rows for frame in found) == len(lines)
    assert max(frame.rows for frame in found) <= 100
    assert [frame.payload_bytes for frame in found if frame.payload_bytes > 1_000] == [4_001]


def test_a_clock_that_steps_back_changes_no_position(start) -> None:
    running = start()
    send_lines(HOST, running.port, ["a"])
    running.now -= 3_600
    send_lines(HOST, running.port, ["b"])
    assert running.lines() == [b"a", b"b"]
    found = list(frames(running.directory / str(running.port), 0, running.log.end))
    assert [frame.received_at for frame in found] == [1_000_000_000, -2_600_000_000]


def test_cap_of_connections_makes_others_wait(start) -> None:
    running = start(connections=3)
    clients = [running.connect() for _ in range(5)]
    for number, client in enumerate(clients):
        client.sendall(b"%d\n" % number)
    assert running.wait_for_lines(3) == [b"0", b"1", b"2"]
    assert (running.status.connections, running.status.accepted) == (3, 3)
    clients[1].close()
    assert running.wait_for_lines(4)[3:] == [b"3"]
    assert running.status.connections == 3
    for client in clients:
        client.close()
    assert running.wait_for_lines(5)[4:] == [b"4"]
    wait_until(lambda: running.status.connections == 0, SECONDS, "all closed")


def test_idle_connection_gives_its_slot_back(start) -> None:
    running = start(connections=1, idle_seconds=0.3)
    with running.connect() as idle:
        idle.sendall(b"half")
        send_lines(HOST, running.port, ["other"])
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
    assert running.lines() == [b"other"]
    assert (running.status.idle_closed, running.status.dropped["unterminated"]) == (1, 1)


def test_what_waits_is_read_before_anybody_counts_as_idle(tmp_path, free_ports) -> None:
    """A process that was stopped for a while, or a machine asleep, is no fault of the senders."""
    number = free_ports(1)
    logs, limits = {number: SegmentWriter(tmp_path / "log")}, PortLimits(1_000, 9, idle_seconds=300)
    listening = ports_module.bind(HOST, number, deadline=0)
    parts = Backlog(logs, 1 << 30), limits, Names(logs.values(), 9), time.time, None
    port = PortListener(number, listening, *parts)
    with socket.create_connection((HOST, number)) as client:
        port._resume_accepting()
        wait_until(lambda: port._turn() or port.status.accepted, SECONDS, "the connection")
        client.sendall(b"waits\n")
        for connection in port._connections:
            connection.last_line = -1e9
        port._next_sweep = 0.0
        port._turn()
        assert (port.status.connections, port.status.idle_closed) == (1, 0)
    port._close_all()
    logs[number].close()


def test_single_bytes_do_not_keep_a_slot(start) -> None:
    running = start(connections=1, idle_seconds=0.5)
    with running.connect() as slow:
        waiting = threading.Thread(target=send_lines, args=(HOST, running.port, ["other"]))
        waiting.start()
        with pytest.raises(ConnectionError):
            while True:
                slow.sendall(b"x")
                waiting.join(0.05)
        waiting.join(SECONDS)
    assert running.lines() == [b"other"]


def test_full_backlog_stops_reading_until_the_query_has_processed_some(start) -> None:
    running = start(max_backlog=100_000)
    lines = [b"%07d" % number for number in range(2_000_000)]
    sending = threading.Thread(target=send_lines, args=(HOST, running.port, lines))
    sending.start()
    wait_until(lambda: running.backlog.full, SECONDS, "a full backlog")
    stopped_at = running.log.end
    sending.join(0.5)
    assert sending.is_alive()
    assert running.log.end == stopped_at < 100_000 + 4 * FRAME_BYTES

    def all_sent() -> bool:
        running.backlog.processed({running.port: running.log.end})
        return not sending.is_alive()

    wait_until(all_sent, SECONDS, "the sender's end")
    assert running.lines() == lines


def test_10_000_connections_leave_nothing_behind(start) -> None:
    running = start()
    process = psutil.Process(os.getpid())
    send_lines(HOST, running.port, ["warm"])
    wait_until(lambda: running.status.connections == 0, SECONDS, "the close")
    files, threads = process.num_fds(), process.num_threads()
    for number in range(10_000):
        client = running.connect()
        if number % 2:
            client.sendall(b"x\n")
        client.close()
    assert len(running.wait_for_lines(5_001)) == 5_001
    wait_until(lambda: running.status.accepted == 10_001, SECONDS, "all accepted")
    wait_until(lambda: running.status.connections == 0, SECONDS, "all closed")
    # Not "equal": what earlier tests have left to the garbage collector may go meanwhile.
    wait_until(lambda: process.num_fds() <= files, SECONDS, "no growth in files")
    wait_until(lambda: process.num_threads() <= threads, SECONDS, "no growth in threads")


def test_more_connections_than_slots_come_to_an_end(start) -> None:
    running = start(connections=2)
    lines = [b"%d,%s" % (number, b"x" * 900) for number in range(60_000)]
    sending = threading.Thread(
        target=send_lines, args=(HOST, running.port, lines), kwargs={"connections": 3}
    )
    sending.start()
    sending.join(SECONDS)
    assert not sending.is_alive()
    assert sorted(running.lines()) == sorted(lines)


def test_descriptors_for_all_connections_are_asked_for() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        ports_module.have_descriptors(2, 260)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 520 + 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_few_descriptors_are_an_error_at_the_start(monkeypatch) -> None:
    monkeypatch.setattr(ports_module.resource, "getrlimit", lambda _: (256, 512))
    with pytest.raises(OSError) as error:
        ports_module.have_descriptors(2, 300)
    wanted = re.search(r"need (\d+) file", error.value.strerror)[1]
    assert 620 + 50 < int(wanted) < 1_000
    assert error.value.strerror == (
        "300 connections (option `maxConnections`) to each of 2 ports (option `parallelism`) need "
        f"{wanted} file descriptors, and this process may have 512; lower an option, or raise the "
        "limit (`ulimit -n`, LimitNOFILE) before the driver starts"
    )


def test_port_in_use_is_named_and_the_others_are_released(tmp_path, free_ports) -> None:
    port = free_ports(2)
    logs = {each: SegmentWriter(tmp_path / str(each)) for each in (port, port + 1)}
    limits = PortLimits(line_bytes=100, connections=1, idle_seconds=1)
    with socket.create_server((HOST, port + 1)):
        with pytest.raises(OSError, match="cannot listen") as error:
            Listener(tmp_path, HOST, list(logs), Backlog(logs, 1), limits, patience=0.2)
        assert error.value.strerror == (
            f"cannot listen on 127.0.0.1:{port + 1}: Address already in use. If another program or "
            "query uses it, stop that one or choose another option `port`; `host` must be an "
            "address of this machine"
        )
        socket.create_server((HOST, port)).close()
    for log in logs.values():
        log.close()


def test_foreign_host_is_refused_at_once(tmp_path, free_ports) -> None:
    port = free_ports(1)
    log = SegmentWriter(tmp_path / "log")
    limits = PortLimits(line_bytes=100, connections=1, idle_seconds=1)
    with pytest.raises(OSError, match=rf"cannot listen on 192\.0\.2\.1:{port}: "):
        Listener(tmp_path, "192.0.2.1", [port], Backlog({port: log}, 1), limits)
    log.close()


def test_waits_for_a_port_that_comes_free(tmp_path, free_ports, monkeypatch) -> None:
    port = free_ports(1)
    log = SegmentWriter(tmp_path / "log")
    holder = socket.create_server((HOST, port))
    waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: holder.close())
    monkeypatch.setattr(ports_module, "time", waiting)
    ports_module.bind(HOST, port, time.monotonic() + 10).close()
    log.close()


@pytest.mark.parametrize("kind", [OSError, SystemExit])  # the second is no `Exception`
def test_failure_of_the_log_reaches_the_query(start, monkeypatch, kind) -> None:
    running = start()
    running.listener.raise_failure()

    def no_room(*_: object) -> None:
        raise kind("no room for a frame of 2 bytes")

    monkeypatch.setattr(running.log, "append", no_room)
    with pytest.raises(ConnectionError):
        send_lines(HOST, running.port, ["not written, so not confirmed"])
    wait_until(lambda: running.listener._ports[running.port].failure, SECONDS, "the failure")
    with pytest.raises(kind, match="no room for a frame of 2 bytes"):
        running.listener.raise_failure()


def test_stopping_resets_a_connection_that_has_not_ended(start) -> None:
    running = start()
    with running.connect() as client:
        client.sendall(b"whole\nhalf")
        running.wait_for_lines(1)
        running.listener.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert running.lines() == [b"whole"]
    assert running.status.dropped["unterminated"] == 1


LISTENING = """
import os, sys, time
from pathlib import Path
from tutorial_pkg.connectors.network_lines.listener import PortLimits, Listener
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.segments import SegmentWriter
directory, port = Path(sys.argv[1]), int(sys.argv[2])
log = SegmentWriter(directory / "log")
log.append = lambda *_: os.kill(os.getpid(), 9)
limits = PortLimits(line_bytes=100, connections=1, idle_seconds=9)
Listener(directory, "127.0.0.1", [port], Backlog({port: log}, 1), limits)
print("listening", flush=True)
time.sleep(60)
"""


def test_process_killed_before_it_writes_confirms_nothing(tmp_path, free_ports) -> None:
    port = free_ports(1)
    command = [sys.executable, "-c", LISTENING, str(tmp_path), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"listening\n"
        with pytest.raises(ConnectionError, match="broke after about 1 lines"):
            send_lines(HOST, port, ["received, but never written"])
    assert process.returncode == -9


def test_status_is_published_for_others(start) -> None:
    running = start(line_bytes=5)
    path = running.directory
    waiting = f"Waiting for connection on port {running.port} ..."
    wait_until(lambda: str(network_status(path)) == waiting, SECONDS, "the waiting")
    assert network_status(path).listening
    assert network_status(path).process == os.getpid()
    with pytest.raises(LinesDroppedError):
        send_lines(HOST, running.port, ["12345", "123456", ""])
    expected = (
        f"Port {running.port}: 0 connections, 2 lines, 7 bytes, backlog 31 bytes, "
        "dropped: 1 too_long"
    )
    wait_until(lambda: str(network_status(path)) == expected, SECONDS, expected)
    running.backlog.processed({running.port: running.log.end})
    wait_until(
        lambda: network_status(path).ports[running.port].backlog_bytes == 0, SECONDS, "backlog 0"
    )
    running.lock.release()
    assert not network_status(path).listening
    running.lock = WriterLock(path)
    running.listener.close()
    assert not network_status(path).listening
    assert str(network_status(path)) == (
        f"Port {running.port}: not listening; 2 lines, 7 bytes received"
    )


def test_status_goes_on_after_the_disk_was_full(start, monkeypatch) -> None:
    running = start()
    wait_until(lambda: network_status(running.directory).listening, SECONDS, "the first status")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(StatusFile, "write", full)
        send_lines(HOST, running.port, ["one"])
        warnings = running.listener._publisher._warnings
        wait_until(lambda: warnings, SECONDS, "the failure noticed")
    wait_until(
        lambda: network_status(running.directory).ports[running.port].lines == 1, SECONDS, "one"
    )
    expected = ["the status could not be written for a while: No space left on device"]
    assert network_status(running.directory).warnings == expected


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ports": {"11000": {"new": 1}}}', "12"])
def test_damaged_status(tmp_path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    expected = f"^{tmp_path}/status.json is damaged; delete it: a query that runs writes it anew$"
    with pytest.raises(ValueError, match=expected):
        network_status(tmp_path)


def test_status_of_version_0_1_0(tmp_path) -> None:
    port = (
        '{"listening": true, "connections": 1, "accepted": 2, "idle_closed": 0, "bytes": 9, '
        '"lines": 3, "backlog_bytes": 0, "dropped": {"too_long": 0, "unterminated": 0}}'
    )
    text = f'{{"process": 1, "ports": {{"11000": {port}}}, "warnings": []}}'
    (tmp_path / "status.json").write_text(text)
    assert str(network_status(tmp_path)) == "Port 11000: not listening; 3 lines, 9 bytes received"


def test_status_before_any_query(tmp_path) -> None:
    status = network_status(tmp_path / "log")
    assert (status.listening, status.process, status.ports) == (False, None, {})
    assert str(status) == f"No query has listened for the log {tmp_path}/log yet."
