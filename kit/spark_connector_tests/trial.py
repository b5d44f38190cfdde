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
from typing import cast

import psutil
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.utils import is_remote

from spark_connector_tests.described import StreamSink, StreamSource
from spark_connector_tests.driver import Driver, Drivers
from spark_connector_tests.errors import NOT_THEIRS, last_error
from spark_connector_tests.processes import ENDING, SparkProcesses
from spark_connector_tests.promise import (
    HANG,
    Broken,
    MachineTooSlow,
    Mistake,
    NotTried,
    failure,
    plain,
)
from spark_connector_tests.queries import SinkQuery, SourceQuery
from spark_connector_tests.trap import Trap

SECONDS = 120  # until something that must happen counts as not happening
RESTLESS = 20  # batches that begin though all rows are there
ENDLESS = 60  # batches of availableNow, where fewer rows wait, and some more come after each
QUIET = 2.0  # when Spark has nothing to do for this long, what has not come will not come
KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "1"))
HELD = 3.0  # seconds that a slow server does not answer
# No zones of a test machine. A date that is right on one side of Greenwich is wrong on the other.
FAR_ZONES = {"in Nepal": "Asia/Kathmandu", "in the Marquesas": "Pacific/Marquesas"}


class Trial:
    """One life of a source or a sink, with its checkpoint; the promises are tried one by one.

    What is under trial has the folder `place` for itself. Nobody waits longer than `seconds` for
    what must happen.
    """

    described: StreamSource | StreamSink
    plan: SourceQuery | SinkQuery
    seconds: int = SECONDS

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
        self.restless = False
        self.processes = SparkProcesses(spark)
        self._processes_before = self.processes.started()
        self._ports_before = self.processes.ports()

    # ---- What a source and a sink have each in its way -----------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether rows can come while no query runs, and wait for one."""
        return True

    def run(self) -> None:
        """See that the query runs."""
        raise NotImplementedError

    def ensure_worked(self) -> None:
        """See that rows have gone through a query, which need not run any more."""
        raise NotImplementedError

    def more(self) -> None:
        """Have more rows come, and do not wait for them."""
        raise NotImplementedError

    def more_unread(self) -> None:
        """The same while no query runs, if that is possible."""
        raise NotImplementedError

    def done(self) -> bool:
        """Whether as many rows are there as should be."""
        raise NotImplementedError

    def arrive(self, when: str) -> None:
        """Wait until all is there, and compare."""
        raise NotImplementedError

    @contextlib.contextmanager
    def blamed(self, function: str) -> Iterator[None]:
        """An error of a function that describes the connector breaks the promise under trial."""
        try:
            yield
        except TimeoutError:
            self.raise_failure()  # it waited for a query that has failed
            raise
        except (Broken, Mistake, MachineTooSlow, *NOT_THEIRS):
            raise
        except BaseException as error:
            text = last_error(error) if isinstance(error, PySparkException) else plain(error)
            told = "If it is right, the connector has made, or taken away, what it stumbled over."
            raise Broken(
                f"`{function}` raised {text}", told, cause=f"{function}: {type(error).__name__}"
            ) from error

    def endure(self) -> None:
        """Let the query read all there is, or fail, as it may; perhaps it could not even start."""
        with contextlib.suppress(Broken):
            if self.query is not None:
                self.read_all(self.done)

    def runs(self) -> bool:
        """Whether the query runs, or has ended well."""
        return self.query is not None and not self.query.exception()

    def recover(self, when: str) -> None:
        """See that the query runs, after it may have failed, and compare."""
        self.endure()
        self.run()
        self.arrive(when)

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

    def read_all(self, done: Callable[[], bool]) -> None:
        """Let the query read all there is; what is not `done` then has a moment to come yet.

        A batch that begins in that moment gets another one: a source may have threads of its own.
        """
        deadline = time.monotonic() + self.seconds
        batch = None
        while True:
            self._rest(deadline, done)
            before, batch = batch, self._last_batch()
            if done() or batch == before:
                break
            self.wait(done, QUIET)
        self.raise_failure()

    def _rest(self, deadline: float, done: Callable[[], bool]) -> None:
        """Wait until the query has nothing to do; or that, when all is done, it does not rest."""
        idle = threading.Thread(target=_until_idle, args=(self.query,), daemon=True)
        idle.start()
        asked, was_done = self._last_batch(), False
        while idle.is_alive():
            batch = self._last_batch()
            if batch >= asked + RESTLESS:
                if was_done:
                    self.restless = True
                    return
                asked, was_done = batch, done()
            if time.monotonic() > deadline:
                raise hanging(f"the query had not come to rest after {self.seconds} s")
            idle.join(0.05)

    def _last_batch(self) -> int:
        """The number of the last one that was finished."""
        progress = self.query.lastProgress if self.query else None
        return progress["batchId"] if progress else -1

    def wait(self, done: Callable[[], bool], seconds: float) -> None:
        """Wait for `done()`, at most that long; raise `Broken` when the query fails."""
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            self.raise_failure()
            time.sleep(0.02)
        self.raise_failure()

    def drain(
        self, start: Callable[[], StreamingQuery], more: Callable[[], object] | None = None
    ) -> None:
        """Start a query with the trigger `availableNow`, and wait for its end.

        If there is `more` to come, some comes after each batch, as with a source that never rests.
        """
        query = self._begin(start)
        with contextlib.suppress(StreamingQueryException):
            if more:
                self._let_come(query, more)
            if not query.awaitTermination(self.seconds):
                raise hanging(f"with availableNow the query had not ended after {self.seconds} s")
        if query.exception():
            self.raise_failure()
        self.stop()

    def _let_come(self, query: StreamingQuery, more: Callable[[], object]) -> None:
        """Raise `Broken` when a query with `availableNow` goes on as long as something comes."""
        batches = set[int]()
        deadline = time.monotonic() + self.seconds
        while query.isActive and time.monotonic() < deadline:
            if len(batches) > ENDLESS:
                raise Broken(f"while rows came, it had not ended after {ENDLESS} batches")
            if (batch := self._last_batch()) not in batches:
                batches.add(batch)
                more()
            time.sleep(0.02)

    def failed(self) -> None:
        """Wait for the query to fail, as it was told to."""
        assert self.query is not None
        with contextlib.suppress(StreamingQueryException):
            if not self.query.awaitTermination(self.seconds):
                raise hanging(f"the batch that was to fail had not come after {self.seconds} s")
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

    def outlives(self, query: StreamingQuery | None, done: Callable[[], bool]) -> bool:
        """Let a query beside the trial's own read all there is; False when it is refused."""
        own, self.query = self.query, query
        try:
            if query is not None:
                self.read_all(done)
            return query is not None
        except Broken:
            return False
        finally:
            self.query = own

    def end_beside(self) -> None:
        if self._beside:
            self._beside.stop()

    def refused(self, query: StreamingQuery | None) -> bool:
        """Whether it was refused, or has failed; else wait for its end."""
        if query is None:
            return True
        with contextlib.suppress(StreamingQueryException):
            if not query.awaitTermination(self.seconds):
                raise hanging(f"a second query had not ended after {self.seconds} s")
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

    def look_inside(self) -> None:
        """Raises `NotTried` where what a query's function sees stays in another process."""
        if is_remote():
            raise NotTried("with Spark Connect a batch cannot be looked into")

    @contextlib.contextmanager
    def far_zone(self, where: str) -> Iterator[None]:
        """Within it, what queries run in Python believes that it is there (one of `FAR_ZONES`)."""
        self.stop()
        environment = self.spark.sparkContext.environment
        environment["TZ"] = FAR_ZONES[where]
        try:
            yield
            self.stop()
        finally:
            del environment["TZ"]

    @contextlib.contextmanager
    def trapped(self, method: str, times: int = 1) -> Iterator[Trap]:
        """Within it this method of the connector has a trap in it."""
        self.stop()
        whole = cast(type[DataSource], self.plan.format)
        folder = self.folder / f"trap-{method}"
        folder.mkdir(exist_ok=True)
        trap = Trap(method, folder, times)
        self.plan.format = trap.into(whole)
        try:
            yield trap
            self.stop()
        finally:
            self.plan.format = whole

    # ---- Its server ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Within it the server is away."""
        assert self.described.server
        self.described.server.stop()
        try:
            yield
        finally:
            self.described.server.start()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Within it the server's processes do nothing, and their connections stay open."""
        assert self.described.server and self.described.server.processes
        processes = [psutil.Process(pid) for pid in self.described.server.processes()]
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in reversed(processes):
                process.resume()

    # ---- Queries in drivers of their own -------------------------------------------------------

    def killed(
        self, query: SourceQuery | SinkQuery, work: Callable[[Driver], None], times: int = KILLS
    ) -> None:
        """Several times: run `query` in a driver of its own, do `work`, kill it a moment later."""
        self.stop()
        for kill in range(times):
            with self.drivers.take() as driver:
                if kill + 1 < times:
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
        """Leave nothing: no query, no process, no file, nothing that the description holds."""
        try:
            self.end_beside()
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.described.close()


def hanging(seen: str) -> Broken:
    """What did not happen in time."""
    return Broken(seen, cause=HANG)


def _until_idle(query: StreamingQuery) -> None:
    """Twice: the first call may return for a look that was taken before the rows were there."""
    try:
        query.processAllAvailable()
        query.processAllAvailable()
    except PySparkException:  # the trial asks the query itself, as soon as it has ended
        with contextlib.suppress(PySparkException):
            query.awaitTermination(int(ENDING))
