"""How fast `network_lines` is beside Spark's built-in `socket` source: bursts and ports.

    python benchmarks/bench_network_lines.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

A process of its own sends lines of 77 bytes to running queries with the noop sink. What counts is
the time from the first byte until the last row has passed. `socket` takes part in bursts
of up to 100,000 lines: it is quadratic in a burst, and the largest takes several seconds, now
four, now nine, so that it is shown but not compared.

Confirmations: CONFIRMED senders of a line each, one after the other and all at once, until every
one knows that its line is on disk; beside them, what as many lines cost on this disk by themselves.
How long a single line takes is in `bench_latency.py`.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from lines import BLOCK_LINES, LINE, connect_and_send, send
from measure import Result, Series, Watch, finish, in_turns, mean_over, parse, series_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import network_status, start_spark
from tutorial_pkg.core.places import work_dir

HOST, PORT = "127.0.0.1", 21000
BURSTS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
# Whether a burst falls into one micro-batch or two is chance, and for a short one it doubles the
# time. So a run is as many bursts as take this long, one after the other, and counts as their mean.
RUN_SECONDS = 1.0
MOST_DELAY = 0.1
MEANS = (
    f"A run is as many bursts as take {RUN_SECONDS:.0f} second, and counts as their mean: chance "
    "decides whether a burst meets one micro-batch or two. The JVM's compiler needs some 60 "
    "million lines: from 20 to 60 million after its start, the JVM's CPU time for a line fell from "
    "266 to 165 ns, in three other runs from 246, 287 and 298 to 205, 184 and 207 (2026-11-23, "
    "beside much other work). So the first bursts are shown by themselves, and all others follow."
)
FIRST_BURSTS = 4
COMPARED_MOST, SOCKET_MOST = 30_000, 100_000  # three times as much takes `socket` minutes
MORE_ROUNDS = 2  # than asked for, where two are compared
CONFIRMED = 100

# ---- Senders, in a process of their own --------------------------------------------------------


def send_burst(ports: list[int], lines: int) -> float:
    """Send `lines` to `ports` in equal parts, until all are in the log; the time it began."""
    threads = [
        threading.Thread(target=connect_and_send, args=((HOST, port), lines // len(ports)))
        for port in ports
    ]
    started = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return started


def confirm_one(port: int) -> None:
    """Send a line over a connection of its own, and wait until it is confirmed."""
    with socket.create_connection((HOST, port)) as client:
        client.sendall(LINE % 1)
        client.shutdown(socket.SHUT_WR)
        if client.recv(1):
            raise RuntimeError("the line was not confirmed")


def confirm_in_turn(port: int) -> float:
    started = time.perf_counter()
    for _ in range(CONFIRMED):
        confirm_one(port)
    return time.perf_counter() - started


def confirm_together(port: int) -> float:
    senders = [threading.Thread(target=confirm_one, args=(port,)) for _ in range(CONFIRMED)]
    started = time.perf_counter()
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return time.perf_counter() - started


def sync_in_turn(file: Path) -> float:
    """As many lines on disk as `confirm_in_turn` sends, without a network."""
    with file.open("ab", buffering=0) as opened:
        started = time.perf_counter()
        for _ in range(CONFIRMED):
            opened.write(LINE % 1)
            os.fdatasync(opened.fileno())
        return time.perf_counter() - started


# ---- Contestants -------------------------------------------------------------------------------


class NetworkLines:
    """A query that listens on `ports` ports from `port` on, and the process that sends to it."""

    def __init__(
        self, spark: SparkSession, folder: Path, sender: ProcessPoolExecutor, port: int, ports: int
    ) -> None:
        self._log, self._sender = folder / f"log{port}", sender
        self._ports = list(range(port, port + ports))
        source = spark.readStream.format("network_lines").options(port=port, parallelism=ports)
        self._query = start(source.load(str(self._log)), self._log.with_suffix(".checkpoint"))
        wait_until(lambda: network_status(self._log).listening, 60, "listening")

    def burst(self, lines: int) -> float:
        started = self._sender.submit(send_burst, self._ports, lines).result()
        self._query.processAllAvailable()
        return time.time() - started

    def confirmed(self, how: Callable[[int], float]) -> float:
        return self._sender.submit(how, self._ports[0]).result()

    def close(self) -> None:
        self._query.stop()
        wait_until(lambda: not network_status(self._log).listening, 30, "the listener's end")


class SocketSource:
    """The built-in source connects to its sender, so here the sender listens."""

    def __init__(self, spark: SparkSession) -> None:
        self._server = socket.create_server((HOST, 0))
        port = self._server.getsockname()[1]
        source = spark.readStream.format("socket").options(host=HOST, port=port)
        self._query = source.load().writeStream.format("noop").start()
        self._client, _ = self._server.accept()
        self._sent = 0

    def burst(self, lines: int) -> float:
        self._sent += lines
        started = time.time()
        send(self._client, lines)
        wait_until(lambda: self._read() >= self._sent, 120, f"all rows of {lines}")
        return time.time() - started

    def close(self) -> None:
        self._query.stop()
        self._client.close()
        self._server.close()

    def _read(self) -> int:
        """Rows so far: the offset of this source is the last row's number, from 0."""
        progress = self._query.lastProgress
        return int(progress["sources"][0]["endOffset"]) + 1 if progress else 0


