"""Format `cpu_log` on real Spark: every line that is written is there, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg import parse_cpu_log
from tutorial_pkg.connectors.cpu_log.record import read_record

AWKWARD = ["", None, "a,b,,", "\"q\" 'q'", "a\nb", "\r\n", "\\", "\\n", "\\\\", "\\N", "\0", "😀 é"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of one line."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines").write_text("a line\n")
    return spark.readStream.text(str(tmp_path / "in"))


def start(df: DataFrame, out: Path, **options) -> StreamingQuery:
    writer = df.writeStream.format("cpu_log").options(**options)
    return writer.option("checkpointLocation", str(out.parent / "checkpoint")).start(str(out))


def test_awkward_items_are_read_back(spark: SparkSession, out: Path) -> None:
    expected = Counter([*AWKWARD, "x" * (1 << 20), "\n" * (1 << 16)])
    df = spark.createDataFrame([(item,) for item in expected], "item STRING").repartition(2)
    df.write.format("cpu_log").mode("append").save(str(out))
    read = spark.read.format("cpu_log").load(str(out))
    parsed = parse_cpu_log(spark.read.text(str(out / "data.*.csv")))
    assert read.schema == parsed.schema
    assert read.schema.simpleString() == "struct<timestamp:timestamp,cpu_usage:double,item:string>"
    for rows in (read.collect(), parsed.collect()):
        assert Counter(row.item for row in rows) == expected
        assert all(0 <= row.cpu_usage <= 1 and row.timestamp.year >= 2020 for row in rows)


def test_files_are_as_large_as_the_option_says(spark: SparkSession, out: Path) -> None:
    for item in range(2):
        writer = spark.range(item, item + 1, 1, 1).write.format("cpu_log").mode("append")
        writer.option("maxFileBytes", 1).save(str(out))
    assert {file.name for file in out.glob("data.*")} == {"data.0.csv", "data.0.1.csv"}


def test_plan_is_read_from_the_checkpoint(spark: SparkSession, lines: DataFrame, out: Path) -> None:
    """Without its plan, a batch of a checkpoint that was set back would count as repeated."""
    named = start(lines, out)
    named.processAllAvailable()
    named.stop()
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(out.parent / "checkpoints"))
    try:
        query = lines.writeStream.format("cpu_log").queryName("named").start(str(out))
        query.processAllAvailable()
        query.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    record = read_record(out / "_cpu_log" / "record.json")
    assert list(record.plans) == [named.id, query.id]


def test_async_progress_tracking_is_refused(lines: DataFrame, out: Path) -> None:
    """With it, a repeated batch would not be the same."""
    with pytest.raises(PySparkException, match="cpu_log does not support async progress tracking"):
        start(lines, out, asyncProgressTrackingEnabled="true")
