"""The final test of notebook 13: a query copies a book while a shop appends to it.

The ledger, a Python worker and the driver are killed with `kill -9`, one after the other. In the
end the two books are compared.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.driver import Driver, Drivers
from tutorial_pkg import start_spark
from tutorial_pkg.core.waiting import wait_for
from workbook.ledger import Ledger, append_once, ask_until_reply, entries
from workbook.plots import BLUE, GRAY, chart, picture, shade_outage
from workbook.senders import kill_a_worker

SECONDS = 120
BLOCK = 10  # orders at once
PAUSE = 0.1  # seconds between two blocks
MOST_AHEAD = 1_000  # orders that are not copied yet
MORE = 100  # copies after each kill, before the next one
POLL = 0.02  # seconds
DOWN = 2.0  # seconds until the ledger is started again
CALM = 1.0, 2.0  # seconds, at random, until the next kill: it may hit any step of a batch


@dataclass(frozen=True)
class Copying:
    """The query: it copies a book of the ledger with a learner's source and sink."""

    source: type[DataSource]
    sink: type[DataSource]
    address: str
    orders: str
    copies: str
    checkpoint: Path

    def start(self, spark: SparkSession) -> StreamingQuery:
        for each in (self.source, self.sink):
            spark.dataSource.register(each)
        reader = spark.readStream.format(self.source.name()).option("address", self.address)
        rows = reader.option("book", self.orders).load().selectExpr("text AS value").repartition(2)
        writer = rows.writeStream.format(self.sink.name()).option("address", self.address)
        writer = writer.option("book", self.copies).option(
            "checkpointLocation", str(self.checkpoint)
        )
        return writer.start()


@dataclass
class Account:
    """The orders and their copies; `history` has (seconds, orders, copies)."""

    lost: int = 0
    twice: int = 0
    history: list[tuple[float, int, int]] = field(default_factory=list)
    kills: list[tuple[float, str]] = field(default_factory=list)

    def draw(self) -> None:
        """Plot both books over time.

        Each outage is shaded: from the kill until all orders from before it are copied, and new
        ones arrive.
        """
        seconds, orders, copies = zip(*self.history, strict=True)
        figure, axes = chart("seconds", "entries", height=3.2)
        for number, (at, name) in enumerate(self.kills):
            before = max(ordered for second, ordered, _ in self.history if second <= at)
            works = [s for s, ordered, copied in self.history if min(ordered - 1, copied) >= before]
            end = next(iter(works), seconds[-1])
            shade_outage(axes, number, name, (at, end))
        axes.plot(seconds, orders, color=GRAY)
        axes.step(seconds, copies, color=BLUE, where="post")
        axes.set_ylim(0, 1.3 * orders[-1])
        axes.text(seconds[-1], 1.03 * orders[-1], "orders", color=GRAY, ha="right", va="bottom")
        axes.text(seconds[-1], 0.5 * copies[-1], "copies", color=BLUE, ha="right", va="top")
        alt = "The number of orders rises, except while the ledger is down. The number of copies "
        alt += "follows in steps. It stands still after each of three kills, and then catches up."
        picture(figure, alt=alt)

    @property
    def passed(self) -> bool:
        return not self.lost and not self.twice

    def __repr__(self) -> str:
        mark = "✓" if self.passed else "✗"
        killed = ", ".join(name for _, name in self.kills)
        return f"{mark} killed: {killed} | orders lost: {self.lost}, duplicated: {self.twice}"


def with_retries() -> SparkSession:
    """Start a session that retries tasks, as a cluster does; `local[2]` gives up."""
    attempts: dict[str, Any] = {"spark.master": "local[2,4]"}
    return start_spark("drill", **attempts)


class Drill:
    """One drill in `folder`, which must be empty, with two new books of the ledger."""

    def __init__(self, spark: SparkSession, ledger: Ledger, folder: Path) -> None:
        self._ledger, self._folder = ledger, folder
        self._orders, self._copies = (f"{name}-{uuid.uuid4().hex}" for name in ("orders", "copies"))
        self._drivers = Drivers(spark, folder, with_retries)
        self._drivers.prepare()  # it starts while its reader reads on
        self._account, self._began = Account(), 0.0
        self._enough, self._copied = threading.Event(), 0

    def run(self, source: type[DataSource], sink: type[DataSource]) -> Account:
        """Raises `TimeoutError` when nothing is copied, `Broken` when the query ends."""
        address, checkpoint = self._ledger.address, self._folder / "checkpoint"
        query = Copying(source, sink, address, self._orders, self._copies, checkpoint)
        driver = self._started(query)
        self._began = time.monotonic()
        booking = threading.Thread(target=self._book)
        booking.start()
        try:
            self._kill(driver, "the ledger", self._ledger.kill)
            time.sleep(DOWN)
            self._ledger.restart()
            self._kill(driver, "a worker", lambda: kill_a_worker(driver))
            self._drivers.prepare()
            self._kill(driver, "the driver", driver.close)
            driver = self._started(query)
            self._wait_for_copies(driver, self._last(self._copies) + MORE)
            self._enough.set()
            booking.join()
            with suppress(TimeoutError):  # the account says what is missing
                self._wait_for_copies(driver, self._last(self._orders))
        finally:
            self._enough.set()
            booking.join()
            driver.close()
            self._drivers.close()
        return self._counted()

    def _started(self, query: Copying) -> Driver:
        driver = self._drivers.take()
        driver.go(query)
        return driver

    def _book(self) -> None:
        """Append block after block until it is enough, but never too far ahead of the copies."""
        blocks = 0
        while not self._enough.wait(PAUSE):
            if blocks * BLOCK - self._copied < MOST_AHEAD:
                orders = [f"order {blocks * BLOCK + number:06}" for number in range(BLOCK)]
                append_once(self._ledger.address, self._orders, "shop", str(blocks), orders)
                blocks += 1

    def _kill(self, driver: Driver, name: str, kill: Callable[[], object]) -> None:
        """Kill some time after there are more copies."""
        self._wait_for_copies(driver, self._last(self._copies) + MORE)
        end = time.monotonic() + random.uniform(*CALM)
        while time.monotonic() < end:
            self._look(driver)
            time.sleep(POLL)
        self._account.kills.append((time.monotonic() - self._began, name))
        kill()

    def _wait_for_copies(self, driver: Driver, count: int) -> None:
        if not wait_for(lambda: self._look(driver) >= count, SECONDS, every=POLL):
            raise TimeoutError(f"expected {count} copies within {SECONDS} s")

    def _look(self, driver: Driver) -> int:
        """Record the length of both books, and return the number of copies."""
        driver.check()
        orders, copies = self._last(self._orders), self._last(self._copies)
        self._copied = copies
        self._account.history.append((time.monotonic() - self._began, orders, copies))
        return copies

    def _last(self, book: str) -> int:
        return int(ask_until_reply(self._ledger.address, f"LAST {book}")[0])

    def _counted(self) -> Account:
        books = self._orders, self._copies
        orders, copies = (Counter(entries(self._ledger.address, book)) for book in books)
        self._account.lost = (orders - copies).total()
        self._account.twice = (copies - orders).total()
        return self._account
