"""What runs on a session of Spark Connect. `tests/integration/test_connect.py` runs this file.

A Python has either classic sessions or those of Spark Connect, so this is a separate run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

from spark_connector_tests import examine_source
from tests.faults.log_account import items_in
from tests.integration import kit_subjects
from tutorial_pkg import (
    last_error,
    network_status,
    parse_cpu_log,
    register,
    send_lines,
    start_spark,
)
from tutorial_pkg.core.waiting import wait_until

SECONDS = 120
LINES = [f"line {number}" for number in range(1_013)]


def written(lines: DataFrame, folder: Path, name: str = "cpu_log") -> Any:
    """A query that writes what is available now."""
    writer = lines.writeStream.format(name).option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "out"))


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "in.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    return file


# ---- Formats ---------------------------------------------------------------------------------


def test_session_is_spark_connect(spark: SparkSession) -> None:
    assert isinstance(spark, ConnectSession)


def test_files_are_read_and_logged(spark: SparkSession, lines: Path, tmp_path: Path) -> None:
    stream = spark.readStream.format("file_lines").option("maxRowsPerTrigger", 400)
    for _ in range(2):  # the second one finds nothing new
        assert written(stream.load(str(lines)), tmp_path).awaitTermination(SECONDS)
    assert items_in(tmp_path / "out") == Counter(LINES)
    assert spark.read.format("file_lines").load(str(lines)).count() == len(LINES)
    log = spark.read.format("cpu_log").load(str(tmp_path / "out"))
    assert sorted(row.item for row in log.collect()) == sorted(LINES)
    text = spark.read.text(str(tmp_path / "out"), pathGlobFilter="data.*.csv")
    assert sorted(row.item for row in parse_cpu_log(text).collect()) == sorted(LINES)


def test_lines_come_over_the_network(
    spark: SparkSession, tmp_path: Path, free_ports: Callable[[int], int]
) -> None:
    port, log = free_ports(1), tmp_path / "log"
    stream = spark.readStream.format("network_lines").option("port", port).load(str(log))
    writer = stream.writeStream.format("cpu_log")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "out"))
    wait_until(lambda: log.exists() and network_status(log).listening, SECONDS, "listening")
    send_lines("127.0.0.1", port, LINES)
    wait_until(
        lambda: items_in(tmp_path / "out").total() >= len(LINES), SECONDS, "all lines logged"
    )
    query.stop()
    assert items_in(tmp_path / "out") == Counter(LINES)


# ---- Errors and metrics ----------------------------------------------------------------------


def test_last_error_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as error:
        # Over Connect a stream is analyzed only when it is used.
        wrong = spark.readStream.format("file_lines").option("maxRowPerTrigger", 1)
        wrong.load(str(tmp_path)).printSchema()
    assert "did you mean `maxRowsPerTrigger`?" in (last_error(error.value) or "")
    (tmp_path / "in.txt").write_text("bad line\n")
    stream = spark.readStream.format("file_lines").option("eventTime", "millis_prefix")
    query = written(stream.option("mode", "FAILFAST").load(str(tmp_path / "in.txt")), tmp_path)
    with pytest.raises(PySparkException):
        query.awaitTermination(SECONDS)
    told = "ValueError: eventTime=millis_prefix: no epoch milliseconds before the first comma of"
    assert (last_error(query) or "").startswith(told)


# ---- What needs a local JVM says so ----------------------------------------------------------


def test_start_spark_says_what_to_do_instead(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match=r"register\(spark\)"):
        start_spark()
    register(spark)


def test_kit_refuses_spark_connect(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="Spark Connect"):
        examine_source(kit_subjects.file_lines, spark)
