"""Format `cpu_log` on real Spark: every line that is written is there, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.log_account import items_in
from tutorial_pkg import parse_cpu_log
from tutorial_pkg.connectors.cpu_log.record import read_record

AWKWARD = ["", None, "a,b,,", "\"q\" 'q'", "a\nb", "\r\n", "\\", "\\n", "\\\\", "\\N", "\0", "😀 é"]


class Feed:
    """Numbered items as a stream; each `add` is one batch, and a repeated batch is the same."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._folder.mkdir()
        self.items: list[str] = []

    def add(self, count: int) -> None:
        items = [f"item {len(self.items) + number}" for number in range(count)]
        draft = self._folder / ".draft"
        draft.write_text("".join(f"{item}\n" for item in items))
        draft.rename(self._folder / f"{len(list(self._folder.iterdir())):06}")
        self.items += items

    def stream(self) -> DataFrame:
        reader = self._spark.readStream.option("maxFilesPerTrigger", 1)
        return reader.text(str(self._folder)).repartition(2)


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "in")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


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


def test_stream_reads_what_a_stream_writes(spark: SparkSession, feed: Feed, out: Path) -> None:
    feed.add(500)
    first = start(feed.stream(), out, maxFileBytes="20000")
    first.processAllAvailable()
    first.stop()
    tail = spark.readStream.format("cpu_log").load(str(out)).select("item").writeStream
    reader = tail.format("memory").queryName("tail").start()
    writer = start(feed.stream(), out, maxFileBytes="20000")
    for _ in range(3):
        feed.add(500)
        writer.processAllAvailable()
        reader.processAllAvailable()
    reader.stop()
    writer.stop()
    assert Counter(row.item for row in spark.table("tail").collect()) == Counter(feed.items)
    assert items_in(out) == Counter(feed.items)
    assert (out / "data.0.1.csv").exists()
    spark.catalog.dropTempView("tail")


def test_plan_is_read_from_the_checkpoint(spark: SparkSession, feed: Feed, out: Path) -> None:
    """Without its plan, a batch of a checkpoint that was set back would count as repeated."""
    feed.add(1)
    named = start(feed.stream(), out)
    named.processAllAvailable()
    named.stop()
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(out.parent / "checkpoints"))
    try:
        query = feed.stream().writeStream.format("cpu_log").queryName("named").start(str(out))
        query.processAllAvailable()
        query.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    record = read_record(out / "_cpu_log" / "record.json")
    assert list(record.plans) == [named.id, query.id]


def test_async_progress_tracking_is_refused(feed: Feed, out: Path) -> None:
    """With it, a repeated batch would not be the same."""
    with pytest.raises(PySparkException, match="cpu_log does not support async progress tracking"):
        start(feed.stream(), out, asyncProgressTrackingEnabled="true")
