"""examine_source() and examine_sink(): try every promise that is claimed, and report."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pyspark.sql import SparkSession

from spark_connector_tests.described import DescribeSink, DescribeSource, StreamSink, StreamSource
from spark_connector_tests.driver import Drivers, NewSession
from spark_connector_tests.errors import NOT_THEIRS
from spark_connector_tests.promise import (
    HANG,
    Broken,
    MachineTooSlow,
    Mistake,
    NothingWorks,
    NotTried,
    Promise,
    check_names,
    plain,
)
from spark_connector_tests.report import ADVICE, BROKEN, KEPT, NOT_CLAIMED, Report, Verdict
from spark_connector_tests.sink_promises import SINK_PROMISES
from spark_connector_tests.sink_trial import SinkTrial
from spark_connector_tests.source_promises import SOURCE_PROMISES
from spark_connector_tests.source_trial import SourceTrial
from spark_connector_tests.trial import SECONDS

KILL = "killed"  # the promise that needs drivers of its own
# What hangs once is likely to hang again; it is no use waiting as long each time.
IMPATIENT = 15  # seconds

T = TypeVar("T", SourceTrial, SinkTrial)


class Examination(Generic[T]):
    """Tries promises on one life of a source or sink; after a broken one a new life begins.

    A context manager: at its end, even after an interruption, it leaves nothing behind.
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
        self._trial: T | None = None
        self._seconds = SECONDS
        self._causes: dict[str, str] = {}  # each with the promise that it was first seen at
        self._unusable = ""

    def begin(self, wanted: Sequence[Promise[T]]) -> None:
        """Check what is described, and meanwhile start what will be needed later."""
        claimed = {promise.name for promise in wanted} - self.described().not_claimed.keys()
        if KILL in claimed:
            self.drivers.prepare()

    def described(self) -> StreamSource | StreamSink:
        """What the user said about the source or sink.

        Raises `Mistake` for a name in `not_claimed` that no promise has.
        """
        found = self._life().described
        check_names(found.not_claimed, self.promises, "`not_claimed`")
        return found

    def verdict(self, promise: Promise[T]) -> Verdict:
        """Try one promise."""
        described = self.described()
        reason = promise.why_not(described) or self._unusable
        if reason:
            return Verdict(promise.name, promise.sentence, NOT_CLAIMED, reason)
        try:
            broken = self._broken(promise)
        except NotTried as why:
            return Verdict(promise.name, promise.sentence, NOT_CLAIMED, str(why))
        if not described.restarts:
            self._end_life()
        if broken is None:
            return Verdict(promise.name, promise.sentence, KEPT)
        because = self._because(broken, promise)
        mark = ADVICE if promise.advice else BROKEN
        remedy = broken.remedy or (described.built and promise.built) or promise.remedy
        return Verdict(promise.name, promise.sentence, mark, str(broken), remedy, because)

    def _because(self, broken: Broken, promise: Promise[T]) -> str:
        """The promise that was broken before, for the same cause; empty when this is the first."""
        if isinstance(broken, NothingWorks):
            self._unusable = f"not tried: `{promise.name}` comes first"
        if broken.cause == HANG:
            self._seconds = IMPATIENT
        first = self._causes.setdefault(broken.cause or promise.name, promise.name)
        return "" if first == promise.name else first

    def _broken(self, promise: Promise[T], again: int = 2) -> Broken | None:
        """What breaks it; None when it is kept. On a machine too slow for Spark, try again."""
        try:
            promise.try_it(self._life())
        except MachineTooSlow:
            self._end_life()
            if not again:
                raise
            return self._broken(promise, again - 1)
        except TimeoutError as late:
            self._end_life()
            return Broken(str(late), cause=HANG)
        except Broken as broken:
            self._end_life()
            return broken
        except (Mistake, NotTried, *NOT_THEIRS):
            raise
        except BaseException as error:  # of any kind: the report on the others is worth it
            self._end_life()
            text = f"the trial ended with {plain(error)}"
            return Broken(text, "Look at what you described, and at what the query did.", text)
        return None

    def _life(self) -> T:
        if self._trial is None:
            self._trial = self._begin(self.drivers)
            self._trial.seconds = self._seconds
        return self._trial

    def _end_life(self) -> None:
        if self._trial is not None:
            self._trial.close()
            self._trial = None

    def __enter__(self) -> Examination[T]:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_life()
        finally:
            self.drivers.close()
            shutil.rmtree(self._folder, ignore_errors=True)


