"""Format `cpu_log` on real Spark: what is written is what is there, once."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.connectors.cpu_log.data_source import parse_cpu_log

LINE = re.compile(r"[0-9]{13},[01]\.[0-9]{6},item [0-9]+")
AWKWARD = ["", None, "a,b,,", "\"q\" 'q'", "a\nb", "\r\n", "\\", "\\n", "\\\\", "\\N", "\0", "😀 é"]


class Feed:
    """Numbered items as a streaming DataFrame; every `add` is one batch, replayed as it was."""

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

    def stream(self, partitions: int = 2) -> DataFrame:
        lines = self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._folder))
        return lines.repartition(partitions)


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "in")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def start(df: DataFrame, out: Path, checkpoint: str = "checkpoint", **options) -> StreamingQuery:
    writer = df.writeStream.format("cpu_log").options(**options)
    return writer.option("checkpointLocation", str(out.parent / checkpoint)).start(str(out))


def drain(df: DataFrame, out: Path, checkpoint: str = "checkpoint", **options) -> None:
    """Run until all that there is has been written; raises what the query raised."""
    writer = df.writeStream.format("cpu_log").options(**options).trigger(availableNow=True)
    writer.option("checkpointLocation", str(out.parent / checkpoint)).start(
        str(out)
    ).awaitTermination()


def files(out: Path) -> list[str]:
    return sorted(file.name for file in out.glob("*.csv"))


def lines(out: Path) -> list[str]:
    """All lines of all files; each must be whole."""
    texts = [file.read_text() for file in out.glob("data.*.csv")]
    assert all(text.endswith("\n") for text in texts)
    return [line for text in texts for line in text.splitlines()]


def items(out: Path) -> Counter[str]:
    return Counter(line.split(",", 2)[2] for line in lines(out))


def error_of(query: StreamingQuery) -> str:
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(120)
    return str(failed.value)


# ---- the contract ----------------------------------------------------------------------------


def test_a_batch_becomes_one_file_per_partition(spark: SparkSession, out: Path) -> None:
    df = spark.range(1000).selectExpr("concat('item ', id)").repartition(2)
    df.write.format("cpu_log").mode("append").save(str(out))
    df.write.format("cpu_log").mode("append").save(str(out))
    assert files(out) == ["data.0.csv", "data.1.csv"]
    assert all(LINE.fullmatch(line) for line in lines(out))
    assert items(out) == Counter({f"item {number}": 2 for number in range(1000)})


def test_a_stream_grows_one_file_per_partition(feed: Feed, out: Path) -> None:
    query = start(feed.stream(2), out)
    sizes = []
    for _ in range(3):
        feed.add(100)
        query.processAllAvailable()
        sizes.append([(out / name).stat().st_size for name in files(out)])
    query.stop()
    assert files(out) == ["data.0.csv", "data.1.csv"]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[1] < sizes[2]
    assert all(LINE.fullmatch(line) for line in lines(out))
    assert items(out) == Counter(feed.items)


def test_awkward_items_come_back_by_every_way_of_reading(spark: SparkSession, out: Path) -> None:
    expected = Counter([*AWKWARD, "x" * (1 << 20), "\n" * (1 << 20)])
    df = spark.createDataFrame([(item,) for item in expected], "item STRING").repartition(2)
    df.write.format("cpu_log").mode("append").save(str(out))
    read = spark.read.format("cpu_log").load(str(out))
    parsed = parse_cpu_log(spark.read.text(str(out / "data.*.csv")))
    assert read.schema == parsed.schema
    assert read.schema.simpleString() == "struct<timestamp:timestamp,cpu_usage:double,item:string>"
    for rows in (read.collect(), parsed.collect()):
        assert Counter(row.item for row in rows) == expected
        assert all(0 <= row.cpu_usage <= 1 and row.timestamp.year >= 2020 for row in rows)


def test_a_line_of_another_format_is_kept_whole(spark: SparkSession) -> None:
    micros = "1583309377078000,0.5,in microseconds: far past the year 9999"
    far = "999999999999999,0.5,the year 33658"
    lines = ["no log line, \\n", micros, far, "1,0.5,a\\n", None]
    df = spark.createDataFrame([(line,) for line in lines], "value STRING")
    assert [tuple(row)[1:] for row in parse_cpu_log(df).collect()] == [
        (None, "no log line, \\n"),
        (None, micros),
        (None, far),
        (0.5, "a\n"),
        (None, None),
    ]


def test_a_stream_read_follows_a_stream_written(
    spark: SparkSession, feed: Feed, out: Path, tmp_path: Path
) -> None:
    feed.add(500)
    drain(feed.stream(2), out, maxFileBytes="20000")
    tail = spark.readStream.format("cpu_log").load(str(out)).select("item").writeStream
    reader = tail.format("memory").queryName("tail").start()
    writer = start(feed.stream(2), out, maxFileBytes="20000")
    for _ in range(3):
        feed.add(500)
        writer.processAllAvailable()
        reader.processAllAvailable()
    reader.stop()
    writer.stop()
    assert Counter(row.item for row in spark.table("tail").collect()) == Counter(feed.items)
    assert "data.0.1.csv" in files(out)
    spark.catalog.dropTempView("tail")


# ---- batches, checkpoints, queries -----------------------------------------------------------


def test_empty_batches_and_partitions_leave_no_trace(
    spark: SparkSession, feed: Feed, out: Path
) -> None:
    feed.add(0)
    drain(feed.stream(2), out)
    spark.range(0).write.format("cpu_log").mode("append").save(str(out))
    assert not out.exists()
    feed.add(1)
    drain(feed.stream(4), out)
    assert len(files(out)) == 1
    assert items(out) == Counter(feed.items)


def test_a_batch_that_is_planned_anew_is_not_taken_for_the_published_one(
    feed: Feed, out: Path
) -> None:
    """As after a checkpoint was set back: the number is the old one, the lines are not."""
    for _ in range(2):
        feed.add(50)
        drain(feed.stream(), out)
    for note in (out.parent / "checkpoint").rglob("*1*"):  # of batch 1, and their checksums
        note.unlink()
    feed.add(50)
    assert (
        f"was planned anew, but {out} has its batches up to 1 already: its checkpoint was set back"
    ) in error_of(start(feed.stream(), out))
    assert items(out) == Counter(feed.items[:100]), "neither lost nor twice"
    drain(feed.stream(), out, failOnDuplicates="false")
    assert not Counter(feed.items) - items(out), "nothing lost"


def test_a_session_in_another_zone_writes_its_timestamps(spark: SparkSession, out: Path) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "GMT+5")
        df = spark.sql("SELECT timestamp_seconds(1600000000) AS time").coalesce(1)
        df.write.format("cpu_log").mode("append").save(str(out))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert items(out) == Counter(["2020-09-13 17:26:40.000000+0500"])


@pytest.fixture
def running(feed: Feed, out: Path) -> Iterator[StreamingQuery]:
    """A query that has written 50 items and waits for more."""
    feed.add(50)
    query = start(feed.stream(), out)
    query.processAllAvailable()
    yield query
    query.stop()


@contextmanager
def fed(feed: Feed) -> Iterator[None]:
    """Meanwhile the running query has something to write, again and again."""
    over = Event()

    def add() -> None:
        while not over.wait(0.2):
            feed.add(1)

    with ThreadPoolExecutor(1) as thread:
        adding = thread.submit(add)
        try:
            yield
        finally:
            over.set()
            adding.result()


def let_lease_end(out: Path) -> None:
    """As if nobody had committed for long."""
    os.utime(out / "_cpu_log" / "record.json", (0, 0))


def test_a_second_query_fails_and_names_the_first_until_that_stops(
    running: StreamingQuery, feed: Feed, out: Path
) -> None:
    with fed(feed):
        error = error_of(start(feed.stream(), out, "second"))
    assert f"{out} is being written by query {running.id} (run {running.runId}, process " in error
    assert "stop the other query first, or choose another directory" in error
    running.processAllAvailable()
    assert items(out) == Counter(feed.items)
    running.stop()
    let_lease_end(out)
    drain(feed.stream(), out, "second")
    assert items(out) == Counter(feed.items * 2)


def test_a_batch_job_waits_for_the_query_to_stop(
    spark: SparkSession, running: StreamingQuery, feed: Feed, out: Path
) -> None:
    job = spark.range(1).write.format("cpu_log").mode("append")
    with fed(feed), pytest.raises(PySparkException, match=f"being written by query {running.id}"):
        job.save(str(out))
    running.processAllAvailable()
    running.stop()
    let_lease_end(out)
    job.save(str(out))
    assert len(lines(out)) == len(feed.items) + 1


# ---- bad input -------------------------------------------------------------------------------


def test_a_missing_parent_folder_is_made(spark: SparkSession, out: Path) -> None:
    spark.range(1).write.format("cpu_log").mode("append").save(f"file:{out}/a/b")
    assert len(lines(out / "a" / "b")) == 1


def test_only_appending_modes_are_taken(spark: SparkSession, feed: Feed, out: Path) -> None:
    text = "format `cpu_log` only appends"
    with pytest.raises(PySparkException, match=text):
        spark.range(1).write.format("cpu_log").mode("overwrite").save(str(out))
    with pytest.raises(AnalysisException, match='cannot be written in the "ErrorIfExists" mode'):
        spark.range(1).write.format("cpu_log").save(str(out))
    feed.add(1)
    counts = feed.stream().groupBy("value").count().writeStream.outputMode("complete")
    counts = counts.format("cpu_log").option("checkpointLocation", str(out.parent / "checkpoint"))
    assert text in error_of(counts.start(str(out)))
    assert not out.exists()


def test_spark_tracks_no_progress_behind_the_back_of_a_sink(feed: Feed, out: Path) -> None:
    """As README says: a batch that comes again after a crash would not be the same one."""
    with pytest.raises(PySparkException, match="cpu_log does not support async progress tracking"):
        start(feed.stream(), out, asyncProgressTrackingEnabled="true")


def test_a_streaming_query_tells_its_errors(feed: Feed, out: Path) -> None:
    feed.add(1)
    assert "unknown option `maxfilebyte`; did you mean `maxFileBytes`?" in error_of(
        start(feed.stream(), out, maxFileByte="1")
    )
    assert not out.exists()
