"""examine_source() and examine_sink(): try all claimed promises, and report."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_connector_tests.described import StreamSink, StreamSource
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

Describe = Callable[[Path], StreamSource | StreamSink]
Told = Callable[[Verdict], object]


class Examination:
    """Tries promises one after the other on one source or sink, which starts afresh after a ✗.

    Use it as a context manager: at its end, even after an interruption, it removes everything that
    it has started.
    """

    def __init__(
        self,
        describe: Describe,
        spark: SparkSession | None = None,
        session: NewSession | None = None,
    ) -> None:
        active = spark or SparkSession.getActiveSession()
        if active is None:
            raise Mistake("no Spark session is active: start one, or pass `spark=`")
        if is_remote():
            raise Mistake("the kit can't kill processes of Spark Connect: use a classic session")
        self._describe, self._spark = describe, active
        self._folder = Path(tempfile.mkdtemp(prefix="kit-"))
        self._drivers = Drivers(active, self._folder, session)
        self.verdicts: list[Verdict] = []
        self._trial: SourceTrial | SinkTrial | None = None
        self._seconds = SECONDS
        self._causes: dict[str, str] = {}  # each with the promise that met it first
        self._unusable = ""

    def report(
        self, without: Collection[str] = (), only: Collection[str] = (), told: Told | None = None
    ) -> Report:
        """Try the chosen promises, and remove everything."""
        began = time.monotonic()
        with self:
            described = self._life().described
            chosen = choose(self._promises(), without, only)
            self.prepare(chosen)
            for promise in chosen:
                verdict = self.verdict(promise)
                if told:
                    told(verdict)
        kind = described.format
        name = kind if isinstance(kind, str) else kind.name()
        return Report(name, ranked(self.verdicts), time.monotonic() - began)

    def prepare(self, chosen: Sequence[Promise]) -> None:
        """Check the names in `not_claimed`, and start a driver if one is needed later."""
        described = self._life().described
        known = [*(promise.name for promise in self._promises()), *HARD_VALUES]
        check_names(described.not_claimed, known, "`not_claimed`")
        if "killed" in {promise.name for promise in chosen} - described.not_claimed.keys():
            self._drivers.prepare()

    def _promises(self) -> list[Promise]:
        sink = isinstance(self._life().described, StreamSink)
        return SINK_PROMISES if sink else SOURCE_PROMISES

    def verdict(self, promise: Promise) -> Verdict:
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

    def _because(self, broken: Broken, promise: Promise) -> str:
        """Return the earlier promise with the same cause; empty if this is the first."""
        if broken.nothing_works:
            self._unusable = f"not tried: `{promise.name}` comes first"
        if broken.cause == HANG:
            self._seconds = IMPATIENT
        first = self._causes.setdefault(broken.cause or promise.name, promise.name)
        return "" if first == promise.name else first

    def _tried(self, promise: Promise, retries: int = 2) -> str:
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

    def _life(self) -> Any:
        if self._trial is None:
            self._trial = self._begin()
            self._trial.seconds = self._seconds
        return self._trial

    def _begin(self) -> SourceTrial | SinkTrial:
        """Describe the connector, which gets a new folder."""
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self._folder))
        place = folder / "connector"
        place.mkdir()
        described = self._describe(place)
        if isinstance(described, StreamSource):
            return SourceTrial(self._spark, self._drivers, folder, described)
        if isinstance(described, StreamSink):
            return SinkTrial(self._spark, self._drivers, folder, described)
        kinds = "a StreamSource or a StreamSink"
        raise Mistake(f"the function must return {kinds}, got {described!r}")

    def _end_life(self) -> None:
        if self._trial is not None:
            self._trial.close()
            self._trial = None

    def __enter__(self) -> Examination:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_life()
        finally:
            self._drivers.close()
            shutil.rmtree(self._folder, ignore_errors=True)


def examine_source(
    describe: Describe,
    spark: SparkSession | None = None,
    without: Collection[str] = (),
    only: Collection[str] = (),
    told: Told | None = None,
    session: NewSession | None = None,
) -> Report:
    """Try the promises of a streaming source or sink, and report which are kept.

    All promises together take a minute or more. `SOURCE_PROMISES` and `SINK_PROMISES` list them,
    each with its name, its sentence, `how` it is tried, and the `remedy`. `examine_sink` is another
    name of this function. Raises `Mistake`, a `ValueError`, for an unknown name or without a
    session.

    Args:
        describe: `describe(folder)` returns a `StreamSource` or a `StreamSink`; each trial has a
            new folder.
        spark: The session; by default the active one.
        without: Names of promises to leave out.
        only: Names of the only promises to try.
        told: A function that gets each verdict as soon as it is known, such as `print`.
        session: A function of a module that returns a new session in the drivers that are killed,
            if a plain session with the settings of `spark` is not enough.
    """
    return Examination(describe, spark, session).report(without, only, told)


examine_sink = examine_source


def choose(
    promises: Sequence[Promise], without: Collection[str], only: Collection[str]
) -> list[Promise]:
    """Return the promises in `only`, or all but those in `without`; `Mistake` for unknown names."""
    known = [promise.name for promise in promises]
    for names, where in ((without, "`without`"), (only, "`only`")):
        if isinstance(names, str):
            raise Mistake(f"{where} must be a list of names, got {names!r}")
        check_names(names, known, where)
    chosen = set(only or known) - set(without)
    return [promise for promise in promises if promise.name in chosen]
