"""What the trials of sources and of sinks share: run, stop, fail and kill the query."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.described import StreamSink, StreamSource
from spark_connector_tests.driver import Driver, Drivers
from spark_connector_tests.errors import FROM_OUTSIDE, last_error, trace_of
from spark_connector_tests.faults import Faults
from spark_connector_tests.promise import HANG, Broken, MachineTooSlow, Mistake, failure, plain
from spark_connector_tests.queries import InjectedFailure, SinkQuery, SourceQuery

SECONDS = 120  # until something that must happen counts as not happening
RESTLESS = 20  # batches that begin though all rows have arrived
ENDLESS = 60  # batches of availableNow, where fewer rows wait, and more arrive after each
# A row is missing if a query has looked for it this often (slowly on a busy machine), and so long.
LOOKS = 50
QUIET = 2.0  # seconds
KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "1"))
# Far from the zones of test machines. A date can be right on one side of Greenwich only.
FAR_ZONES = {"in Nepal": "Asia/Kathmandu", "in the Marquesas": "Pacific/Marquesas"}

Done = Callable[[], bool]


class Trial:
    """A source or a sink with its query and checkpoint; the promises are tried one by one.

    No wait takes longer than `seconds`.
    """

    described: StreamSource | StreamSink
    plan: SourceQuery | SinkQuery
    seconds: int = SECONDS

    def __init__(self, spark: SparkSession, drivers: Drivers, folder: Path) -> None:
        self.spark, self.drivers, self.folder = spark, drivers, folder
        self.moments = random.Random(20261121)
        self.query: StreamingQuery | None = None
        self.restless = False

    @contextlib.contextmanager
    def blamed(self, function: str) -> Iterator[None]:
        """Report an error of a function of the description as a broken promise."""
        try:
            yield
        except TimeoutError:
            self.raise_failure()  # the function may have waited for a query that failed
            raise
        except (Broken, Mistake, MachineTooSlow, *FROM_OUTSIDE):
            raise
        except BaseException as error:
            text = last_error(error) if isinstance(error, PySparkException) else plain(error)
            remedy = "If the function is right, see what the connector has written or removed."
            cause = f"{function}: {type(error).__name__}"
            raise Broken(f"`{function}` raised {text}", remedy, cause) from error

    def running(self, start: Callable[[], StreamingQuery]) -> None:
        """Call `start()` unless a query runs."""
        if self.query is None or not self.query.isActive:
            self._begin(start)

    def _begin(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        try:
            self.query = start()
        except PySparkException as error:
            raise failure(f"the query failed: {last_error(error)}", trace_of(error)) from error
        return self.query

    def stop(self) -> None:
        """Stop the query, if there is one."""
        if self.query is not None:
            self.query.stop()
            self.query = None

    def raise_failure(self) -> None:
        """Raise `Broken` with the query's error if it has ended."""
        if self.query and not self.query.isActive:
            raise failure(f"the query failed: {last_error(self.query)}", trace_of(self.query))

    def wait(self, done: Done, seconds: float) -> None:
        """Wait for `done()`, at most that long; raise `Broken` if the query fails."""
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            self.raise_failure()
            time.sleep(0.02)
        self.raise_failure()

    def read_all(self, done: Done) -> None:
        """Let the query read everything; if it isn't `done` then, let it look for rows again.

        A batch that begins meanwhile may be followed by more: a source may have threads.
        """
        deadline = time.monotonic() + self.seconds
        self._rest(deadline, done, 2, 0)  # the first look may have been before the rows
        batch = None
        while not done() and batch != self._last_batch():
            batch = self._last_batch()
            self._rest(deadline, done, LOOKS, QUIET)
        self.raise_failure()

    def _rest(self, deadline: float, done: Done, looks: int, seconds: float) -> None:
        """Wait until the query has looked for rows in vain, or until it is clearly restless."""
        until = time.monotonic() + seconds
        idle = threading.Thread(target=_look, args=(self.query, looks, until), daemon=True)
        idle.start()
        checked, was_done = self._last_batch(), False
        while idle.is_alive() and not (seconds and done()):
            batch = self._last_batch()
            if batch >= checked + RESTLESS:
                if was_done:
                    self.restless = True
                    return
                checked, was_done = batch, done()
            if time.monotonic() > deadline:
                raise Broken(f"the query was still busy after {self.seconds} s", cause=HANG)
            idle.join(0.05)

    def _last_batch(self) -> int:
        """Return the number of the last finished batch."""
        progress = self.query.lastProgress if self.query else None
        return progress["batchId"] if progress else -1

    def drain(
        self, start: Callable[[], StreamingQuery], more: Callable[[], object] | None = None
    ) -> None:
        """Start an availableNow query, call `more()` after each batch, and wait for the end."""
        query, batches = self._begin(start), set[int]()
        deadline = time.monotonic() + self.seconds
        with contextlib.suppress(StreamingQueryException):
            while more and query.isActive and time.monotonic() < deadline:
                if len(batches) > ENDLESS:
                    raise Broken(f"availableNow still ran after {ENDLESS} batches, as rows arrived")
                if (batch := self._last_batch()) not in batches:
                    batches.add(batch)
                    more()
                time.sleep(0.02)
            if not query.awaitTermination(self.seconds):
                raise Broken(f"availableNow still ran after {self.seconds} s", cause=HANG)
        if query.exception():
            self.raise_failure()
        self.stop()

    def failed(self) -> None:
        """Wait for the query to fail because of the kit."""
        assert self.query is not None
        with contextlib.suppress(StreamingQueryException):
            if not self.query.awaitTermination(self.seconds):
                raise Broken(f"no batch came to fail within {self.seconds} s", cause=HANG)
        if InjectedFailure.__name__ not in (last_error(self.query) or ""):
            self.raise_failure()
        self.stop()

    @contextlib.contextmanager
    def beside(self, start: Callable[[], StreamingQuery]) -> Iterator[Callable[[Done], bool]]:
        """Run a second query in the block.

        The function that the block gets lets the second query read everything, and returns False if
        that query was refused.
        """
        second: StreamingQuery | None = None
        with contextlib.suppress(PySparkException):
            second = start()

        def outlives(done: Done) -> bool:
            own, self.query = self.query, second
            try:
                if second is not None:
                    self.read_all(done)
                return second is not None
            except Broken:
                return False
            finally:
                self.query = own

        try:
            yield outlives
        finally:
            if second is not None:
                second.stop()

    @contextlib.contextmanager
    def setting(self, name: str, value: object) -> Iterator[None]:
        """Change a setting of the session for queries that start in the block."""
        self.stop()
        before = self.spark.conf.get(name)
        self.spark.conf.set(name, str(value))
        try:
            yield
            self.stop()
        finally:
            self.spark.conf.set(name, str(before))

    @contextlib.contextmanager
    def far_zone(self, where: str) -> Iterator[None]:
        """Have Python workers that start in the block believe in a zone of `FAR_ZONES`."""
        self.stop()
        environment = self.spark.sparkContext.environment
        environment["TZ"] = FAR_ZONES[where]
        try:
            yield
            self.stop()
        finally:
            del environment["TZ"]

    @contextlib.contextmanager
    def faults(self, method: str) -> Iterator[Faults]:
        """Watch a method of the connector in queries that start in the block."""
        self.stop()
        unwatched = cast(type[DataSource], self.plan.format)
        folder = self.folder / f"faults-{method}"
        folder.mkdir(exist_ok=True)
        faults = Faults(method, folder)
        self.plan.format = faults.into(unwatched)
        try:
            yield faults
            self.stop()
        finally:
            self.plan.format = unwatched

    def killed(self, work: Callable[[Driver], None], times: int = KILLS) -> None:
        """Run the query in a driver, do `work`, and kill the driver a moment later; repeat."""
        self.stop()
        for kill in range(times):
            with self.drivers.take() as driver:
                if kill + 1 < times:
                    self.drivers.prepare()
                driver.go(self.plan)
                try:
                    work(driver)
                except TimeoutError:
                    driver.check()
                    raise
                time.sleep(self.moments.uniform(0, 0.3))
                driver.check()

    def close(self) -> None:
        """Remove everything: queries, processes, files, and what the description has opened."""
        try:
            self.stop()
        finally:
            self.described.close()  # it may need the folder
            shutil.rmtree(self.folder, ignore_errors=True)


def _look(query: StreamingQuery, looks: int, until: float) -> None:
    """Let the query look for rows this often, and until this time; return if it has ended."""
    try:
        while query.isActive and (looks > 0 or time.monotonic() < until):
            query.processAllAvailable()
            looks -= 1
    except PySparkException:  # the trial reads the query's error when it has ended
        with contextlib.suppress(PySparkException):
            query.awaitTermination(5)
