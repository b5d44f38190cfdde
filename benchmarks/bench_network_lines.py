"""How fast `network_lines` is: bursts on one port and on two, ten times the lines, a trickle.

    python benchmarks/bench_network_lines.py [--lines 3000000] [--rounds 5] [--conf key=value ...]

A process of its own sends lines of 77 bytes to a warm query with the noop sink. What counts is
the time from its first byte until the last row has passed. Spark's built-in `socket` source gets
a hundredth of the lines: it is quadratic in a burst.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg import network_status, start_spark
from tutorial_pkg.workbook.drills import wait_until

HOST, PORT = "127.0.0.1", 21000
LINE = b"1583309377078,0.502024,SimpleEvent(timestamp=10:09:37.000, sequence=%07d)\n"
BLOCK_LINES = 20_000
WARM_UP_ROUNDS = 3
TRICKLE_LINES = 20


def send_burst(ports: list[int], lines: int) -> float:
    """Send `lines` to `ports` in equal parts; the time of the first byte, when all are in the log.

    Runs in a process of its own.
    """
    block = b"".join(LINE % number for number in range(BLOCK_LINES))
    blocks = lines // BLOCK_LINES // len(ports)
    threads = [threading.Thread(target=_send_blocks, args=(port, block, blocks)) for port in ports]
    started = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return started


def _send_blocks(port: int, block: bytes, count: int) -> None:
    with socket.create_connection((HOST, port)) as client:
        for _ in range(count):
            client.sendall(block)
        client.shutdown(socket.SHUT_WR)
        client.recv(1)


class Running:
    """A query from `ports` ports to the noop sink, and the process that sends to it."""

    def __init__(self, query: StreamingQuery, ports: int, sender: ProcessPoolExecutor) -> None:
        self.query, self._sender = query, sender
        self._ports = list(range(PORT, PORT + ports))

    def burst(self, lines: int) -> float:
        """Seconds from the first byte sent to the last row."""
        started = self._sender.submit(send_burst, self._ports, lines).result()
        self.query.processAllAvailable()
        return time.time() - started

    def trickle(self) -> float:
        """Seconds from sending one line to its row, beyond what the trigger itself took."""
        started = time.time()
        _send_blocks(self._ports[0], LINE % 0, 1)
        self.query.processAllAvailable()
        elapsed = time.time() - started
        worked = [each for each in self.query.recentProgress if each["numInputRows"]]
        return elapsed - worked[-1]["durationMs"]["triggerExecution"] / 1000


@contextmanager
def running(spark: SparkSession, ports: int, work: Path) -> Iterator[Running]:
    lines = spark.readStream.format("network_lines").options(port=PORT, parallelism=ports)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        log, checkpoint = Path(folder, "log"), Path(folder, "checkpoint")
        writer = lines.load(str(log)).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        wait_until(lambda: network_status(log).listening, 60, "listening")
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as sender:
            yield Running(query, ports, sender)
        query.stop()
        wait_until(lambda: not network_status(log).listening, 30, "the listener's end")


def measure_bursts(spark: SparkSession, work: Path, lines: int, rounds: int) -> None:
    """One port and two in turns, each with a new query, and warm-up rounds that do not count."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(2):
        for ports, found in seconds.items():
            with running(spark, ports, work) as stream:
                for number in range(WARM_UP_ROUNDS + rounds):
                    elapsed = stream.burst(lines)
                    if number >= WARM_UP_ROUNDS:
                        found.append(elapsed)
    for ports, found in seconds.items():
        print(_row(f"network_lines, {ports} port(s)", lines, found))


def measure_growth(spark: SparkSession, work: Path, lines: int, rounds: int) -> None:
    """Ten times the lines: time, and what the memory of the reader process does."""
    with running(spark, 1, work) as stream:
        for _ in range(WARM_UP_ROUNDS):
            stream.burst(lines)
        [log] = work.glob("*/log")
        reader = psutil.Process(network_status(log).process)
        small = [stream.burst(lines) for _ in range(rounds)]
        before = reader.memory_info().rss
        large = [stream.burst(10 * lines) for _ in range(2)]
        grown = (reader.memory_info().rss - before) / 2**20
    print(_row("network_lines, 1 port, ten times", 10 * lines, large))
    ratio = statistics.median(large) / statistics.median(small)
    print(f"ten times the lines: {ratio:.1f} times the time, reader process {grown:+.0f} MiB")


def measure_trickle(spark: SparkSession, work: Path) -> None:
    with running(spark, 1, work) as stream:
        stream.burst(BLOCK_LINES)
        extra = [stream.trickle() * 1000 for _ in range(TRICKLE_LINES)]
        median = statistics.median(extra)
    print(f"one line by itself: {median:.0f} ms more than its trigger, at most {max(extra):.0f} ms")


def measure_socket_source(spark: SparkSession, lines: int) -> None:
    """The built-in source connects to the sender, so here the sender listens."""
    with socket.create_server((HOST, 0)) as server:
        source = spark.readStream.format("socket").options(host=HOST, port=server.getsockname()[1])
        query = source.load().writeStream.format("noop").start()
        client, _ = server.accept()
        with client:
            started = time.time()
            client.sendall(b"".join(LINE % number for number in range(lines)))
            wait_until(lambda: _rows(query) >= lines, 600, "the last row")
        found = [time.time() - started]
        query.stop()
    print(_row("built-in socket source", lines, found))


def _rows(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def _row(what: str, lines: int, seconds: list[float]) -> str:
    median = statistics.median(seconds)
    return (
        f"{what:<34} {lines:>11,} lines {median:7.3f} s  {min(seconds):6.3f}..{max(seconds):.3f} s"
        f"  {lines / median / 1e6:5.2f} million lines/s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conf", nargs="*", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    spark = start_spark("bench_network_lines", **dict(p.split("=", 1) for p in given.conf))
    with tempfile.TemporaryDirectory() as folder:
        measure_bursts(spark, Path(folder), given.lines, given.rounds)
        measure_growth(spark, Path(folder), given.lines, given.rounds)
        measure_trickle(spark, Path(folder))
    measure_socket_source(spark, given.lines // 100)
    spark.stop()


if __name__ == "__main__":
    main()
