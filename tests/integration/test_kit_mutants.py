"""The kit names the promise that a connector breaks, and no other.

For each promise there are connectors with a mistake that breaks just this one. One that is quick is
tried with this promise only; `make soak` tries all of them with all promises.
"""

from __future__ import annotations

import pickle
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
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
    examination,
    examine_sink,
    examine_source,
)
from spark_connector_tests.query_process import wait_for_end
from tests.integration import kit_sink_mutants, kit_source_mutants
from tests.integration.kit_source_mutants import AWAY, DOWN, RESTARTED, SLOW, row
from tutorial_pkg.core.spark_versions import HAS_LIMITS

TYPES = [
    "BOOLEAN",
    "INT",
    "LONG",
    "DOUBLE",
    "DECIMAL(12,3)",
    "DECIMAL(38,18)",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
]
# What follows from a mistake, and may be broken, too: it is not tried.
ALSO = {
    "every_row_once": {  # one that loses the rest of a large batch, wherever there are large ones
        "values",
        "same_rows_again",
        "half_read",
        "unfinished_row",
        "every_split",
        "two_queries",
        "linear",
        "available_now",
        "batch_read",
    },
    "at_rest": {"any_zone", "available_now", "limited_available_now", "idle"},  # is never done
    "values": {"batch_read"},
    "whole_batches": {"dies_in_commit"},
    "nothing_open": {"steady"},  # there is one more open file after each batch
    "two_queries": {"from_the_first_row"},
    "server_away": {"server_restarted"},
    "server_restarted": {"server_away"},
    "restart": {  # all where a query starts again
        "same_rows_again",
        "rows_fit_schema",
        "every_split",
        "limit",
        "batch_read",
        "other_parallelism",
        "server_restarted",
        "server_away",
    },
    # All that end a sink's batch half-way.
    "never_taken_back": {"dies_in_commit", "errors_told"},
    "repeated_batch": {"dies_in_commit", "errors_told", "new_query"},
    "failed_batch": {  # what others have staged, and what a batch that broke off has left, too
        "dies_in_commit",
        "errors_told",
        "no_rubbish",
        "server_away",
        "server_restarted",
        "server_slow",
        "steady",
        "two_queries",
    },
    "dies_in_commit": {"errors_told"},
    "killed": {"dies_in_commit", "errors_told"},
    "new_query": {"two_queries"},
}


def fed_by_files(source: type[DataSource]) -> Callable[[Path], StreamSource]:
    """Fed by files that appear at once, in the order of their names; each ends with its split."""

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
    """A reader that goes by the files which there are."""

    def describe(folder: Path) -> StreamSink:
        def read() -> list[tuple]:
            rows: list[tuple] = []
            for file in folder.glob("*.rows"):
                with suppress(FileNotFoundError):  # one mutant takes files away
                    rows += pickle.loads(file.read_bytes())
            return rows

        types = {re.sub(r"\W", "_", kind.lower()): kind for kind in TYPES}
        server, close = pretended(folder)
        return StreamSink(sink, read, {"path": folder}, types=types, server=server, close=close)

    return describe


def pretended(folder: Path) -> tuple[Server, Callable[[], None]]:
    """A server that is nothing but files, which tell what has happened to it, and a process."""
    process = subprocess.Popen(["sleep", "600"])

    def stop() -> None:
        for note in (DOWN, AWAY, RESTARTED):
            (folder / note).touch()

    def held() -> list[int]:
        (folder / SLOW).touch()
        return [process.pid]

    def close() -> None:
        process.kill()
        process.wait()

    return Server(stop, (folder / DOWN).unlink, held), close


def broken_by(mutant: type) -> str:
    return mutant.breaks or mutant.__name__


MUTANTS = [
    *((examine_source, fed_by_files, mutant) for mutant in kit_source_mutants.MUTANTS),
    *((examine_sink, read_from_files, mutant) for mutant in kit_sink_mutants.MUTANTS),
]


def test_every_promise_has_its_mutant() -> None:
    for promises, mutants in (
        (SOURCE_PROMISES, kit_source_mutants.MUTANTS),
        (SINK_PROMISES, kit_sink_mutants.MUTANTS),
    ):
        assert {promise.name for promise in promises} == {broken_by(mutant) for mutant in mutants}


def of_either(value: object) -> str:
    return getattr(value, "__name__", "")