Told = Callable[[Verdict], object]


def silent(_: Verdict) -> None:
    """Without a `told`, all verdicts are in the report."""


def source_examination(
    spark: SparkSession, describe: DescribeSource, session: NewSession | None = None
) -> Examination[SourceTrial]:
    """An examination of the source that `describe(folder)` returns."""
    return Examination(
        spark, lambda drivers: SourceTrial(spark, describe, drivers), SOURCE_PROMISES, session
    )


def sink_examination(
    spark: SparkSession, describe: DescribeSink, session: NewSession | None = None
) -> Examination[SinkTrial]:
    """An examination of the sink that `describe(folder)` returns."""
    return Examination(
        spark, lambda drivers: SinkTrial(spark, describe, drivers), SINK_PROMISES, session
    )


def examine_source(
    describe: DescribeSource,
    spark: SparkSession | None = None,
    without: Collection[str] = (),
    only: Collection[str] = (),
    told: Told = silent,
    session: NewSession | None = None,
) -> Report:
    """Try the promises of a streaming source: all, those in `only`, or all but those in `without`.

    `describe(folder)` returns a `StreamSource`; it is called anew for each trial, with a folder
    of its own. `spark` is the active session when it is not given. `told` gets each verdict as soon
    as it is known (`told=print`): all of them take a minute or more. `session` makes a new session
    in the drivers that are killed, if a plain one with the settings of `spark` will not do; it
    travels pickled, so name a function of a module. `SOURCE_PROMISES` has the promises, each with
    its name and sentence, `how` it is tried, and the `remedy`.

    Raises `ValueError` (`Mistake`) without a session, and for a name that no promise has.
    """
    return _examine(source_examination(_session(spark), describe, session), without, only, told)


def examine_sink(
    describe: DescribeSink,
    spark: SparkSession | None = None,
    without: Collection[str] = (),
    only: Collection[str] = (),
    told: Told = silent,
    session: NewSession | None = None,
) -> Report:
    """Try the promises of a streaming sink: all, those in `only`, or all but those in `without`.

    `describe(folder)` returns a `StreamSink`; the rest is as with `examine_source`, and the
    promises are in `SINK_PROMISES`.
    """
    return _examine(sink_examination(_session(spark), describe, session), without, only, told)


def _session(spark: SparkSession | None) -> SparkSession:
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise Mistake("no Spark session is active: start one, or give `spark=`")
    return session


def _examine(
    examination: Examination[T], without: Collection[str], only: Collection[str], told: Told
) -> Report:
    began = time.monotonic()
    with examination:
        wanted = chosen(examination.promises, without, only)
        examination.begin(wanted)
        name = _name(examination.described())
        verdicts = []
        for promise in wanted:
            verdicts.append(examination.verdict(promise))
            told(verdicts[-1])
    return Report(name, verdicts, time.monotonic() - began)


def chosen(
    promises: Sequence[Promise[T]], without: Collection[str], only: Collection[str]
) -> list[Promise[T]]:
    """Those in `only`, or all except those in `without`; `Mistake` for an unknown name."""
    for names, where in ((without, "`without`"), (only, "`only`")):
        if isinstance(names, str):
            raise Mistake(f"{where} takes a list of names, not {names!r}")
        check_names(names, promises, where)
    wanted = only or [promise.name for promise in promises]
    return [promise for promise in promises if promise.name in set(wanted) - set(without)]


def _name(described: StreamSource | StreamSink) -> str:
    of = described.format
    name = of if isinstance(of, str) else of.name()
    repeats = isinstance(described, StreamSink) and described.at_least_once
    return f"{name} (at least once)" if repeats else name
