"""The listener with real sockets and no Spark: what reaches the log, and what it counts."""

from __future__ import annotations

import os
import re
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.connectors.network_lines import ports as ports_module
from tutorial_pkg.connectors.network_lines.line_buffer import FRAME_BYTES
from tutorial_pkg.connectors.network_lines.listener import (
    Listener,
    PortLimits,
)
from tutorial_pkg.connectors.network_lines.sender import LinesDroppedError, send_lines
from tutorial_pkg.connectors.network_lines.status import network_status
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import SegmentWriter, frames

RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"


@contextmanager
def resetting(client: socket.socket) -> Iterator[None]:
    """Close with a reset instead of in good order."""
    yield
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()


def test_many_senders_at_once(start) -> None:
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


def test_close_waits_for_the_disk(start, monkeypatch) -> None:
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


def test_failed_sync_ends_the_query(start, monkeypatch) -> None:
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


def test_unterminated_line_is_reported(start) -> None:
    """The system closes a killed sender's connection in good order: it may be torn."""
    running = start()
    assert answer_to(running, b"amount=7\namount=10") == (
        b"network_lines dropped: 1 unterminated\n"
    )
    assert running.lines() == [b"amount=7"]
    assert running.status.dropped == {"too_long": 0, "unterminated": 1}
    assert running.status.kept_unterminated == 0


def test_unterminated_line_can_be_kept(start) -> None:
    running = start(keep_unterminated=True)
    assert answer_to(running, b"a\nlast") == b""
    assert running.lines() == [b"a", b"last"]
    assert running.status.dropped == {"too_long": 0, "unterminated": 0}
    assert running.status.kept_unterminated == 1
    expected = "dropped: none, kept: 1 unterminated"
    wait_until(lambda: expected in str(network_status(running.directory)), SECONDS, expected)


def test_half_line_of_a_broken_connection(start) -> None:
    running = start()
    client = running.connect()
    with resetting(client):
        client.sendall(b"whole\nhalf")
        running.wait_for_lines(1)
    wait_until(lambda: running.status.dropped["unterminated"] == 1, SECONDS, "the count")
    send_lines(HOST, running.port, ["next"])
    assert running.lines() == [b"whole", b"next"]


@pytest.mark.parametrize("extra", [0, 1, 700, 5_000])
@pytest.mark.parametrize("ended_at_once", [True, False])
def test_too_long_line_is_counted_once(start, extra: int, ended_at_once: bool) -> None:
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


def test_connection_limit_makes_others_wait(start) -> None:
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


def test_idle_connection_frees_its_slot(start) -> None:
    running = start(connections=1, idle_seconds=0.3)
    with running.connect() as idle:
        idle.sendall(b"half")
        send_lines(HOST, running.port, ["other"])
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
    assert running.lines() == [b"other"]
    assert (running.status.idle_closed, running.status.dropped["unterminated"]) == (1, 1)


def test_full_backlog_stops_reading(start) -> None:
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


def test_descriptor_limit_is_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        ports_module.have_descriptors(2, 260)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 520 + 50
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_few_descriptors_are_an_error(monkeypatch) -> None:
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


def test_port_in_use_is_named(tmp_path, free_ports) -> None:
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


def test_close_resets_open_connections(start) -> None:
    running = start()
    with running.connect() as client:
        client.sendall(b"whole\nhalf")
        running.wait_for_lines(1)
        running.listener.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert running.lines() == [b"whole"]
    assert running.status.dropped["unterminated"] == 1


def test_status_is_published(start) -> None:
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
