"""Plain lines over real sockets, without Spark: what reaches the log, and what is counted."""

from __future__ import annotations

import os
import resource
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.unit.network_lines.running import HOST, RESET_ON_CLOSE, SECONDS, Running
from tutorial_pkg.connectors.network_lines import network_status
from tutorial_pkg.connectors.network_lines.sender import LinesDroppedError, send_lines
from tutorial_pkg.durable_log.segments import frames


def test_many_senders_at_once(start) -> None:
    running, senders, count = start(), 20, 5_000

    def send(sender: int) -> None:
        send_lines(HOST, running.port, (f"{sender},{number}" for number in range(count)))

    with ThreadPoolExecutor(senders) as threads:
        list(threads.map(send, range(senders)))
    received = [tuple(map(int, line.split(b","))) for line in running.lines()]
    for sender in range(senders):
        assert [number for who, number in received if who == sender] == list(range(count))
    assert len(received) == senders * count == running.status.lines
    assert running.status.accepted == senders


def test_close_waits_for_the_disk(start, monkeypatch) -> None:
    """All that end while the disk is at work share the next sync, and others are served."""
    running = start()
    go, syncs, sync = threading.Event(), [], os.fdatasync

    def slow(file: int) -> None:
        syncs.append(sync(file))
        assert go.wait(SECONDS)

    monkeypatch.setattr(os, "fdatasync", slow)
    with ThreadPoolExecutor(3) as threads:
        sending = [threads.submit(send_lines, HOST, running.port, ["x"])]
        wait_until(lambda: syncs, SECONDS, "the first sync")
        sending += [threads.submit(send_lines, HOST, running.port, ["y"]) for _ in range(2)]
        assert running.wait_for_lines(3) == [b"x", b"y", b"y"]
        assert not any(sender.done() for sender in sending)
        assert running.status.connections == 3
        go.set()
        assert [sender.result(SECONDS) for sender in sending] == [1, 1, 1]
    assert len(syncs) == 2


@pytest.mark.parametrize("call", ["fdatasync", "writev"])
def test_failing_disk_ends_the_query(start, monkeypatch, call: str) -> None:
    running = start()

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as once:
        once.setattr(os, call, broken)
        with pytest.raises(ConnectionError):
            send_lines(HOST, running.port, ["not on disk"])
        wait_until(lambda: not running.status.listening, SECONDS, "the failure")
    with pytest.raises(OSError, match="No space left"):
        running.listener.raise_failure()
    running.log._sync_failure = None  # for the teardown


def reply_to(running: Running, data: bytes) -> bytes:
    """Send `data` and end; return what comes before a close in good order, or with a reset."""
    with running.connect() as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        reply = client.recv(1_000)
        if reply:
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        return reply


def test_unterminated_line_is_reported(start) -> None:
    running = start()
    reply = reply_to(running, b"amount=7\namount=10")
    assert reply == b"network_lines dropped: 1 unterminated\n"
    assert running.lines() == [b"amount=7"]
    assert running.status.dropped == {"too_long": 0, "unterminated": 1}


def test_unterminated_line_can_be_kept(start) -> None:
    running = start(unterminated="keep")
    assert reply_to(running, b"a\nlast") == b""
    assert running.lines() == [b"a", b"last"]
    assert running.status.kept_unterminated == 1


