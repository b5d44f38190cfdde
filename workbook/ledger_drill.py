"""The last judge of notebook 21: a query copies a book while it is written, and all are killed.

The ledger, a Python worker and the driver are killed with `kill -9`, one after the other, while
orders are booked. Then the two books are compared.
"""

from __future__ import annotations

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
from workbook.ledger import Ledger, asked, booked, entries
from workbook.senders import kill_a_worker

SECONDS = 120
BLOCK = 20  # orders at once
PAUSE = 0.02  # seconds between two blocks
MOST_AHEAD = 400  # orders that are not copied yet
MORE = 100  # copies between two kills
AT_ONCE = 0.002  # seconds: a driver that is killed now has copied, but not yet noted that it has


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
    """The orders and their copies; `history` has (seconds, booked, copied)."""

    lost: int = 0
    twice: int = 0
    history: list[tuple[float, int, int]] = field(default_factory=list)
    kills: list[tuple[float, str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.lost and not self.twice

    def __repr__(self) -> str:
        mark = "✓" if self.passed else "✗"
        killed = ", ".join(name for _, name in self.kills)
        return f"{mark} killed: {killed} | orders lost: {self.lost}, copied twice: {self.twice}"


def _with_retries() -> SparkSession:
    """Start a session that retries tasks, as a cluster does; `local[2]` gives up."""
    attempts: dict[str, Any] = {"spark.master": "local[2,4]"}
    return start_spark("drill", **attempts)


class Drill:
    """One drill in `folder`, which must be empty, with two new books of the ledger."""

    def __init__(self, spark: SparkSession, ledger: Ledger, folder: Path) -> None:
        self._ledger, self._folder = ledger, folder
        self._orders, self._copies = (f"{name}-{uuid.uuid4().hex}" for name in ("orders", "copies"))
        self._drivers = Drivers(spark, folder, _with_retries)
        self._drivers.prepare()  # it starts while its reader reads on
        self._account, self._began = Account(), 0.0
        self._enough, self._copied = threading.Event(), 0

    def run(self, source: type[DataSource], sink: type[DataSource]) -> Account:
        """Raises `TimeoutError` when nothing is copied, `Broken` when the query ends."""
        self._began = time.monotonic()
        address, checkpoint = self._ledger.address, self._folder / "checkpoint"
        query = Copying(source, sink, address, self._orders, self._copies, checkpoint)
        booking = threading.Thread(target=self._book)
        booking.start()
        driver = self._started(query)
        try:
            self._kill(driver, "the ledger", self._ledger.kill)
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
        """Book block after block until it is enough, but never too far ahead of the copies."""
        blocks = 0
        while not self._enough.wait(PAUSE):
            if blocks * BLOCK - self._copied < MOST_AHEAD:
                orders = [f"order {blocks * BLOCK + number:06}" for number in range(BLOCK)]
                booked(self._ledger.address, self._orders, "shop", str(blocks), orders)
                blocks += 1

    def _kill(self, driver: Driver, name: str, kill: Callable[[], object]) -> None:
        """Kill as soon as there are more copies."""
        self._wait_for_copies(driver, self._last(self._copies) + MORE)
        kill()
        self._account.kills.append((time.monotonic() - self._began, name))

    def _wait_for_copies(self, driver: Driver, count: int) -> None:
        def there() -> bool:
            driver.check()
            orders, copies = self._last(self._orders), self._last(self._copies)
            self._copied = copies
            self._account.history.append((time.monotonic() - self._began, orders, copies))
            return copies >= count

        if not wait_for(there, SECONDS, every=AT_ONCE):
            raise TimeoutError(f"a book of {count} copies did not happen within {SECONDS} s")

    def _last(self, book: str) -> int:
        return int(asked(self._ledger.address, f"LAST {book}")[0])

    def _counted(self) -> Account:
        books = self._orders, self._copies
        orders, copies = (Counter(entries(self._ledger.address, book)) for book in books)
        self._account.lost = (orders - copies).total()
        self._account.twice = (copies - orders).total()
        return self._account
