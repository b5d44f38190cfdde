"""examine_source() and examine_sink(): try all claimed promises, and report."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_connector_tests.described import DescribeSink, DescribeSource, StreamSink
from spark_connector_tests.driver import Drivers, NewSession
from spark_connector_tests.errors import FROM_OUTSIDE
from spark_connector_tests.promise import (
    HANG,
    Broken,
    MachineTooSlow,
    Mistake,
    NotTried,
    Promise,
    check_names,
    plain,
)
from spark_connector_tests.report import BROKEN, KEPT, NOT_CLAIMED, Report, Verdict, ranked
from spark_connector_tests.sink_promises import HARD_VALUES, SINK_PROMISES
from spark_connector_tests.sink_trial import SinkTrial
from spark_connector_tests.source_promises import SOURCE_PROMISES
from spark_connector_tests.source_trial import SourceTrial
from spark_connector_tests.trial import SECONDS

# A connector that hangs once is likely to hang again: don't wait as long each time.
IMPATIENT = 15  # seconds

T = TypeVar("T", SourceTrial, SinkTrial)
Told = Callable[[Verdict], object]


class Examination(Generic[T]):
    """Tries promises one after the other on one source or sink, which starts afresh after a ✗.

    Use it as a context manager: at its end, even after an interruption, it removes everything that
    it has started.
    """

    def __init__(
        self,
        spark: SparkSession,
        begin: Callable[[Drivers], T],
        promises: Sequence[Promise[T]],
        session: NewSession | None = None,
    ) -> None:
        self._begin: Callable[[Drivers], T] = begin
        self.promises: Sequence[Promise[T]] = promises
        self._folder = Path(tempfile.mkdtemp(prefix="examination-"))
        self.drivers = Drivers(spark, self._folder, session)
        self.verdicts: list[Verdict] = []
        self._trial: T | None = None
        self._seconds = SECONDS
        self._causes: dict[str, str] = {}  # each with the promise that met it first
        self._unusable = ""

    def begin(self, chosen: Sequence[Promise[T]]) -> None:
        """Check the names in `not_claimed`, and start a driver if one is needed later."""
        described = self._life().described
        known = [promise.name for promise in self.promises]
        known += HARD_VALUES if isinstance(described, StreamSink) else []
        check_names(described.not_claimed, known, "`not_claimed`")
        if "killed" in {promise.name for promise in chosen} - described.not_claimed.keys():
            self.drivers.prepare()

    def verdict(self, promise: Promise[T]) -> Verdict:
        """Try one promise."""
        described = self._life().described
        mark, seen, remedy, because, missing = KEPT, "", "", "", False
        try:
            if reason := promise.why_not(described) or self._unusable:
                raise NotTried(reason)
            seen = self._tried(promise)
        except NotTried as why:
            mark, seen = NOT_CLAIMED, str(why)
        except Broken as broken:
            self._end_life()
            mark, seen = BROKEN, str(broken)
            remedy = broken.remedy or promise.remedy
            because, missing = self._because(broken, promise), broken.rows_missing
        if not described.restarts:
            self._end_life()
        self.verdicts.append(
            Verdict(promise.name, promise.sentence, mark, seen, remedy, because, missing)
        )
        return ranked(self.verdicts)[-1]

    def _because(self, broken: Broken, promise: Promise[T]) -> str:
        """Return the earlier promise with the same cause; empty if this is the first."""
        if broken.nothing_works:
            self._unusable = f"not tried: `{promise.name}` comes first"
        if broken.cause == HANG:
            self._seconds = IMPATIENT
        first = self._causes.setdefault(broken.cause or promise.name, promise.name)
        return "" if first == promise.name else first

    def _tried(self, promise: Promise[T], retries: int = 2) -> str:
        """Try it, again if the machine was too slow for Spark; return the remark on a kept one."""
        try:
            return promise.try_it(self._life()) or ""
        except MachineTooSlow:
            self._end_life()
            if not retries:
                raise
            return self._tried(promise, retries - 1)
        except TimeoutError as late:
            raise Broken(str(late), cause=HANG) from late
        except (Broken, Mistake, NotTried, *FROM_OUTSIDE):
            raise
        except BaseException as error:  # of any kind: the rest of the report is worth having
            text = f"the trial ended with {plain(error)}"
            raise Broken(text, "Check your description, and the query.", text) from error

    def _life(self) -> T:
        if self._trial is None:
            self._trial = self._begin(self.drivers)
            self._trial.seconds = self._seconds
        return self._trial

    def _end_life(self) -> None:
        if self._trial is not None:
            self._trial.close()
            self._trial = None

    def report(self, without: Collection[str], only: Collection[str], told: Told | None) -> Report:
        """Try the chosen promises, and remove everything."""
        began = time.monotonic()
        with self:
            chosen = choose(self.promises, without, only)
            self.begin(chosen)
            described = self._life().described
            for promise in chosen:
                verdict = self.verdict(promise)
                if told:
                    told(verdict)
        kind = described.format
        name = kind if isinstance(kind, str) else kind.name()
        if isinstance(described, StreamSink) and described.at_least_once:
            name += " (at least once)"
        return Report(name, ranked(self.verdicts), time.monotonic() - began)

    def __enter__(self) -> Examination[T]:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_life()
        finally:
            self.drivers.close()
            shutil.rmtree(self._folder, ignore_errors=True)


def source_examination(
    spark: SparkSession | None, describe: DescribeSource, session: NewSession | None = None
) -> Examination[SourceTrial]:
    """Return an examination of the source that `describe(folder)` returns."""
    active = _active(spark)
    begin = lambda drivers: SourceTrial(active, describe, drivers)  # noqa: E731
    return Examination(active, begin, SOURCE_PROMISES, session)


def sink_examination(
    spark: SparkSession | None, describe: DescribeSink, session: NewSession | None = None
) -> Examination[SinkTrial]:
    """Return an examination of the sink that `describe(folder)` returns."""
    active = _active(spark)
    begin = lambda drivers: SinkTrial(active, describe, drivers)  # noqa: E731
    return Examination(active, begin, SINK_PROMISES, session)


def _active(spark: SparkSession | None) -> SparkSession:
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise Mistake("no Spark session is active: start one, or pass `spark=`")
    if is_remote():
        raise Mistake("the kit can't kill the processes of Spark Connect: use a classic session")
    return session


def examine_source(
    describe: DescribeSource,
    spark: SparkSession | None = None,
    without: Collection[str] = (),
    only: Collection[str] = (),
    told: Told | None = None,
    session: NewSession | None = None,
) -> Report:
    """Try the promises of a streaming source, and report which are kept.

    All promises together take a minute or more. `SOURCE_PROMISES` lists them, each with its name,
    its sentence, `how` it is tried, and the `remedy`. Raises `Mistake`, a `ValueError`, for an
    unknown name or without a session.

    Args:
        describe: `describe(folder)` returns a `StreamSource`; each trial has a new folder.
        spark: The session; by default the active one.
        without: Names of promises to leave out.
        only: Names of the only promises to try.
        told: A function that gets each verdict as soon as it is known, such as `print`.
        session: A function of a module that returns a new session in the drivers that are killed,
            if a plain session with the settings of `spark` is not enough.
    """
    return source_examination(spark, describe, session).report(without, only, told)


def examine_sink(
    describe: DescribeSink,
    spark: SparkSession | None = None,
    without: Collection[str] = (),
    only: Collection[str] = (),
    told: Told | None = None,
    session: NewSession | None = None,
) -> Report:
    """Try the promises of a streaming sink, and report which are kept.

    `describe(folder)` returns a `StreamSink`. The rest works as with `examine_source`; the promises
    are in `SINK_PROMISES`.
    """
    return sink_examination(spark, describe, session).report(without, only, told)


def choose(
    promises: Sequence[Promise[T]], without: Collection[str], only: Collection[str]
) -> list[Promise[T]]:
    """Return the promises in `only`, or all but those in `without`; `Mistake` for unknown names."""
    known = [promise.name for promise in promises]
    for names, where in ((without, "`without`"), (only, "`only`")):
        if isinstance(names, str):
            raise Mistake(f"{where} must be a list of names, got {names!r}")
        check_names(names, known, where)
    chosen = set(only or known) - set(without)
    return [promise for promise in promises if promise.name in chosen]
