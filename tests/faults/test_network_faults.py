"""What network_lines does when drivers die, disks lie and senders misbehave.

`TUTORIAL_PKG_KILLS=20` kills as many drivers as when the connector was released.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.network_queries import (
    HOST,
    network_lines,
    offsets,
    rows,
    start_query,
    to_parquet,
    wait_for_listener,
)
from tutorial_pkg.connectors.network_lines import network_status
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import frames, read_frames
from tutorial_pkg.processes.query_process import wait_until

ROUNDS = int(os.environ.get("TUTORIAL_PKG_KILLS", "1"))
LISTENER_ROUNDS = 20
DRIVER = Path(__file__).with_name("network_driver.py")
MIB = 1024 * 1024
RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"


class Sender:
    """Sends numbered lines, group by group, on a thread of its own until it is stopped.

    When the connection breaks it either ends or, with `reconnect`, goes on with new numbers,
    for nothing tells it what arrived. `confirmed` are the lines of the groups that the listener
    has confirmed by closing the connection in good order.
    """

    def __init__(self, name: str, port: int, reconnect: bool) -> None:
        self._name, self._port, self._reconnect = name, port, reconnect
        self._stopping = threading.Event()
        self._next = 0
        self.confirmed: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        connected = True
        while not self._stopping.is_set() and (connected or self._reconnect):
            connected = self._send(random.randint(1, 1_000))
            self._stopping.wait(0.05)

    def _send(self, count: int) -> bool:
        group = [f"{self._name},{number}" for number in range(self._next, self._next + count)]
        self._next += count
        try:
            send_lines(HOST, self._port, group)
        except ConnectionError:
            return False
        self.confirmed += group
        return True


def test_killed_drivers_lose_and_repeat_nothing_of_the_log(spark, tmp_path, free_ports) -> None:
    """Two senders in every round: one ends with the driver, one connects again, and again."""
    port = free_ports(2)
    senders = [Sender("faithful", port, reconnect=True)]
    senders += [Sender(f"round {number}", port + 1, reconnect=False) for number in range(ROUNDS)]
    with ExitStack() as opened, senders[0]:
        for driver, sender in zip(_drivers(tmp_path, port, opened), senders[1:], strict=True):
            with sender:
                wait_until(lambda: sender.confirmed, SECONDS, "confirmed lines")  # noqa: B023
                time.sleep(random.uniform(0, 4))
                driver.kill()
    _drain(spark, tmp_path, port)
    logged = _log_lines(tmp_path, port) + _log_lines(tmp_path, port + 1)
    assert Counter(rows(spark, tmp_path)) == Counter(logged)
    assert len(set(logged)) == len(logged)
    confirmed = {line for sender in senders for line in sender.confirmed}
    assert confirmed <= set(logged)
    for each in (port, port + 1):
        positions = [offset[str(each)] for offset in offsets(tmp_path)]
        assert positions == sorted(positions)


LISTENING = """
import sys, time
from pathlib import Path
from tutorial_pkg.connectors.network_lines.listener import Limits, Listener
from tutorial_pkg.durable_log.group import Backlog, LogGroup
directory, port = Path(sys.argv[1]), int(sys.argv[2])
logs = LogGroup(directory, [port], "port")
limits = Limits(line_bytes=1000, connections=9, idle_seconds=9)
Listener(directory, "127.0.0.1", [port], Backlog(logs.writers, 1 << 40), limits)
print("listening", flush=True)
time.sleep(60)
"""


def test_killed_listeners_keep_what_they_confirmed(tmp_path, free_ports) -> None:
    """The same for the process that writes the log, without Spark."""
    port = free_ports(1)
    senders = [Sender(f"sender {number}", port, reconnect=True) for number in range(3)]
    command = [sys.executable, "-c", LISTENING, str(tmp_path / "log"), str(port)]
    with ExitStack() as sending:
        for sender in senders:
            sending.enter_context(sender)
        for _ in range(LISTENER_ROUNDS):
            with subprocess.Popen(command, stdout=subprocess.PIPE) as listener:
                assert listener.stdout.readline() == b"listening\n"
                time.sleep(random.uniform(0, 0.2))
                listener.kill()
    LogGroup(tmp_path / "log", [port], "port").close()
    logged = _log_lines(tmp_path, port)
    assert len(set(logged)) == len(logged)
    confirmed = {line for sender in senders for line in sender.confirmed}
    assert confirmed
    assert confirmed <= set(logged)


def _drivers(directory: Path, port: int, opened: ExitStack) -> Iterator[SpareDriver]:
    """One after the other, each when it listens, while the Spark of the next one starts."""

    def spare(number: int) -> SpareDriver:
        path = directory / f"driver-{number}"
        return opened.enter_context(SpareDriver(DRIVER, path, directory, port, 2))

    following = spare(0)
    for number in range(1, ROUNDS + 1):
        driver = following
        if number < ROUNDS:
            following = spare(number)
        _go_and_listen(driver, directory)
        yield driver  # killed; what it leaves behind, the next one has to cope with


def _go_and_listen(driver: SpareDriver, directory: Path) -> None:
    before = network_status(directory / "log").process
    driver.go()

    def check() -> None:
        assert driver.running, driver.output.read_text()

    wait_for_listener(directory, before, check, SECONDS)


def _drain(spark: SparkSession, directory: Path, port: int) -> None:
    lines = network_lines(spark, directory, port, parallelism=2)
    query = to_parquet(lines, directory).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def _log_lines(directory: Path, port: int) -> list[str]:
    """All lines that reached the log: the first segment is never full here, so it is all there."""
    segment = _segment(directory, port)
    assert int(segment.stem) == 0
    found = read_frames(segment.parent, 0, segment.stat().st_size)
    return b"".join(payload for _, payload in found).decode().splitlines()


def _segment(directory: Path, port: int) -> Path:
    [segment] = (directory / "log" / str(port)).glob("*.segment")
    return segment


def _status(directory: Path, port: int) -> PortStatus:
    return network_status(directory / "log").ports[port]


@pytest.fixture
def stopped(spark, tmp_path, free_ports) -> tuple[Path, int]:
    """A query that has read three frames and was stopped: its directory and port."""
    port = free_ports(1)
    query = start_query(spark, tmp_path, port)
    for line in ("one", "two", "three"):
        send_lines(HOST, port, [line])
    query.processAllAvailable()
    query.stop()
    return tmp_path, port


def _fails_with(text: str, spark: SparkSession, directory: Path, port: int) -> None:
    """With either trigger, for with `availableNow` the ports are never opened."""
    for trigger in ({"processingTime": "0 seconds"}, {"availableNow": True}):
        lines = network_lines(spark, directory, port)
        query = to_parquet(lines, directory).trigger(**trigger).start()
        with pytest.raises(StreamingQueryException, match=re.escape(text)):
            query.awaitTermination(60)


def test_torn_last_frame_is_cut_back_with_a_warning(spark, stopped) -> None:
    directory, port = stopped
    segment = _segment(directory, port)
    end, whole = segment.stat().st_size, segment.read_bytes()
    segment.write_bytes(whole + whole[:27])
    query = start_query(spark, directory, port)
    expected = f"segment {segment}: cut off 27 bytes of an unfinished frame at {end}"
    assert network_status(directory / "log").warnings == [expected]
    send_lines(HOST, port, ["four"])
    query.processAllAvailable()
    query.stop()
    assert Counter(rows(spark, directory)) == Counter(["one", "two", "three", "four"])


def test_cut_below_the_checkpoint_refuses_to_start(spark, stopped) -> None:
    directory, port = stopped
    segment = _segment(directory, port)
    end = segment.stat().st_size
    last = list(frames(segment.parent, 0, end))[-1]
    os.truncate(segment, end - 1)
    text = (
        f"the checkpoint has read port {port} up to position {end}, but the log "
        f"{directory}/log/{port} holds 0 to {last.position}. It was deleted, cut or exchanged"
    )
    _fails_with(text, spark, directory, port)


def test_flipped_byte_in_the_middle_is_an_error(spark, stopped) -> None:
    directory, port = stopped
    segment = _segment(directory, port)
    second = list(frames(segment.parent, 0, segment.stat().st_size))[1]
    damaged = bytearray(segment.read_bytes())
    damaged[second.end - 2] ^= 1
    segment.write_bytes(damaged)
    place = second.position
    text = f"segment {segment}, position {place} (byte {place} of the file): the payload does not"
    _fails_with(text, spark, directory, port)


def test_byte_that_flips_while_the_query_runs_is_an_error(spark, tmp_path, free_ports) -> None:
    """The writer has seen the frame whole; the task that reads it must notice."""
    port, go = free_ports(1), tmp_path / "go"
    lines = network_lines(spark, tmp_path, port)
    query = lines.writeStream.foreachBatch(_read_after(go, Counter())).start()
    wait_until(lambda: network_status(tmp_path / "log").listening, 30, "listening")
    send_lines(HOST, port, ["first"])
    wait_until((tmp_path / "go.waiting").exists, 30, "the first batch")
    with _segment(tmp_path, port).open("r+b") as segment:
        segment.seek(-2, os.SEEK_END)
        segment.write(b"X")
    go.touch()
    with pytest.raises(StreamingQueryException, match=r"position 0 .byte 0 of the file.: the payl"):
        query.awaitTermination(60)


def _read_after(go: Path, received: Counter[str]):
    """For foreachBatch: the query stands still before it reads, until the file `go` exists."""

    def read(batch: DataFrame, _: int) -> None:
        go.with_name("go.waiting").touch()
        wait_until(go.exists, 60, "the sign to go on")
        received.update(row.value for row in batch.collect())

    return read


def test_log_deleted_while_the_checkpoint_stays(spark, stopped) -> None:
    directory, port = stopped
    end = _segment(directory, port).stat().st_size
    shutil.rmtree(directory / "log")
    text = (
        f"the checkpoint has read port {port} up to position {end}, but the log "
        f"{directory}/log/{port} holds 0 to 0. It was deleted, cut or exchanged, so lines would "
        "be lost: restore it, or start anew with a new checkpoint"
    )
    _fails_with(text, spark, directory, port)


def test_a_gibibyte_without_a_newline(spark, tmp_path, free_ports) -> None:
    port = free_ports(1)
    query = start_query(spark, tmp_path, port)
    process = psutil.Process(network_status(tmp_path / "log").process)
    send_lines(HOST, port, ["before"])
    before, most = process.memory_info().rss, 0
    block = b"x" * MIB
    with socket.create_connection((HOST, port)) as client:
        for _ in range(1024):
            client.sendall(block)
            most = max(most, process.memory_info().rss)
        client.sendall(b"\nafter\n")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"network_lines dropped: 1 too_long\n"
    assert most - before < 100 * MIB
    query.processAllAvailable()
    wait_until(lambda: _status(tmp_path, port).dropped["too_long"] == 1, 5, "the count")
    query.stop()
    assert Counter(rows(spark, tmp_path)) == Counter(["before", "after"])


def test_half_a_line_then_the_connection_breaks(spark, tmp_path, free_ports) -> None:
    port = free_ports(1)
    query = start_query(spark, tmp_path, port)
    client = socket.create_connection((HOST, port))
    client.sendall(b"whole\nhal")
    wait_until(lambda: _status(tmp_path, port).lines == 1, 5, "the whole line")
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    client.close()
    wait_until(lambda: _status(tmp_path, port).dropped["unterminated"] == 1, 5, "the count")
    send_lines(HOST, port, ["f a line of another sender"])
    query.processAllAvailable()
    query.stop()
    assert Counter(rows(spark, tmp_path)) == Counter(["whole", "f a line of another sender"])


def test_hostile_connections_keep_nobody_out(spark, tmp_path, free_ports) -> None:
    """1,000 connections, idle ones and ones that send a byte now and then, for 200 slots."""
    port = free_ports(1)
    query = start_query(spark, tmp_path, port, maxConnections=200, idleTimeout=1)
    process = psutil.Process(network_status(tmp_path / "log").process)
    before = process.num_fds(), process.num_threads()
    with ExitStack() as opened:
        hostile = [
            opened.enter_context(socket.create_connection((HOST, port))) for _ in range(1_000)
        ]
        wait_until(lambda: _status(tmp_path, port).connections == 200, 5, "the cap reached")
        sending = threading.Thread(target=send_lines, args=(HOST, port, ["served"]))
        sending.start()
        most_files = 0
        while sending.is_alive():
            _send_a_byte(hostile[::2])
            sending.join(0.2)
            most_files = max(most_files, process.num_fds())
            assert _status(tmp_path, port).connections <= 200
    assert most_files <= before[0] + 200 + 2  # the status file is being written now and then
    wait_until(lambda: (process.num_fds(), process.num_threads()) == before, 10, "no growth")
    query.processAllAvailable()
    query.stop()
    assert [line for line in rows(spark, tmp_path) if line.strip("x")] == ["served"]


def _send_a_byte(clients: list[socket.socket]) -> None:
    for client in clients:
        try:
            client.send(b"x")
        except ConnectionError:  # the listener has closed it: its slot came free
            continue


def test_10_000_connections_leave_nothing_behind(spark, tmp_path, free_ports) -> None:
    port = free_ports(1)
    query = start_query(spark, tmp_path, port)
    process = psutil.Process(network_status(tmp_path / "log").process)
    before = process.num_fds(), process.num_threads()
    for _ in range(10_000):
        socket.create_connection((HOST, port)).close()
    send_lines(HOST, port, ["still served"])
    wait_until(lambda: (process.num_fds(), process.num_threads()) == before, 10, "no growth")
    query.processAllAvailable()
    query.stop()
    assert rows(spark, tmp_path) == ["still served"]


def test_full_backlog_blocks_the_sender_then_all_drains(spark, tmp_path, free_ports) -> None:
    port, go, received = free_ports(1), tmp_path / "go", Counter()
    lines = network_lines(spark, tmp_path, port, maxBacklogBytes=8 * MIB)
    query = lines.writeStream.foreachBatch(_read_after(go, received)).start()
    wait_until(lambda: network_status(tmp_path / "log").listening, 30, "listening")
    process = psutil.Process(network_status(tmp_path / "log").process)
    send_lines(HOST, port, ["first"])
    before = process.memory_info().rss
    line, count = "x" * 5_000, 20_000
    sending = threading.Thread(target=send_lines, args=(HOST, port, [line] * count))
    sending.start()
    wait_until(lambda: _status(tmp_path, port).backlog_bytes >= 8 * MIB, 20, "a full backlog")
    sending.join(1)
    assert sending.is_alive()
    assert _status(tmp_path, port).backlog_bytes < 16 * MIB
    assert process.memory_info().rss - before < 32 * MIB
    go.touch()
    sending.join(120)
    assert not sending.is_alive()
    query.processAllAvailable()
    query.stop()
    assert received == {"first": 1, line: count}