def start(lines: DataFrame, checkpoint: Path) -> StreamingQuery:
    writer = lines.writeStream.format("noop")
    return writer.option("checkpointLocation", str(checkpoint)).start()


# ---- Measuring ---------------------------------------------------------------------------------


def measure_bursts(
    ours: NetworkLines, theirs: SocketSource, rounds: int, most: int, watch: Watch
) -> Iterator[Series]:
    """Growing bursts, in turns; the built-in source takes part up to SOCKET_MOST."""
    sources = {"network_lines": ours.burst, "socket": theirs.burst}
    for lines in [size for size in BURSTS if size <= most]:
        watch.phase = f"network_lines, {lines:,} lines in a burst"
        if lines > SOCKET_MOST:
            sources.pop("socket", None)
        runs = {name: run_of(burst, lines) for name, burst in sources.items()}
        compared = lines <= COMPARED_MOST
        # The first burst of 30,000 takes twice as long as later ones; large ones do not differ.
        warm_up = 1 if "socket" in sources else 0
        seconds = in_turns(runs, rounds * (MORE_ROUNDS if compared else 1), warm_up)
        yield from series_of(f"burst of {lines:,}", lines, seconds, "socket" if compared else None)


def measure_first_bursts(ours: NetworkLines, lines: int) -> Series:
    seconds = [ours.burst(lines) for _ in range(FIRST_BURSTS)]
    return Series("the first bursts of a new JVM", "network_lines", lines, seconds)


def run_of(burst: Callable[[int], float], lines: int) -> Callable[[], float]:
    """Bursts at random moments of the query's own rhythm, for RUN_SECONDS."""

    def one() -> float:
        time.sleep(random.uniform(0, MOST_DELAY))
        return burst(lines)

    return partial(mean_over, RUN_SECONDS, one)


def measure_ports(one: NetworkLines, two: NetworkLines, lines: int, rounds: int) -> list[Series]:
    ports = {"one port": one.burst, "two ports": two.burst}
    seconds = in_turns(
        {name: run_of(burst, lines) for name, burst in ports.items()}, rounds * MORE_ROUNDS
    )
    return series_of("network_lines, ports", lines, seconds, base="one port")


def measure_confirmations(ours: NetworkLines, folder: Path, rounds: int) -> list[Series]:
    ways = {
        "one sender after the other": partial(ours.confirmed, confirm_in_turn),
        "all senders at once": partial(ours.confirmed, confirm_together),
        "the disk alone, line by line": partial(sync_in_turn, folder / "synced"),
    }
    seconds = in_turns(ways, rounds * MORE_ROUNDS)
    return series_of(f"network_lines, {CONFIRMED} confirmations", CONFIRMED, seconds)


@contextmanager
def a_sender() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as sender:
        yield sender


def main() -> None:
    given = parse(__doc__)
    most = given.lines * 10 // 3
    with ExitStack() as opened:
        watch = opened.enter_context(Watch("network_lines"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=work_dir("bench"))))
        sender = opened.enter_context(a_sender())
        spark = start_spark("bench_network_lines", **given.conf)
        one = NetworkLines(spark, folder, sender, PORT, 1)
        two = NetworkLines(spark, folder, sender, PORT + 1, 2)
        theirs = SocketSource(spark)
        series = [measure_first_bursts(one, most // BLOCK_LINES * BLOCK_LINES)]
        series += measure_bursts(one, theirs, given.rounds, most, watch)
        watch.phase = "network_lines, two ports"
        series += measure_ports(one, two, given.lines, given.rounds)
        watch.phase = "network_lines, confirmations"
        series += measure_confirmations(one, folder, given.rounds)
        for contestant in (one, two, theirs):
            contestant.close()
        spark.stop()
    title = "`network_lines` beside Spark's `socket`"
    finish(given, Result(title, series, notes=[MEANS]), watch)


if __name__ == "__main__":
    main()
