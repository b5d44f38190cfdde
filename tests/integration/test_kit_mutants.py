"""The kit names the promise that a connector breaks, and no other.

For each promise there is a connector with a mistake that breaks just this one. Here it is tried
together with the first promise, which says that the connector works; that the others are kept, too,
is tried with `TUTORIAL_PKG_ALL_PROMISES=1`. A driver is killed only where only that finds the
mistake.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from tests.integration import kit_sink_mutants, kit_source_mutants
from tutorial_pkg.processes.query_process import wait_for_end
from tutorial_pkg.testing import (
    LIMIT,
    SINK_PROMISES,
    SOURCE_PROMISES,
    Promise,
    StreamSink,
    StreamSource,
    examine_sink,
    examine_source,
)

KILL = "killed"
ALL = bool(os.environ.get("TUTORIAL_PKG_ALL_PROMISES"))


def fed_by_files(source: type[DataSource]) -> Callable[[Path], StreamSource]:
    """Fed by files that appear at once, in the order of their names."""

    def describe(folder: Path) -> StreamSource:
        def feed(numbers: Sequence[int]) -> None:
            draft = folder / ".draft"
            draft.write_text("".join(f"{number}\n" for number in numbers))
            draft.rename(folder / f"{numbers[0]:09}.txt")

        limit, parallel = {"maxRows": LIMIT}, {"parallelism": 3}
        return StreamSource(
            source, {"path": folder}, feed=feed, limit=limit, other_parallelism=parallel
        )

    return describe


def read_from_files(sink: type[DataSource]) -> Callable[[Path], StreamSink]:
    """A reader that goes by the files which there are."""

    def describe(folder: Path) -> StreamSink:
        def read() -> list[str]:
            values: list[str] = []
            for file in folder.glob("*.json"):
                with suppress(FileNotFoundError):  # one mutant takes files away
                    values += json.loads(file.read_text())
            return values

        return StreamSink(sink, read, {"path": folder})

    return describe


def name_of(mutant: type[DataSource]) -> str:
    return mutant.__name__


def tried(mutant: type[DataSource], promises: Sequence[Promise]) -> list[str]:
    """The promises that are tried on a mutant: the first one, and its own."""
    names = [promise.name for promise in promises]
    wanted = names if ALL else [names[0], name_of(mutant)]
    return [name for name in wanted if name != KILL or name == name_of(mutant)]


def test_every_promise_has_its_mutant() -> None:
    for promises, mutants in (
        (SOURCE_PROMISES, kit_source_mutants.MUTANTS),
        (SINK_PROMISES, kit_sink_mutants.MUTANTS),
    ):
        assert [promise.name for promise in promises] == [name_of(mutant) for mutant in mutants]


@pytest.mark.parametrize("mutant", kit_source_mutants.MUTANTS, ids=name_of)
def test_a_source_that_breaks_one(spark: SparkSession, mutant: type[DataSource]) -> None:
    report = examine_source(fed_by_files(mutant), spark, only=tried(mutant, SOURCE_PROMISES))
    assert report.broken == [name_of(mutant)], report


@pytest.mark.parametrize("mutant", kit_sink_mutants.MUTANTS, ids=name_of)
def test_a_sink_that_breaks_one(spark: SparkSession, mutant: type[DataSource]) -> None:
    report = examine_sink(read_from_files(mutant), spark, only=tried(mutant, SINK_PROMISES))
    assert report.broken == [name_of(mutant)], report


@pytest.mark.skipif(not ALL, reason="the connectors of test_kit.py keep all, too")
def test_a_source_that_keeps_all(spark: SparkSession) -> None:
    report = examine_source(fed_by_files(kit_source_mutants.Numbers), spark)
    assert [verdict.mark for verdict in report.verdicts] == ["✓"] * len(SOURCE_PROMISES), report


@pytest.mark.skipif(not ALL, reason="the connectors of test_kit.py keep all, too")
def test_a_sink_that_keeps_all(spark: SparkSession) -> None:
    report = examine_sink(read_from_files(kit_sink_mutants.Files), spark)
    assert [verdict.mark for verdict in report.verdicts] == ["✓"] * len(SINK_PROMISES), report


def test_a_source_that_fails_once_is_not_asked_again_until_it_does_not(spark: SparkSession) -> None:
    flaky = fed_by_files(kit_source_mutants.flaky)
    [verdict] = examine_source(flaky, spark, only=["same_rows_again"]).verdicts
    assert verdict.seen == "the query failed: LookupError: once is enough"


def test_a_source_that_never_comes_to_rest_is_not_waited_for(spark: SparkSession) -> None:
    restless = fed_by_files(kit_source_mutants.restless)
    [verdict] = examine_source(restless, spark, only=["every_row_once"]).verdicts
    assert verdict.seen == "no row was missing, yet the query went on for 20 batches"
    assert verdict.remedy == "As long as nothing comes, `latestOffset` returns the same."


def test_a_process_that_a_task_has_forked_is_found_and_ended(spark: SparkSession) -> None:
    forking = fed_by_files(kit_source_mutants.forking)
    [verdict] = examine_source(forking, spark, only=["nothing_left"]).verdicts
    assert verdict.seen.startswith("still there after `stop()`: process "), verdict
    [left] = re.findall("process ([0-9]+)", verdict.seen)
    with suppress(psutil.NoSuchProcess):  # else it is a zombie, as the worker does not wait for it
        assert wait_for_end([psutil.Process(int(left))], 10) == []


def test_a_sink_that_says_it_repeats(spark: SparkSession) -> None:
    """It may; a row that is missing is broken all the same."""

    def describe(mutant: type[DataSource]) -> Callable[[Path], StreamSink]:
        return lambda folder: replace(read_from_files(mutant)(folder), at_least_once=True)

    repeats, loses = kit_sink_mutants.repeated_batch, kit_sink_mutants.every_row_once
    only = ["every_row_once", "repeated_batch"]
    report = examine_sink(describe(repeats), spark, only=only)
    assert report.broken == []
    assert report.subject == "kit_repeated_batch_sink (at least once)"
    assert examine_sink(describe(loses), spark, only=only).broken == ["every_row_once"]