def test_half_line_of_a_broken_connection(start) -> None:
    running = start(unterminated="keep")
    with running.connect() as client:
        client.sendall(b"whole\nhalf")
        running.wait_for_lines(1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    wait_until(lambda: running.status.dropped["unterminated"] == 1, SECONDS, "the count")
    assert running.lines() == [b"whole"]


@pytest.mark.parametrize("extra", [0, 1, 700, 5_000])
@pytest.mark.parametrize("in_pieces", [True, False])
def test_too_long_line_is_counted_once(start, extra: int, in_pieces: bool) -> None:
    running = start(maxLineBytes=1_000)
    longest, line = b"x" * 1_000, b"y" * (1_000 + extra)
    with running.connect() as client:
        client.sendall(b"before\n" + longest + b"\n" + line)
        if in_pieces:
            running.wait_for_lines(2)
        client.sendall(b"\nafter\n")
    kept = [line] if extra == 0 else []
    assert running.wait_for_lines(3 + len(kept)) == [b"before", longest, *kept, b"after"]
    assert running.status.dropped["too_long"] == 1 - len(kept)


def test_endless_line_needs_no_memory(start) -> None:
    running, block = start(), b"x" * (1 << 20)
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
    running = start(maxRowsPerTrigger=100, maxBytesPerTrigger=1_000)
    lines = [b"%d" % number for number in range(5_000)] + [b"long" * 1_000]
    send_lines(HOST, running.port, lines)
    assert running.lines() == lines
    found = list(frames(running.directory / str(running.port), 0, running.log.end))
    assert sum(frame.rows for frame in found) == len(lines)
    assert max(frame.rows for frame in found) <= 100
    assert [frame.payload_bytes for frame in found if frame.payload_bytes > 1_000] == [4_001]


def test_connection_limit_makes_others_wait(start) -> None:
    running = start(maxConnections=2)
    clients = [running.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.sendall(b"%d\n" % number)
    assert sorted(running.wait_for_lines(2)) == [b"0", b"1"]
    assert (running.status.connections, running.status.accepted) == (2, 2)
    clients[1].close()
    assert running.wait_for_lines(3)[2:] == [b"2"]
    for client in clients:
        client.close()
    running.wait_until_free()


def test_idle_connection_frees_its_slot(start) -> None:
    running = start(maxConnections=1, idle=0.3)
    with running.connect() as idle:
        idle.sendall(b"half")
        send_lines(HOST, running.port, ["other"])
        with pytest.raises(ConnectionResetError):
            idle.recv(1)
    assert running.lines() == [b"other"]
    assert (running.status.idle_closed, running.status.dropped["unterminated"]) == (1, 1)


def test_full_backlog_stops_reading(start) -> None:
    running = start(maxBacklogBytes=100_000)
    lines = [b"%07d" % number for number in range(2_000_000)]
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send_lines, HOST, running.port, lines)
        wait_until(lambda: running.logs.full, SECONDS, "a full backlog")
        stopped_at = running.log.end
        threading.Event().wait(0.3)
        assert running.log.end == stopped_at < 500_000

        def is_sent() -> bool:
            running.logs.processed(running.logs.end())
            return sending.done()

        wait_until(is_sent, SECONDS, "the sender's end")
    assert running.lines() == lines


def test_listener_raises_the_limit_of_open_files(start) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        start()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 400
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_port_in_use_is_named(tmp_path, free_ports) -> None:
    port = free_ports(2)
    with socket.create_server((HOST, port + 1)):
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port + 1}: Address al"):
            Running(tmp_path, port, parallelism=2)
        socket.create_server((HOST, port)).close()


def test_status_is_published(start) -> None:
    running = start(maxLineBytes=5)
    path, port = running.directory, running.port

    def status_becomes(text: str) -> None:
        wait_until(lambda: str(network_status(path)) == text, SECONDS, text)

    status_becomes(f"Waiting for connection on port {port} ...")
    assert network_status(path).listening
    assert network_status(path).process == os.getpid()
    with pytest.raises(LinesDroppedError):
        send_lines(HOST, port, ["12345", "123456", ""])
    counts = f"Port {port}: 0 connections, 2 lines, 7 bytes, backlog"
    status_becomes(f"{counts} {running.log.end} bytes, dropped: 1 too_long")
    running.logs.processed(running.logs.end())
    status_becomes(f"{counts} 0 bytes, dropped: 1 too_long")
    running.logs._lock.release()
    assert not network_status(path).listening
    running.logs._lock = type(running.logs._lock)(path)
    running.listener.close()
    assert str(network_status(path)) == f"Port {port}: not listening; 2 lines, 7 bytes received"
