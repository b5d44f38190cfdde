"""What a line costs in each stage of its way, and whether that predicts how long the whole takes.

    python benchmarks/bench_scaling.py [--lines 3000000] [--rounds 2] [--conf key=value ...]

First the costs, each by itself: CPU seconds of sender and receiver without a query, of Python and
JVM with a log that is there already, and the time of batches of a line each. Then points: the same
lines in other batches, with one and two tasks, ports and workers. `scaling.py` predicts the points
from the costs, and writes `docs/scaling.md`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from bench_network_lines import NetworkLines, a_sender, confirm_one, send_burst
from bench_observe import CLUSTERS
from measure import Result, Series, Watch, finish, parse
from pyspark.sql import SparkSession
from scaling import (
    BATCH,
    COSTS,
    JVM,
    MANY,
    ON_WORKERS,
    PLANNING,
    POINTS,
    PYTHON,
    READING,
    RECEIVING,
    SENDING,
    SHORT,
    SHORT_LINES,
    TASKS,
    costs_table,
    points,
    points_table,
)

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import last_error, network_status, start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.waiting import wait_for
from tutorial_pkg.session.start import stop_spark
from workbook.cluster import Cluster

PORT = 23000
SHORT_BATCHES, LARGE_BATCHES = 20, 3  # of a log that is read; one before them does not count
SHORT_BURSTS = 5
WARM_UP_READS = 2
TIME = "time"
TICK_SECONDS = 0.01  # of the system's CPU times
LOOK_SECONDS = 0.005
MOST_SECONDS = 300
BACKLOG_BYTES = 8 * 2**30


# ---- CPU time ----------------------------------------------------------------------------------


def cpu_seconds() -> Counter[str]:
    """What the processes below this one have used so far, by kind, with those that have ended."""
    used: Counter[str] = Counter()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            used[kind(process)] += sum(process.cpu_times()[:4])
    return used


def kind(process: psutil.Process) -> str:
    if "java" in process.name():
        return JVM
    words = " ".join(process.cmdline())
    return SENDING if "spawn_main" in words or " receive " in words else PYTHON


# ---- Receivers -----------------------------------------------------------------------------------


@contextmanager
def a_receiver(log: Path, port: int, ports: int) -> Iterator[list[int]]:
    """A process that receives into `log`; its ports."""
    options = ["--port", port, "--parallelism", ports, "--max-backlog-bytes", BACKLOG_BYTES]
    command = [sys.executable, "-m", "tutorial_pkg", "receive", log, *options]
    process = subprocess.Popen([str(word) for word in command])
    try:
        wait_until(lambda: network_status(log).listening, 60, "a receiver that listens")
        yield list(range(port, port + ports))
    finally:
        process.terminate()
        process.wait()


def received(sender: Executor, ports: list[int], lines: int) -> Counter[str]:
    """CPU seconds of a burst, and the time it took; one before it does not count."""
    sender.submit(send_burst, ports, lines).result()
    before, started = cpu_seconds(), time.time()
    sender.submit(send_burst, ports, lines).result()
    return cpu_seconds() - before + Counter({TIME: time.time() - started})


def fill_with_single_lines(log: Path, port: int, ports: int) -> None:
    """Frames of a line each: SHORT_BATCHES and some more in the log of each port."""
    with a_receiver(log, port, ports) as numbers:
        for number in numbers * (SHORT_BATCHES + 2):
            confirm_one(number)


# ---- Queries -------------------------------------------------------------------------------------


class Read(NamedTuple):
    """What batches of a log took: seconds of each; CPU seconds for a batch, by kind."""

    seconds: list[float]
    cpu: Counter[str]


def read(spark: SparkSession, log: Path, rows: int, batches: int) -> Read:
    """Read `log` from its beginning; the first batch does not count."""
    lines = spark.readStream.format("network_lines").option("maxRowsPerTrigger", rows)
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as checkpoint:
        writer = lines.load(str(log)).writeStream.format("noop")
        query = writer.option("checkpointLocation", checkpoint).start()

        def done(batch: int) -> bool:
            progress = query.lastProgress
            return query.exception() is not None or bool(progress and progress.batchId >= batch)

        until(lambda: done(0))
        before = cpu_seconds()
        until(lambda: done(batches))
        used = cpu_seconds() - before
        query.stop()
        counted = [each for each in query.recentProgress if 1 <= each.batchId <= batches]
    if query.exception():
        raise RuntimeError(last_error(query))
    seconds = [each.durationMs["triggerExecution"] / 1000 for each in counted]
    return Read(seconds, Counter({name: cpu / batches for name, cpu in used.items()}))


def until(condition: Callable[[], bool]) -> None:
    if not wait_for(condition, MOST_SECONDS, LOOK_SECONDS):
        raise TimeoutError("a batch to measure")


# ---- All of it -----------------------------------------------------------------------------------


class Bench:
    """The parts; `lines` in a burst or a large batch. `series` is what was found.

    Costs and points take turns, so that a busy moment meets both.
    """

    def __init__(self, folder: Path, sender: Executor, lines: int) -> None:
        self.folder, self.sender, self.lines = folder, sender, lines
        self.log, self.single, self.many = folder / "log", folder / "single", folder / "many"
        self._found: dict[tuple[str, str, int], list[float]] = defaultdict(list)

    @property
    def series(self) -> list[Series]:
        return [Series(*key, seconds) for key, seconds in self._found.items()]

    def cost(self, name: str, lines: int, seconds: list[float]) -> None:
        self._found[COSTS, name, lines] += seconds

    def point(self, name: str, lines: int, seconds: list[float]) -> None:
        self._found[POINTS, name, lines] += seconds

    def write_logs(self) -> None:
        with a_receiver(self.log, PORT, 1) as ports:
            for _ in range(1 + LARGE_BATCHES):
                self.sender.submit(send_burst, ports, self.lines).result()
        fill_with_single_lines(self.single, PORT, 1)
        fill_with_single_lines(self.many, PORT, MANY)

    def receive(self) -> None:
        """Without a query."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            for number, name in RECEIVING.items():
                with a_receiver(Path(folder, name), PORT, number) as ports:
                    burst = received(self.sender, ports, self.lines)
                self.cost(name, self.lines, [burst[TIME]])
                if number == 1:
                    self.cost(SENDING, self.lines, [burst[SENDING]])

    def costs_of_reading(self, spark: SparkSession, where: str = "") -> None:
        """With one slot for tasks."""
        large = read(spark, self.log, self.lines, LARGE_BATCHES)
        single = read(spark, self.single, 1, SHORT_BATCHES)
        many = read(spark, self.many, MANY, SHORT_BATCHES)
        for stage in (PYTHON, JVM):  # without what a batch takes that has hardly any lines
            used = max(large.cpu[stage] - single.cpu[stage], TICK_SECONDS)
            self.cost(where + stage, self.lines, [used])
        self.cost(where + PLANNING, 1, [single.cpu[PYTHON] + single.cpu[JVM]])
        self.cost(where + READING, self.lines, large.seconds)
        self.cost(where + BATCH, 1, single.seconds)
        self.cost(where + TASKS, 1, many.seconds)

    def reads(self, spark: SparkSession, name: str, parts: Sequence[int]) -> None:
        for part in parts:
            batches = LARGE_BATCHES if part == 1 else SHORT_BATCHES
            found = read(spark, self.log, self.lines // part, batches)
            self.point(name, self.lines // part, found.seconds)

    def bursts(self, spark: SparkSession) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder, ignore_cleanup_errors=True) as folder:
            place = Path(folder)  # a query that ends may still write to it
            one, two = (NetworkLines(spark, place, self.sender, PORT + n, n) for n in (1, 2))
            short = [one.burst(SHORT_LINES) for _ in range(1 + SHORT_BURSTS)]
            self.cost(SHORT, 1, short[1:])
            for work in points(self.lines):
                if work.ports:
                    query = one if work.ports == 1 else two
                    times = 1 if work.lines >= self.lines else SHORT_BURSTS
                    seconds = [query.burst(work.lines) for _ in range(1 + times)]
                    self.point(work.name, work.lines, seconds[1:])
            one.close()
            two.close()

    def on_this_machine(self, conf: dict[str, str], rounds: int) -> None:
        """The first round is for the JVM's compiler."""
        for number in range(1 + rounds):
            self.receive()
            spark = start_spark("bench_scaling", 1, **conf)
            self.costs_of_reading(spark)
            self.reads(spark, "read, one task at a time", (100,))
            spark.stop()
            spark = start_spark("bench_scaling", 2, **conf)
            self.reads(spark, "read, two tasks", (1, 10, 100))
            self.bursts(spark)
            spark.stop()
            if number == 0:
                self._found.clear()

    def on_workers(self) -> None:
        for name, (workers, cores) in CLUSTERS.items():
            folder = self.folder / f"cluster-{workers}-{cores}"
            with Cluster(folder, workers, cores) as cluster:
                spark = start_spark("bench_scaling", **cluster.settings)
                for _ in range(WARM_UP_READS):
                    read(spark, self.log, self.lines, LARGE_BATCHES)
                if (workers, cores) == (1, 1):
                    self.costs_of_reading(spark, ON_WORKERS)
                else:
                    self.reads(spark, f"read, {name}", (1,))
                stop_spark(spark)


def main() -> None:
    given = parse(__doc__, rounds=2)
    with ExitStack() as opened:
        watch = opened.enter_context(Watch("scaling"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=work_dir("bench"))))
        bench = Bench(folder, opened.enter_context(a_sender()), given.lines)
        bench.write_logs()
        bench.on_this_machine(given.conf, given.rounds)
        bench.on_workers()
    result = Result("How `network_lines` scales", bench.series)
    finish(given, result, watch)
    print("\n".join([*costs_table(result), "", *points_table(result)]))


if __name__ == "__main__":
    main()
