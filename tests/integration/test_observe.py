"""peek, log_rows and QueryMetrics on real queries."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import BatchMetrics, LogRowsSink, Peeked, QueryMetrics, peek


def lines(spark: SparkSession, folder: Path, *batches: int) -> DataFrame:
    """Return a stream with a batch for each number: that many lines, in two files."""
    folder.mkdir()
    for batch, count in enumerate(batches):
        for file in range(2):
            text = [f"{batch}-{number}\n" for number in range(file, count, 2)]
            (written := folder / f"{batch}-{file}.txt").write_text("".join(text))
            os.utime(written, (batch, batch))  # Spark takes the older ones first
    reader = spark.readStream.format("text").option("maxFilesPerTrigger", 2)
    return reader.load(str(folder))


def run(
    df: DataFrame, folder: Path, name: str, format: str = "parquet", **options: str
) -> StreamingQuery:
    writer = df.writeStream.format(format).queryName(name)
    writer = writer.options(checkpointLocation=str(folder / f"{name}_checkpoint"), **options)
    path = {"path": str(folder / name)} if format == "parquet" else {}
    query = writer.trigger(availableNow=True).start(**path)
    assert query.awaitTermination(120)
    return query


def test_peek_shows_rows_of_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    found: list[Peeked] = []
    df = lines(spark, tmp_path / "in", 100, 60)
    seen = peek(df, "all lines", rows=4, to=found.append)
    assert seen.schema == df.schema
    small = peek(seen.filter("value LIKE '%7'"), "sevens", to=found.append)
    run(small, tmp_path, "sevens")
    written = {row.value for row in spark.read.parquet(str(tmp_path / "sevens")).collect()}
    assert written == {f"{b}-{n}" for b, count in ((0, 100), (1, 60)) for n in range(7, count, 10)}
    wait_until(lambda: {p.batch for p in found if p.name == "sevens"} == {0, 1}, 60, "the peeks")
    for peeked in found:
        assert peeked.query == "sevens"
        assert re.fullmatch(rf"{peeked.batch}-\d+", peeked.row.value), peeked
    firsts = [p for p in found if p.name == "all lines" and p.batch == 0]
    assert [p.partition for p in firsts] == [0, 1], "of each partition, here of each file"
    assert sorted(p.row.value for p in firsts) == ["0-0", "0-1"], "the first ones"
    assert str(firsts[0]).startswith("all lines | batch 0, partition ")


def test_peek_refuses_what_it_cannot_show(spark: SparkSession) -> None:
    with pytest.raises(ValueError) as caught:
        peek(spark.range(3), "numbers")
    assert str(caught.value) == "peek('numbers'): this DataFrame is not a stream; use its `show()`"
    stream = spark.readStream.format("rate").load()
    for rows in (0, 21, True):
        with pytest.raises(ValueError, match=r"`rows` must be in 1..20, got"):
            peek(stream, "rate", rows)


def test_log_rows_logs_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(LogRowsSink)
    df = lines(spark, tmp_path / "in", 100)
    query = run(df, tmp_path, "logged", format="log_rows", rows="2")
    assert query.exception() is None
    log = next(Path.cwd().glob(f".work/logs/spark-{os.getpid()}.log"))

    def logged() -> list[str]:
        matches = re.findall(r"log_rows (\w{8}), batch 0, task \d: (.*)", log.read_text())
        return sorted(text for id, text in matches if str(query.id).startswith(id))

    expected = ["50 rows", "50 rows", *(str({"value": f"0-{n}"}) for n in range(4))]
    # A worker's output reaches the log through the JVM, with a delay.
    wait_until(lambda: logged() == expected, 60, "these rows in the log, and no others")


def test_metrics_are_those_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    try:
        query = run(lines(spark, tmp_path / "in", 100, 60), tmp_path, "counted")
        wait_until(lambda: metrics.query("counted").state == "stopped", 60, "its end")
    finally:
        spark.streams.removeListener(metrics)
    seen = metrics.query("counted")
    assert seen.batches == [BatchMetrics.of(progress) for progress in query.recentProgress]
    assert (seen.rows_in_total, seen.batches_total) == (160, 2)