# These are tried with all promises in the soak only: the others take half as long together.
TAKES_LONG = {
    kit_source_mutants.at_rest,
    kit_source_mutants.errors_told,
    kit_source_mutants.rows_again,
    kit_source_mutants.nothing_there,
    kit_source_mutants.nothing_planned,
    kit_source_mutants.idle,
    kit_source_mutants.killed,
    kit_source_mutants.nothing_left,
    kit_source_mutants.server_restarted,
    kit_source_mutants.server_slow,
    kit_source_mutants.server_away,
    kit_source_mutants.linear,
    kit_source_mutants.steady,
    kit_source_mutants.nothing_open,
    kit_source_mutants.two_queries,
    kit_sink_mutants.dies_in_commit,
    kit_sink_mutants.renames,
    kit_sink_mutants.errors_told,
    kit_sink_mutants.skips_rows,
    kit_sink_mutants.pool,
    kit_sink_mutants.killed,
    kit_sink_mutants.attempts,
    kit_sink_mutants.abort_fails,
    kit_sink_mutants.no_rubbish,
    kit_sink_mutants.nothing_left,
    kit_sink_mutants.server_restarted,
    kit_sink_mutants.server_slow,
    kit_sink_mutants.steady,
    kit_sink_mutants.nothing_open,
}
QUICK = {  # one for each promise
    (case[0], broken_by(case[2])): case for case in reversed(MUTANTS) if case[2] not in TAKES_LONG
}


@pytest.mark.parametrize(("examine", "describe", "mutant"), QUICK.values(), ids=of_either)
def test_a_mistake_is_found(spark: SparkSession, examine, describe, mutant) -> None:
    if not HAS_LIMITS and broken_by(mutant).endswith("available_now"):
        pytest.skip("before Spark 4.2 a source learns of no trigger")
    report = examine(describe(mutant), spark, only=[broken_by(mutant)])
    [verdict] = report.verdicts
    assert verdict.mark == ("!" if verdict.name == "unknown_option" else "✗"), report


@pytest.mark.soak
@pytest.mark.parametrize(("examine", "describe", "mutant"), MUTANTS, ids=of_either)
def test_no_other_promise_is_called_broken(spark: SparkSession, examine, describe, mutant) -> None:
    own = broken_by(mutant)
    promises = SOURCE_PROMISES if examine is examine_source else SINK_PROMISES
    consequences = ALSO.get(own, set()) & {promise.name for promise in promises}
    report = examine(describe(mutant), spark, without=consequences | ({"killed"} - {own}))
    assert report.broken == ([own] if own != "unknown_option" else []), report


def test_a_source_that_fails_once_is_not_asked_again_until_it_does_not(spark: SparkSession) -> None:
    flaky = fed_by_files(kit_source_mutants.flaky)
    [verdict] = examine_source(flaky, spark, only=["same_rows_again"]).verdicts
    assert verdict.seen == "the query failed: LookupError: once is enough"


def test_what_hangs_is_waited_for_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows do not come, and nothing else is tried."""
    monkeypatch.setattr(examination, "SECONDS", 8)
    report = examine_source(fed_by_files(kit_source_mutants.hangs), spark)
    assert report.broken == ["every_row_once"]
    root, *others = report.verdicts
    assert root.seen == "the query had not come to rest after 8 s"
    assert {verdict.seen for verdict in others} == {"not tried: `every_row_once` comes first"}


def test_the_root_cause_is_told(spark: SparkSession) -> None:
    source = fed_by_files(kit_source_mutants.null_in_not_null)
    report = examine_source(source, spark, only=["every_row_once", "restart"])
    assert [verdict.mark for verdict in report.verdicts] == ["✗", "–"]
    assert "null" in report.verdicts[0].seen.lower(), report


def test_errors_with_one_cause_are_folded(spark: SparkSession) -> None:
    """Without the first promise both are tried, and end alike."""
    source = fed_by_files(kit_source_mutants.null_in_not_null)
    report = examine_source(source, spark, only=["restart", "repeated_batch"])
    assert report.broken == ["restart"]
    assert "with it: repeated_batch" in str(report)


def test_a_process_that_a_task_has_forked_is_found_and_ended(spark: SparkSession) -> None:
    forking = fed_by_files(kit_source_mutants.forking)
    [verdict] = examine_source(forking, spark, only=["nothing_left"]).verdicts
    assert verdict.seen.startswith("still there after `stop()`: process "), verdict
    [left] = re.findall("process ([0-9]+)", verdict.seen)
    with suppress(psutil.NoSuchProcess):  # else it is a zombie, as the worker does not wait for it
        assert wait_for_end([psutil.Process(int(left))], 10) == []


@pytest.mark.soak
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


@pytest.mark.soak
def test_a_source_that_begins_with_what_comes_may_say_so(spark: SparkSession) -> None:
    def describe(folder: Path) -> StreamSource:
        source = fed_by_files(kit_source_mutants.from_the_first_row)(folder)
        return replace(source, from_now=True)

    only = ["every_row_once", "from_the_first_row", "two_queries", "restart", "available_now"]
    report = examine_source(describe, spark, only=only)
    assert [verdict.mark for verdict in report.verdicts] == ["✓", "–", "✓", "✓", "✓"], report
