"""The final tests of notebooks 13 and 17: kill everything, and count what arrived."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.driver import Driver, Drivers
from spark_connector_tests.query_process import wait_for, wait_until
from tutorial_pkg import start_spark
from workbook.inside import newest_frame
from workbook.ledger import Ledger, append_once, ask_until_reply, entries
from workbook.network_to_log import network_to_log
from workbook.plots import BLUE, GRAY, GREEN, ORANGE, RED, chart, picture
from workbook.senders import Command, kill_a_worker

SECONDS = 300
PAUSE = 0.1  # seconds between two steps
DOWN = 2.0  # seconds until the ledger is started again
CALM = 1.0, 2.0  # seconds, at random, until the next kill: it may hit any step of a batch


def with_retries() -> SparkSession:
    """Start a session that retries tasks, as a cluster does; `local[2]` gives up."""
    attempts: dict[str, Any] = {"spark.master": "local[2,4]"}
    return start_spark("drill", **attempts)


class _Drill:
    """Lines that are written all the time, the kills, and how many lines arrived when.

    A subclass defines `_write(count)`, and `_count()`, which returns a number for each curve: the
    first one counts the written lines, and the last one those that have arrived.
    """

    _step: int  # lines at once
    _curves: tuple[tuple[str, str], ...]  # names and colors
    _y: str  # what the picture shows
    _alt: str
    _query: Callable[[SparkSession], StreamingQuery]
    _write: Callable[[int], None]
    _count: Callable[[], tuple[int, ...]]

    def __init__(self, spark: SparkSession, folder: Path, **processes: Any) -> None:
        self._drivers = Drivers(spark, folder, with_retries)
        self._drivers.prepare()
        self._started: list[Driver] = []
        self._processes = processes
        self._written = 0
        self._counts: list[tuple[float, ...]] = []
        self._kills: list[tuple[str, float, float]] = []

    def write_lines(self, seconds: float) -> None:
        """Write up to ten steps of lines per second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._write_and_count()

    def kill(self, name: str) -> None:
        """`kill -9` a process by its name, the driver, or a worker that runs a task.

        The outage ends when all that was written before, and something new, has arrived.
        """
        self._kills.append((name, time.monotonic(), self._written + 1))
        if name == "worker":
            kill_a_worker(self._processes["driver"])
        else:
            self._processes[name].kill()

    def restart(self, name: str) -> None:
        """Start it again; Spark has replaced a worker already."""
        if name == "driver":
            Thread(target=self._next_driver()).start()  # the writer does not wait for it
        elif name != "worker":
            self._processes[name].restart()

    def catch_up(self) -> None:
        """Write more lines until all those from before, and something new, have arrived."""
        goal = self._written + 1
        wait_until(lambda: self._write_and_count() >= goal, SECONDS, f"the arrival of {goal} lines")

    def _next_driver(self) -> Callable[[], None]:
        """Take a driver, and return what starts its query."""
        driver = self._processes["driver"] = self._drivers.take()
        self._started.append(driver)
        return partial(driver.go, SimpleNamespace(start=self._query))

    def _write_and_count(self) -> int:
        self._write(self._step)
        time.sleep(PAUSE)
        return self._arrived()

    def _arrived(self) -> int:
        """Return how many lines have arrived."""
        counts = self._count()
        self._counts.append((time.monotonic(), *counts))
        return counts[-1]

    def draw(self) -> None:
        """Plot the counts over time, and shade the outages."""
        figure, axes = chart("seconds", self._y, height=3.3)
        times, *columns = zip(*self._counts, strict=True)
        seconds = [at - times[0] for at in times]
        for number, (name, time_of_kill, goal) in enumerate(self._kills):
            start = time_of_kill - times[0]
            ends = (s for s, count in zip(seconds, columns[-1], strict=True) if count >= goal)
            axes.axvspan(start, next(ends, seconds[-1]), color=ORANGE, alpha=0.25, lw=0)
            axes.axvline(start, color=RED, lw=1)
            height = 0.98 - 0.1 * (number % 3)  # so that names never overlap
            place: Any = {"va": "top", "transform": axes.get_xaxis_transform()}
            axes.text(start, height, f" {name} killed", color=RED, **place)
        for row, (counts, (name, color)) in enumerate(zip(columns, self._curves, strict=True)):
            axes.step(seconds, counts, color=color, lw=2 if row else 5, where="post")
            look: Any = {"color": color, "weight": "bold", "ha": "right"}
            axes.text(0.99, 0.24 - 0.1 * row, name, transform=axes.transAxes, **look)
        axes.set_ylim(0, 1.3 * columns[0][-1])
        picture(figure, self._alt)


# ---- Notebook 13: a query copies a book of the ledger while a shop appends to it -----------------


