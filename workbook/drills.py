"""The final tests of notebooks 13 and 17: kill everything, and count what arrived."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.driver import Driver, Drivers
from spark_connector_tests.query_process import wait_until
from tutorial_pkg import start_spark
from workbook.inside import newest_frame
from workbook.ledger import Ledger, append_once, ask_until_reply, entries
from workbook.network_to_log import network_to_log
from workbook.plots import BLUE, GRAY, GREEN, ORANGE, RED, chart, picture
from workbook.senders import Command, kill_a_worker

SECONDS = 300
PAUSE = 0.1  # seconds between two steps


def with_retries() -> SparkSession:
    """Start a session that retries tasks, as a cluster does; `local[2]` gives up."""
    attempts: dict[str, Any] = {"spark.master": "local[2,4]"}
    return start_spark("drill", **attempts)


@dataclass(frozen=True)
class Query:
    """A query for a driver of its own: `function(spark, *arguments)` starts it."""

    function: Callable[..., StreamingQuery]
    arguments: tuple[Any, ...]

    def start(self, spark: SparkSession) -> StreamingQuery:
        return self.function(spark, *self.arguments)


class History:
    """Counts over time, from what went in to what came out, and the kills."""

    def __init__(self, *curves: tuple[str, str]) -> None:
        self._curves = curves
        self._counts: list[tuple[float, ...]] = []
        self.kills: list[tuple[str, float, float]] = []

    def record(self, *counts: int) -> None:
        self._counts.append((time.monotonic(), *counts))

    def record_kill(self, name: str) -> None:
        """The outage ends when all that went in before, and something new, has come out."""
        self.kills.append((name, time.monotonic(), self._counts[-1][1] + 1))

    def draw(self, y: str, alt: str) -> None:
        """Plot the counts by name and color, and shade the outages."""
        figure, axes = chart("seconds", y, height=3.3)
        times, *columns = zip(*self._counts, strict=True)
        seconds = [at - times[0] for at in times]
        for number, (name, time_of_kill, goal) in enumerate(self.kills):
            start = time_of_kill - times[0]
            ends = (s for s, count in zip(seconds, columns[-1], strict=True) if count >= goal)
            axes.axvspan(start, next(ends, seconds[-1]), color=ORANGE, alpha=0.25, lw=0)
            axes.axvline(start, color=RED, lw=1)
            height = 0.98 - 0.1 * (number % 3)  # so that names never overlap
            place: Any = {"va": "top", "transform": axes.get_xaxis_transform()}
            axes.text(start, height, f" {name} is killed", color=RED, **place)
        for row, (counts, (name, color)) in enumerate(zip(columns, self._curves, strict=True)):
            axes.step(seconds, counts, color=color, lw=2 if row else 5, where="post")
            look: Any = {"color": color, "weight": "bold", "ha": "right"}
            axes.text(0.99, 0.24 - 0.1 * row, name, transform=axes.transAxes, **look)
        axes.set_ylim(0, 1.3 * columns[0][-1])
        picture(figure, alt=alt)


# ---- Notebook 13: a query copies a book of the ledger while a shop appends to it -----------------

BLOCK = 10  # orders at once
MOST_AHEAD = 1_000  # orders that are not copied yet
MORE = 100  # copies after each kill, before the next one
DOWN = 2.0  # seconds until the ledger is started again
CALM = 1.0, 2.0  # seconds, at random, until the next kill: it may hit any step of a batch


def copy_book(
    spark: SparkSession,
    source: type[DataSource],
    sink: type[DataSource],
    address: str,
    books: Sequence[str],
    checkpoint: str,
) -> StreamingQuery:
    """Copy the first book to the second one, with a learner's source and sink."""
    for connector in (source, sink):
        spark.dataSource.register(connector)
    reader = spark.readStream.format(source.name()).options(address=address, book=books[0])
    rows = reader.load().selectExpr("text AS value").repartition(2)
    writer = rows.writeStream.format(sink.name()).options(address=address, book=books[1])
    return writer.option("checkpointLocation", checkpoint).start()


