"""The finished connectors keep what they claim; the examination from a shell; what it leaves."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from spark_connector_tests import (
    Broken,
    StreamSink,
    StreamSource,
    examine_sink,
    examine_source,
)
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from spark_connector_tests.command import describe_named, report_on
from spark_connector_tests.inside import check_rows
from spark_connector_tests.queries import Ledger, Seen, SourceQuery
from tests.integration import kit_sink_mutants, kit_source_mutants, kit_subjects
from tests.integration.test_kit_mutants import fed_by_files, read_from_files


@pytest.mark.soak
class TestSource(StreamSourceTests):
    """A right source is called right in everything; notebook 12 asks for the main promises."""

    def describe(self, folder: Path) -> StreamSource:
        return fed_by_files(kit_source_mutants.Numbers)(folder)


@pytest.mark.soak
class TestSink(StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        return read_from_files(kit_sink_mutants.Files)(folder)


@pytest.mark.soak
@pytest.mark.parametrize(
    "name",
    [
        "file_lines",
        "network_lines",
        "network_lines_tls",
        "received_lines",
        "built_stream",
        "built_replayable",
    ],
)
def test_a_source_of_ours_keeps_what_it_claims(spark: SparkSession, name: str) -> None:
    report = examine_source(getattr(kit_subjects, name), spark)
    assert not {"✗", "!"} & {verdict.mark for verdict in report.verdicts}, str(report)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["built_sink", "cpu_log_sink"])
def test_a_sink_of_ours_keeps_what_it_claims(spark: SparkSession, name: str) -> None:
    report = examine_sink(getattr(kit_subjects, name), spark)
    assert not {"✗", "!"} & {verdict.mark for verdict in report.verdicts}, str(report)


# ---- fed through a port ----------------------------------------------------------------------


def test_the_batch_that_fails_has_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port is open only while a query runs, which has an empty batch before anything comes."""
    noted: list[Sequence[Seen]] = []
    add = Ledger.add

    def noting(ledger: Ledger, batch: int, rows: Sequence[Seen]) -> None:
        noted.append(rows)
        add(ledger, batch, rows)

    monkeypatch.setattr(Ledger, "add", noting)
    report = examine_source(kit_subjects.network_lines, spark, only=["repeated_batch"])
    assert report.broken == [], report
    with_rows = [sorted(rows) for rows in noted if rows]
    assert with_rows[0] == with_rows[1]


# ---- a look inside ---------------------------------------------------------------------------


class SimpleReader(SimpleDataSourceStreamReader):
    """The numbers 0, 1, 2 … times `step`, three in each batch."""

    def __init__(self, step: float) -> None:
        self.step = step

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[float]], dict[str, int]]:
        end = {"n": start["n"] + 3}
        return self.readBetweenOffsets(start, end), end

    def readBetweenOffsets(self, start: dict, end: dict) -> Iterator[tuple[float]]:
        return ((self.step * number,) for number in range(start["n"], end["n"]))


class SimpleSource(DataSource):
    def schema(self) -> str:
        return "value LONG"

    def simpleStreamReader(self, schema: StructType) -> SimpleReader:
        return SimpleReader(0.5 if "halves" in self.options else 1)


def test_a_look_into_a_simple_reader(spark: SparkSession, tmp_path: Path) -> None:
    def look(options: dict[str, str]) -> None:
        query = SourceQuery(SimpleSource, options, None, "value", tmp_path, tmp_path)
        check_rows(spark, query, {"n": 0}, {"n": 3})

    look({})
    with pytest.raises(Broken, match=r"^a row does not fit the schema: .*field value: .*0\.0"):
        look({"halves": "yes"})


# ---- from a shell ----------------------------------------------------------------------------

ONE = ["unknown_option"]


def test_the_command_prints_the_report(spark: SparkSession, capsys) -> None:
    describe = describe_named("tests.integration.kit_subjects:file_lines")
    assert report_on(describe, spark, only=ONE) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first == "  ✓ unknown_option: An unknown option is refused, with its name."
    assert last.startswith("file_lines: 1 kept, 0 broken, 0 not claimed (")


def test_a_broken_promise_makes_the_command_fail(spark: SparkSession, capsys) -> None:
    describe = fed_by_files(kit_source_mutants.remainder)
    assert report_on(describe, spark, only=["every_row_once"]) == 1
    assert "23 rows 3 (" in capsys.readouterr().out


def test_advice_does_not(spark: SparkSession, capsys) -> None:
    def rate(folder: Path) -> StreamSource:
        return StreamSource("rate", {"rowsPerSecond": 100})

    assert report_on(rate, spark, only=ONE) == 0
    assert "! unknown_option" in capsys.readouterr().out


def test_what_read_raises_is_in_the_report(spark: SparkSession, capsys) -> None:
    """A shared temporary name, for instance: half a file is no JSON, and no mistake in the call."""

    def sink(folder: Path) -> StreamSink:
        return StreamSink("text", lambda: json.loads('"half'), {"path": folder})

    assert report_on(sink, spark, only=["every_row_once"]) == 1
    assert "`read` raised JSONDecodeError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("json", "name a module and a function in it, as my_module:my_source, not json"),
        ("no_such_module:x", "cannot import no_such_module: No module named 'no_such_module'"),
        ("json:no_such_function", "json has no no_such_function"),
    ],
)
def test_a_wrong_name_is_explained(what: str, text: str) -> None:
    with pytest.raises(ValueError) as error:
        describe_named(what)
    assert str(error.value) == text


def test_a_function_that_describes_nothing_is_refused(spark: SparkSession, capsys) -> None:
    assert report_on(lambda folder: None, spark) == 2
    assert "must return a StreamSource or a StreamSink, not None" in capsys.readouterr().err


def test_a_name_that_no_promise_has_is_refused(spark: SparkSession) -> None:
    def source(folder: Path) -> StreamSource:
        return StreamSource("rate", not_claimed={"restarts": "a typing error"})

    with pytest.raises(ValueError, match="`not_claimed`: no promise is called 'restarts'"):
        examine_source(source, spark)


@pytest.mark.parametrize(
    ("describe", "examine", "text"),
    [
        (
            lambda folder: StreamSource("rate", number="n"),
            examine_source,
            "`number` must fit the columns `timestamp`, `value`; CAST(n AS BIGINT) AS number: ",
        ),
        (
            lambda folder: StreamSink("noop", list, columns=["value", "upper(text)"]),
            examine_sink,
            "`columns` must fit the columns `value`; value, upper(text): ",
        ),
    ],
)
def test_an_expression_that_fits_no_column_is_explained(
    spark: SparkSession, describe, examine, text: str
) -> None:
    with pytest.raises(ValueError) as error:
        examine(describe, spark, only=["every_row_once"])
    assert str(error.value).startswith(text)


# ---- interrupted -----------------------------------------------------------------------------


def test_an_interrupted_examination_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver that waits to be killed, the query and the folders go with it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = children()

    def sink(folder: Path) -> StreamSink:
        def read() -> list[str]:
            assert children() > before, "the driver should be starting by now"
            raise KeyboardInterrupt

        return StreamSink("text", read, {"path": folder})

    with pytest.raises(KeyboardInterrupt):
        examine_sink(sink, spark)
    assert not spark.streams.active
    assert children() <= before
    assert [file.name for file in tmp_path.glob("*-*")] == []


def children() -> set[int]:
    """The processes of this test, without those that Spark's JVM keeps for itself."""
    return {process.pid for process in psutil.Process().children()}