def copy_book(
    spark: SparkSession,
    source: type[DataSource],
    sink: type[DataSource],
    orders: dict[str, str],
    copies: dict[str, str],
) -> StreamingQuery:
    """Copy one book to another with a learner's source and sink, which have these options."""
    for connector in (source, sink):
        spark.dataSource.register(connector)
    rows = spark.readStream.format(source.name()).options(**orders).load()
    texts = rows.selectExpr("text AS value").repartition(2)
    writer = texts.writeStream.format(sink.name()).options(**copies)
    return writer.trigger(processingTime="1 second").start()


class Drill(_Drill):
    """One drill in `folder`, which must be empty, with two new books of the ledger."""

    _step = 10
    _curves = ("orders", GRAY), ("copies", BLUE)
    _y = "entries"
    _alt = (
        "The number of orders rises, except while the ledger is down. The number of copies "
        "follows in steps. It stands still after each of three kills, and then catches up."
    )

    def __init__(self, spark: SparkSession, ledger: Ledger, folder: Path) -> None:
        super().__init__(spark, folder, ledger=ledger)
        self._address, self._checkpoint = ledger.address, str(folder / "checkpoint")
        self._books = [f"{name}-{uuid.uuid4().hex}" for name in ("orders", "copies")]
        self.lost = self.duplicated = 0

    def run(self, source: type[DataSource], sink: type[DataSource]) -> Drill:
        """Kill the ledger, a worker and the driver, and compare the books.

        Raises `TimeoutError` when nothing is copied, `Broken` when the query ends.
        """
        orders, copies = ({"address": self._address, "book": book} for book in self._books)
        copies["checkpointLocation"] = self._checkpoint
        self._query = partial(copy_book, source=source, sink=sink, orders=orders, copies=copies)
        try:
            self._next_driver()()
            for name in ("ledger", "worker", "driver"):
                self.catch_up()
                if name == "driver":
                    self._drivers.prepare()  # a new one takes its time to start
                self.write_lines(random.uniform(*CALM))
                self.kill(name)
                if name == "ledger":
                    time.sleep(DOWN)
                self.restart(name)
            self.catch_up()
            wait_for(lambda: self._arrived() >= self._written, SECONDS)
        finally:
            for driver in self._started:
                driver.close()
            self._drivers.close()
        written, copied = (Counter(entries(self._address, book)) for book in self._books)
        self.lost, self.duplicated = (written - copied).total(), (copied - written).total()
        return self

    def __repr__(self) -> str:
        mark = "✗" if self.lost or self.duplicated else "✓"
        killed = ", ".join(name for name, *_ in self._kills)
        return f"{mark} killed: {killed} | orders lost: {self.lost}, duplicated: {self.duplicated}"

    def _write(self, count: int) -> None:
        orders = [f"order {self._written + number:06}" for number in range(count)]
        append_once(self._address, self._books[0], "shop", str(self._written), orders)
        self._written += count

    def _count(self) -> tuple[int, ...]:
        self._processes["driver"].check()
        return self._written, int(ask_until_reply(self._address, f"LAST {self._books[1]}")[0])


# ---- Notebook 17: a growing file is sent, received, and published --------------------------------


class LinesDrill(_Drill):
    """A growing file whose lines end up in a CPU log; every process on the way can be killed.

    `sender` follows the file under the name `growing`, `receiver` writes the log, and a driver of
    the drill's own publishes it.
    """

    _step = 20
    _curves = ("written", GRAY), ("in the log", GREEN), ("published", BLUE)
    _y = "lines"
    _alt = (
        "Three rising lines: written, in the log, and published. After the sender or the "
        "receiver is killed, only the written lines go up. After a worker or the driver is "
        "killed, the published lines stand still. Each time they catch up."
    )

    def __init__(
        self, spark: SparkSession, log: Path, port: int, file: Path, **commands: Command
    ) -> None:
        self._log, self._file, self._folder = log / str(port), file, log.parent
        (self._folder / "drivers").mkdir(parents=True)
        super().__init__(spark, self._folder / "drivers", **commands)
        self._query = partial(network_to_log, folder=str(self._folder), port=port, ports=1)
        self._next_driver()()
        self._write(1_000)
        wait_until(lambda: len(self._published()) == self._written, SECONDS, "their arrival")
        self._drivers.prepare()

    def lost_and_duplicated(self) -> tuple[int, int]:
        """Wait for the last lines, and return the number of lost and of duplicated ones."""
        wait_for(lambda: self._arrived() >= self._written, SECONDS)
        lines = self._published()
        return self._written - len(lines), lines.total() - len(lines)

    def _write(self, count: int) -> None:
        with self._file.open("a") as file:
            file.writelines(f"line {self._written + number:06}\n" for number in range(count))
        self._written += count

    def _count(self) -> tuple[int, ...]:
        line, _ = newest_frame(self._log, "growing")
        return self._written, int(line.split()[1]) + 1, len(self._published())

    def _published(self) -> Counter[str]:
        files = self._folder.glob("out/data.*.csv")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Counter(line.split(",", 2)[-1] for line in lines if ",line " in line)
