"""Our connectors keep what they claim; the command; the end of an examination."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_connector_tests import (
    StreamSink,
    StreamSource,
    examination,
    examine_sink,
    examine_source,
)
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from spark_connector_tests.command import function_named, report_on
from spark_connector_tests.driver import Drivers
from spark_connector_tests.queries import jvm_of
from tests.integration import kit_sink_mutants, kit_source_mutants, kit_subjects
from tests.integration.test_kit_mutants import fed_by_files, read_from_files


@pytest.mark.soak
class TestSource(StreamSourceTests):
    """A source without a mistake keeps all promises."""

    def describe(self, folder: Path) -> StreamSource:
        return fed_by_files(kit_source_mutants.Numbers)(folder)


@pytest.mark.soak
class TestSink(StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        return read_from_files(kit_sink_mutants.Files)(folder)


SOURCES = "file_lines cpu_log_source network_lines network_lines_tls received_lines built_stream "
SOURCES += "built_pushed built_replayable"


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SOURCES.split(), "built_sink", "cpu_log_sink"])
def test_our_connectors_keep_promises(spark: SparkSession, name: str) -> None:
    examine = examine_sink if name.endswith("sink") else examine_source
    report = examine(getattr(kit_subjects, name), spark)
    assert report.broken == [], str(report)


def test_command_prints_verdicts(spark: SparkSession, capsys) -> None:
    describe = function_named("tests.integration.kit_subjects:file_lines")
    assert report_on(describe, spark, only=["no_empty_batches"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("  ✓ no_empty_batches: ")
    assert last.startswith("file_lines: 1 kept, 0 broken, 0 not claimed (")
    assert report_on(lambda folder: None, spark) == 2


def test_source_without_rows_is_broken(spark: SparkSession, monkeypatch) -> None:
    """The kit can't feed it, and waits for rows that it creates."""
    monkeypatch.setattr(examination, "SECONDS", 2)

    def describe(folder: Path) -> StreamSource:
        return StreamSource("text", {"path": folder}, schema="value STRING")

    report = examine_source(describe, spark, only=["restart"])
    assert report.broken == ["restart"] and "no row arrived" in report.verdicts[0].seen


@pytest.mark.soak
def test_command_runs_in_a_plain_session(tmp_path: Path) -> None:
    """With neither `PYSPARK_PYTHON` nor a session of ours."""
    (tmp_path / "mine.py").write_text(
        "from spark_connector_tests import StreamSource\n"
        "def rate(folder):\n    return StreamSource('rate', {'rowsPerSecond': 500})\n"
    )
    hidden = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    run = [sys.executable, "-m", "spark_connector_tests", "mine:rate", "--only", "every_row_once"]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().startswith("  ✓ every_row_once")


@pytest.mark.parametrize(
    ("described", "field"),
    [
        (StreamSource("rate", number="n"), "`number`"),
        (StreamSink("noop", list, columns=["value", "upper(text)"]), "`columns`"),
        (StreamSource("rate", not_claimed={"restarts": "a typing error"}), "`not_claimed`"),
    ],
)
def test_wrong_description_is_explained(spark: SparkSession, described, field: str) -> None:
    examine = examine_source if isinstance(described, StreamSource) else examine_sink
    with pytest.raises(ValueError) as error:
        examine(lambda folder: described, spark, only=["every_row_once"])
    assert str(error.value).startswith(field)


def test_driver_starts_like_the_examining_spark(spark: SparkSession, tmp_path: Path) -> None:
    """With the same archive of classes, and without the zip of PySpark."""
    own = jvm_of(spark).environ()
    with Drivers(spark, tmp_path).take() as driver:
        given = psutil.Process(driver.pid).environ()
    for name in ("SPARK_HOME", "SPARK_SUBMIT_OPTS"):
        assert given[name] == own[name]


def test_interrupted_examination_cleans_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    """Return the children of this process, without the JVM's own."""
    return {process.pid for process in psutil.Process().children()}
