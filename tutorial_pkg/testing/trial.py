"""What the trials of sources and of sinks share: queries, drivers to be killed, what they leave."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.errors import last_error
from tutorial_pkg.testing.driver import Driver
from tutorial_pkg.testing.promise import Broken, failure
from tutorial_pkg.testing.queries import SinkQuery, SourceQuery

SECONDS = 120  # until something that must happen counts as not happening
QUIET = 2.0  # when Spark has nothing to do for so long, what has not come will not come
KILLS = 2


class Drivers:
    """Drivers made to be killed; the next one's Spark starts while other things happen."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._conf = spark.sparkContext.getConf().getAll()
        self._folder, self._count = folder, 0
        self._spare: Driver | None = None

    def prepare(self) -> None:
        """Let a driver start now that will be taken later."""
        if self._spare is None:
            self._count += 1
            self._spare = Driver(self._folder / f"driver-{self._count}", self._conf)

    def take(self) -> Driver:
        """A driver whose Spark is starting, or up."""
        self.prepare()
        driver, self._spare = self._spare, None
        assert driver is not None
        return driver

    def close(self) -> None:
        """End the one that nobody took."""
        if self._spare is not None:
            self._spare.close()
            self._spare = None


class Trial:
    """One life of a source or a sink, with its checkpoint; the promises are tried one by one."""

    def __init__(self, spark: SparkSession, drivers: Drivers, seed: int = 20261121) -> None:
        self.spark, self.drivers = spark, drivers
        self.moments = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="trial-"))
        self.query: StreamingQuery | None = None
        self.left_behind: list[str] = []
        java: Any = spark.sparkContext._jvm
        self._java = java.ProcessHandle.current().pid()
        self._before = self._processes()

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
        started = self._processes() - self._before
        self.query.stop()
        self.query = None
        left = _survivors(started)
        self.left_behind += [_described(process) for process in left]
        for process in left:
            if not _is_of(process, "pyspark"):  # Spark's own may be another query's
                _kill(process)

    def settle(self, done: Callable[[], bool]) -> None:
        """Let the query read all there is; what is not `done` then has a moment to come yet."""
        query = self.query
        assert query is not None
        idle = threading.Thread(target=_until_idle, args=(query,), daemon=True)
        idle.start()
        idle.join(SECONDS)
        if idle.is_alive():
            raise Broken(f"the query had not come to rest after {SECONDS} s")
        self.wait(done, QUIET)

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
            self.query.awaitTermination(SECONDS)
        if "ToldToFail" not in (last_error(self.query) or ""):
            self.raise_failure()
        self.stop()

    def killed(self, query: SourceQuery | SinkQuery, work: Callable[[Driver], None]) -> None:
        """Run `query` in a driver of its own, do `work`, and kill it a moment later."""
        self.stop()
        with self.drivers.take() as driver:
            driver.go(query)
            try:
                work(driver)
            except TimeoutError:
                driver.check()
                raise
            time.sleep(self.moments.uniform(0, 0.3))
            driver.check()

    def close(self) -> None:
        """Leave nothing: no query, no process, no file."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def raise_failure(self) -> None:
        """Raise `Broken` when the query has ended, with its error."""
        if self.query and not self.query.isActive:
            error = self.query.exception()
            raise failure(f"the query failed: {last_error(self.query)}", error) from error

    def _processes(self) -> set[psutil.Process]:
        """All that Spark has started."""
        return set(psutil.Process(self._java).children(recursive=True))


def _until_idle(query: StreamingQuery) -> None:
    """Twice: the first call may return for a look that was taken before the rows were there."""
    with contextlib.suppress(PySparkException):  # the trial asks the query itself
        query.processAllAvailable()
        query.processAllAvailable()


def _survivors(started: set[psutil.Process]) -> list[psutil.Process]:
    """Those that do not end within some seconds; Spark keeps its task workers for the next task."""
    ending = [process for process in started if not _is_of(process, "pyspark.daemon")]
    return list(psutil.wait_procs(ending, timeout=5)[1])


def _is_of(process: psutil.Process, module: str) -> bool:
    """Whether it is a Python that runs a module of this name; False for one that has ended."""
    try:
        return any(word.startswith(module) for word in process.cmdline())
    except psutil.Error:
        return False


def _described(process: psutil.Process) -> str:
    try:
        return f"process {process.pid} ({' '.join(process.cmdline())[:80]})"
    except psutil.Error:
        return f"process {process.pid}"


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
