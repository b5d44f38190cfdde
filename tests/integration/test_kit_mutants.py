"""The kit finds each mutant's mistake.

A quick run tries one mutant for each way to try a promise, `make soak` all of them. That a promise
is not broken by a right connector is in `test_kit.py`.
"""

from __future__ import annotations

import pickle
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from spark_connector_tests import (
    LIMIT,
    SINK_PROMISES,
    SOURCE_PROMISES,
    Server,
    StreamSink,
    StreamSource,
    examine_sink,
    examine_source,
    trial,
)
from spark_connector_tests.command import report_on
from spark_connector_tests.sink_trial import SAMPLES
from tests.integration import kit_sink_mutants, kit_source_mutants, kit_subjects
from tests.integration.kit_source_mutants import DOWN, RESTARTED, row, source_of
from tutorial_pkg.core.spark_versions import HAS_LIMITS


def fed_by_files(source: type[DataSource]) -> Callable[[Path], StreamSource]:
    """Feed it files that appear complete, in the order of their names, which end with the split."""

    def describe(folder: Path) -> StreamSource:
        def name(split: int) -> Path:
            return folder / f"{len(list(folder.glob('*.txt'))):06}-{split}.txt"

        def feed(numbers: Sequence[int], split: int = 0) -> None:
            draft = folder / ".draft"
            draft.write_text("".join(f"{number}\n" for number in numbers))
            draft.rename(name(split))

        def halves(number: int) -> Iterator[None]:
            file, text = name(0), str(number)
            file.write_text(text[:-1])
            yield
            file.write_text(f"{text}\n")

        server, close = pretended(folder)
        return StreamSource(
            source,
            {"path": folder},
            feed=feed,
            feed_halves=halves,
            feed_split=lambda split, numbers: feed(numbers, split),
            row=lambda number: dict(zip(("value", "at", "text"), row(number), strict=True)),
            limit={"maxRows": LIMIT},
            other_parallelism={"parallelism": 3},
            server=server,
            close=close,
        )

    return describe


def read_from_files(sink: type[DataSource]) -> Callable[[Path], StreamSink]:
    def describe(folder: Path) -> StreamSink:
        def read() -> list[tuple]:
            rows: list[tuple] = []
            for file in folder.glob("*.rows"):
                with suppress(FileNotFoundError):  # one mutant moves files away
                    rows += pickle.loads(file.read_bytes())
            return rows

        types = {re.sub(r"\W", "_", kind.lower()): kind for kind in SAMPLES}
        server, close = pretended(folder)
        return StreamSink(sink, read, {"path": folder}, types=types, server=server, close=close)

    return describe


def pretended(folder: Path) -> tuple[Server, Callable[[], None]]:
    """A server made of a process, and of files that record what has happened to it."""
    process = subprocess.Popen(["sleep", "600"])

    def stop() -> None:
        for note in (DOWN, RESTARTED):
            (folder / note).touch()

    def close() -> None:
        process.kill()
        process.wait()

    return Server(stop, (folder / DOWN).unlink, lambda: [process.pid]), close


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here rows that are missing are lost: don't look for them as long as elsewhere."""
    monkeypatch.setattr(trial, "LOOKS", 15)


MUTANTS = [
    *((fed_by_files, mutant) for mutant in kit_source_mutants.MUTANTS),
    *((read_from_files, mutant) for mutant in kit_sink_mutants.MUTANTS),
]
# Batches that are repeated, drained, split, watched; values.
QUICK = {"ReadsPastTheEnd", "OnePageNow", "FirstSplitsOnly", "NewName", "PartByPart", "EmptyIsNull"}
# Notebook 11 shows what breaks these.
SOURCES_OF_11, SINKS_OF_11 = {"late_rows", "restart", "same_rows_again"}, {"failed_batch"}
CASES = [
    pytest.param(*case, marks=[] if case[1].__name__ in QUICK else pytest.mark.soak)
    for case in MUTANTS
]


def test_every_promise_has_its_mutant() -> None:
    """For `large_batch` it is `full_queue`."""
    for promises, mutants, others in (
        (SOURCE_PROMISES, kit_source_mutants.MUTANTS, SOURCES_OF_11 | {"large_batch"}),
        (SINK_PROMISES, kit_sink_mutants.MUTANTS, SINKS_OF_11),
    ):
        broken = {mutant.breaks for mutant in mutants} | others
        assert {promise.name for promise in promises} == broken


def of_either(value: object) -> str:
    return f"{value.breaks}-{value.__name__}" if hasattr(value, "breaks") else ""


@pytest.mark.parametrize(("describe", "mutant"), CASES, ids=of_either)
def test_mistake_is_found(spark: SparkSession, describe, mutant) -> None:
    if not HAS_LIMITS and mutant.breaks == "available_now":
        pytest.skip("before Spark 4.2 a source doesn't see this trigger")
    assert examine_source(describe(mutant), spark, only=[mutant.breaks]).broken == [mutant.breaks]


@pytest.mark.soak
def test_row_lost_by_a_full_queue_has_one_cause(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["large_batch", "partial_read"]
    assert report_on(kit_subjects.full_queue, spark, only=only) == 1
    *_, summary, cause = capsys.readouterr().out.splitlines()
    assert "0 kept, 1 broken (and 1 with it)" in summary
    assert cause.startswith("Start with `large_batch`. ")


@pytest.mark.soak
def test_at_least_once_allows_duplicates_only(spark: SparkSession) -> None:
    def describe(mutant: type[DataSource]) -> Callable[[Path], StreamSink]:
        return lambda folder: replace(read_from_files(mutant)(folder), at_least_once=True)

    repeats = kit_sink_mutants.sink_of(kit_sink_mutants.NewName)
    loses = kit_sink_mutants.sink_of(kit_sink_mutants.FullBuffer)
    only = ["every_row_once", "repeated_batch"]
    assert examine_sink(describe(repeats), spark, only=only).broken == []
    assert examine_sink(describe(loses), spark, only=only).broken == ["every_row_once"]


@pytest.mark.soak
def test_source_may_start_from_now(spark: SparkSession) -> None:
    def describe(folder: Path) -> StreamSource:
        source = fed_by_files(source_of(kit_source_mutants.StartsAtTheEnd))(folder)
        return replace(source, from_now=True)

    only = ["every_row_once", "from_the_first_row", "two_queries", "restart", "available_now"]
    report = examine_source(describe, spark, only=only)
    marks = {verdict.name: verdict.mark for verdict in report.verdicts}
    assert marks.pop("from_the_first_row") == "–"
    assert set(marks.values()) == {"✓"}, report