class Drill:
    """One drill in `folder`, which must be empty, with two new books of the ledger."""

    def __init__(self, spark: SparkSession, ledger: Ledger, folder: Path) -> None:
        self._ledger, self._folder = ledger, folder
        self._books = [f"{name}-{uuid.uuid4().hex}" for name in ("orders", "copies")]
        self._drivers = Drivers(spark, folder, with_retries)
        self._drivers.prepare()  # it starts while its reader reads on
        self._history = History(("orders", GRAY), ("copies", BLUE))
        self._ordered = self._copied = self.lost = self.duplicated = 0

    def run(self, source: type[DataSource], sink: type[DataSource]) -> Drill:
        """Kill the ledger, a worker and the driver, and compare the books.

        Raises `TimeoutError` when nothing is copied, `Broken` when the query ends.
        """
        checkpoint = str(self._folder / "checkpoint")
        query = Query(copy_book, (source, sink, self._ledger.address, self._books, checkpoint))
        driver = self._drivers.take()
        driver.go(query)
        try:
            self._kill(driver, "the ledger", self._ledger.kill)
            time.sleep(DOWN)
            self._ledger.restart()
            self._kill(driver, "a worker", lambda: kill_a_worker(driver))
            self._drivers.prepare()
            self._kill(driver, "the driver", driver.close)
            driver = self._drivers.take()
            start = Thread(target=driver.go, args=[query])  # the shop does not wait for it
            start.start()
            while start.is_alive():
                self._order(driver)
            self._order_until_copied(driver, self._copied + MORE)
            with suppress(TimeoutError):  # the numbers say what is missing
                wait_until(lambda: self._look(driver) >= self._ordered, SECONDS, "all copies")
        finally:
            driver.close()
            self._drivers.close()
        orders, copies = (Counter(entries(self._ledger.address, book)) for book in self._books)
        self.lost, self.duplicated = (orders - copies).total(), (copies - orders).total()
        return self

    def __repr__(self) -> str:
        mark = "✗" if self.lost or self.duplicated else "✓"
        killed = ", ".join(name for name, *_ in self._history.kills)
        return f"{mark} killed: {killed} | orders lost: {self.lost}, duplicated: {self.duplicated}"

    def draw(self) -> None:
        """Plot both books over time."""
        alt = "The number of orders rises, except while the ledger is down. The number of copies "
        alt += "follows in steps. It stands still after each of three kills, and then catches up."
        self._history.draw("entries", alt)

    def _kill(self, driver: Driver, name: str, kill: Callable[[], object]) -> None:
        """Kill some time after there are more copies."""
        self._order_until_copied(driver, self._copied + MORE)
        end = time.monotonic() + random.uniform(*CALM)
        while time.monotonic() < end:
            self._order(driver)
        self._history.record_kill(name)
        kill()

    def _order_until_copied(self, driver: Driver, count: int) -> None:
        wait_until(lambda: self._order(driver) >= count, SECONDS, f"{count} copies")

    def _order(self, driver: Driver) -> int:
        """Append a block of orders, unless too many are not copied yet; return the copies."""
        if self._ordered - self._copied < MOST_AHEAD:
            orders = [f"order {self._ordered + number:06}" for number in range(BLOCK)]
            memo = str(self._ordered)
            append_once(self._ledger.address, self._books[0], "shop", memo, orders)
            self._ordered += BLOCK
        time.sleep(PAUSE)
        return self._look(driver)

    def _look(self, driver: Driver) -> int:
        driver.check()
        self._copied = int(ask_until_reply(self._ledger.address, f"LAST {self._books[1]}")[0])
        self._history.record(self._ordered, self._copied)
        return self._copied


# ---- Notebook 17: a growing file is sent, received, and published --------------------------------

LINES = 20  # in each step: up to 200 lines per second


class LinesDrill:
    """A growing file whose lines end up in a CPU log; every process on the way can be killed.

    `sender` follows the file under the name `growing`, `receiver` writes the log, and a driver of
    the drill's own publishes it.
    """

    def __init__(
        self, spark: SparkSession, log: Path, port: int, file: Path, **commands: Command
    ) -> None:
        self._log, self._file, self._folder = log / str(port), file, log.parent
        (self._folder / "drivers").mkdir(parents=True)
        self._query = Query(network_to_log, (str(self._folder), port, 1))
        self._drivers = Drivers(spark, self._folder / "drivers", with_retries)
        self._processes: dict[str, Any] = {**commands, "driver": self._drivers.take()}
        self._processes["driver"].go(self._query)
        self._written = 0
        self._history = History(("written", GRAY), ("in the log", GREEN), ("published", BLUE))
        self._write(1_000)
        wait_until(lambda: len(self._published()) == self._written, SECONDS, "the first lines")
        self._drivers.prepare()

    def write_lines(self, seconds: float) -> None:
        """Write up to 200 lines per second to the file."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._write_and_count()

    def kill(self, name: str) -> None:
        """`kill -9` the sender, the receiver, the driver, or a worker that runs a task."""
        self._history.record_kill(name)
        if name == "worker":
            kill_a_worker(self._processes["driver"])
        else:
            self._processes[name].kill()

    def restart(self, name: str) -> None:
        """Start it again; Spark has replaced a worker already."""
        if name == "driver":
            self._processes[name] = self._drivers.take()
            self._processes[name].go(self._query)
        elif name != "worker":
            self._processes[name].restart()

    def catch_up(self) -> None:
        """Write more lines until all those from before are published."""
        goal = self._written
        while self._write_and_count() < goal:
            pass

    def lost_and_duplicated(self) -> tuple[int, int]:
        """Wait for the last lines, and return the number of lost and of duplicated ones."""
        with suppress(TimeoutError):  # the numbers say what is missing
            wait_until(lambda: self._count() == self._written, SECONDS, "all lines")
        lines = self._published()
        return self._written - len(lines), lines.total() - len(lines)

    def draw(self) -> None:
        """Plot the lines over time: written to the file, in the log, and published."""
        alt = "Three rising lines: written, in the log, and published. After the sender or the "
        alt += "receiver is killed, only the written lines go up. After a worker or the driver is "
        alt += "killed, the published lines stand still. Each time they catch up."
        self._history.draw("lines", alt)

    def _write(self, count: int) -> None:
        with self._file.open("a") as file:
            file.writelines(f"line {self._written + number:06}\n" for number in range(count))
        self._written += count

    def _write_and_count(self) -> int:
        self._write(LINES)
        return self._count()

    def _count(self) -> int:
        line, _ = newest_frame(self._log, "growing")
        published = len(self._published())
        self._history.record(self._written, int(line.split()[1]) + 1, published)
        time.sleep(PAUSE)
        return published

    def _published(self) -> Counter[str]:
        files = self._folder.glob("out/data.*.csv")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Counter(line.split(",", 2)[-1] for line in lines if ",line " in line)
