"""What the trials of sources and of sinks share: queries, drivers to be killed, what they leave."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.testing.driver import Driver, Drivers
from tutorial_pkg.testing.processes import ENDING, SparkProcesses
from tutorial_pkg.testing.promise import Broken, MachineTooSlow, failure
from tutorial_pkg.testing.queries import SinkQuery, SourceQuery

SECONDS = 120  # until something that must happen counts as not happening
RESTLESS = 20  # batches that begin though all rows are there
QUIET = 2.0  # when Spark has nothing to do for so long, what has not come will not come
KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "2"))


class Trial:
    """One life of a source or a sink, with its checkpoint; the promises are tried one by one.

    What is under trial has the folder `place` for itself.
    """

    def __init__(
        self, spark: SparkSession, drivers: Drivers, place: str, seed: int = 20261121
    ) -> None:
        self.spark, self.drivers = spark, drivers
        self.moments = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="trial-"))
        self.place = self.folder / place
        self.place.mkdir()
        self.query: StreamingQuery | None = None
        self._beside: StreamingQuery | None = None
        self.left_behind: list[str] = []
        self.processes = SparkProcesses(spark)
        self._processes_before = self.processes.started()
        self._ports_before = self.processes.ports()

    # ---- Queries in this session ---------------------------------------------------------------

    def running(self, start: Callable[[], StreamingQuery]) -> None:
        """See that a query runs; `start()` one when there is none."""
        if self.query is None or not self.query.isActive:
            self._begin(start)

    def _begin(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        try:
            self.query = start()
        except PySparkException as error:
            raise failure(f"the query failed: {last_error(error)}", error) from error
        return self.query

    def stop(self) -> None:
        """Stop the query, and note and end what it leaves running."""
        if self.query is None:
            return
        started = self.processes.started() - self._processes_before
        self.query.stop()
        self.query = None
        self.left_behind += self.processes.end_survivors(started)

    def settle(self, done: Callable[[], bool]) -> None:
        """Let the query read all there is; what is not `done` then has a moment to come yet.

        A batch that begins in that moment gets another one: a source may have threads of its own.
        """
        deadline = time.monotonic() + SECONDS
        batch = None
        while True:
            self._rest(deadline, done)
            before, batch = batch, self._last_batch()
            if done() or batch == before:
                break
            self.wait(done, QUIET)
        self.raise_failure()

    def _rest(self, deadline: float, done: Callable[[], bool]) -> None:
        """Wait until the query has nothing to do."""
        idle = threading.Thread(target=_until_idle, args=(self.query,), daemon=True)
        idle.start()
        asked, was_done = self._last_batch(), False
        while idle.is_alive():
            batch = self._last_batch()
            if batch >= asked + RESTLESS:
                if was_done:
                    seen = f"no row was missing, yet the query went on for {RESTLESS} batches"
                    raise Broken(seen, "As long as nothing comes, `latestOffset` returns the same.")
                asked, was_done = batch, done()
            if time.monotonic() > deadline:
                raise Broken(f"the query had not come to rest after {SECONDS} s")
            idle.join(0.05)

    def _last_batch(self) -> int:
        """The number of the last one that was finished."""
        progress = self.query.lastProgress if self.query else None
        return progress["batchId"] if progress else -1

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait for `done()`, at most so long; raise `Broken` when the query fails."""
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            self.raise_failure()
            time.sleep(0.02)
        self.raise_failure()

    def drain(self, start: Callable[[], StreamingQuery]) -> None:
        """Start a query with the trigger `availableNow`, and wait for its end."""
        query = self._begin(start)
        with contextlib.suppress(StreamingQueryException):
            if not query.awaitTermination(SECONDS):
                raise Broken(f"with availableNow the query had not ended after {SECONDS} s")
        if query.exception():
            self.raise_failure()
        self.stop()

    def failed(self) -> None:
        """Wait for the query to fail, as it was told to."""
        assert self.query is not None
        with contextlib.suppress(StreamingQueryException):
            if not self.query.awaitTermination(SECONDS):
                raise Broken(f"the batch that was made to fail had not come after {SECONDS} s")
        if "ToldToFail" not in (last_error(self.query) or ""):
            self.raise_failure()
        self.stop()

    def started(self, start: Callable[[], StreamingQuery]) -> StreamingQuery | None:
        """Start a query that ends by itself beside the trial's own; None when it is refused."""
        try:
            self._beside = start()
        except PySparkException:
            self._beside = None
        return self._beside

    def refused(self, query: StreamingQuery | None) -> bool:
        """Whether it was refused, or has failed; else wait for its end."""
        if query is None:
            return True
        with contextlib.suppress(StreamingQueryException):
            if not query.awaitTermination(SECONDS):
                raise Broken(f"a query beside another one had not ended after {SECONDS} s")
        error = query.exception()
        if isinstance(late := failure(last_error(query) or "", error), MachineTooSlow):
            raise late
        return error is not None

    def raise_failure(self) -> None:
        """Raise `Broken` when the query has ended, with its error."""
        if self.query and not self.query.isActive:
            error = self.query.exception()
            raise failure(f"the query failed: {last_error(self.query)}", error) from error

    @contextlib.contextmanager
    def setting(self, name: str, value: object) -> Iterator[None]:
        """Within it the session has this setting, for queries that start there."""
        self.stop()
        before = self.spark.conf.get(name)
        self.spark.conf.set(name, str(value))
        try:
            yield
            self.stop()
        finally:
            self.spark.conf.set(name, str(before))

    # ---- Queries in drivers of their own -------------------------------------------------------

    def killed(self, query: SourceQuery | SinkQuery, work: Callable[[Driver], None]) -> None:
        """Several times: run `query` in a driver of its own, do `work`, kill it a moment later."""
        self.stop()
        for kill in range(KILLS):
            with self.drivers.take() as driver:
                if kill + 1 < KILLS:
                    self.drivers.prepare()
                self._killed(driver, query, work)

    def _killed(
        self, driver: Driver, query: SourceQuery | SinkQuery, work: Callable[[Driver], None]
    ) -> None:
        driver.go(query)
        try:
            work(driver)
        except TimeoutError:
            driver.check()
            raise
        time.sleep(self.moments.uniform(0, 0.3))
        driver.check()

    # ---- What is used, and what is left --------------------------------------------------------

    def processor_seconds(self, work: Callable[[], object]) -> float:
        """What `work` costs Spark and all that it has started."""
        before = self.processes.cpu_seconds()
        work()
        after = self.processes.cpu_seconds()
        return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())

    def left_open(self) -> set[str]:
        """Ports and files that are open after the query's end, and stay so."""
        deadline = time.monotonic() + ENDING
        while (left := self._open()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _open(self) -> set[str]:
        ports = self.processes.ports() - self._ports_before
        return ports | self.processes.files(self.place)

    def close(self) -> None:
        """Leave nothing: no query, no process, no file."""
        try:
            if self._beside:
                self._beside.stop()
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _until_idle(query: StreamingQuery) -> None:
    """Twice: the first call may return for a look that was taken before the rows were there."""
    with contextlib.suppress(PySparkException):  # the trial asks the query itself
        query.processAllAvailable()
        query.processAllAvailable()
