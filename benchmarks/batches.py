"""Micro-batches of rows to write, and how long one takes, as Spark itself notes it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import last_error
from tutorial_pkg.builder import SinkBuilder
from tutorial_pkg.core.places import work_dir

MOST_SECONDS = 300
TASKS = 2
NOTHING = "rows to Python, thrown away"
ROW = ("value AS id", "concat('host ', value % 1000) AS name", "value / 7.0D AS load")


def rows_of(spark: SparkSession, lines: int) -> DataFrame:
    """A stream with so many rows in each batch."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines)
    return source.option("numPartitions", TASKS).load().selectExpr(*ROW)


def thrown_away(spark: SparkSession, lines: int) -> float:
    """Seconds of a batch that a sink in Python gets and does nothing with: none can be faster."""
    nothing = SinkBuilder.stream("nothing", create=lambda _: None)
    spark.dataSource.register(nothing.receive_batch(lambda state, batch: None).build())
    return seconds_of_a_batch(rows_of(spark, lines).writeStream.format("nothing"))


def seconds_of_a_batch(writer: DataStreamWriter, **options: object) -> float:
    """Of the second one: the first begins with Spark's own preparations."""
    with running(writer, **options) as query:
        return seconds_of(query, lambda batch: batch.batchId == 1)


@contextmanager
def running(writer: DataStreamWriter, **options: object) -> Iterator[StreamingQuery]:
    """A query on a checkpoint of its own, that makes batches without a pause."""
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as checkpoint:
        given = {"checkpointLocation": checkpoint, **options}
        query = writer.options(**given).trigger(processingTime="0 seconds").start()
        try:
            yield query
        finally:
            query.stop()


def seconds_of(query: StreamingQuery, wanted: Callable[[StreamingQueryProgress], bool]) -> float:
    """Wait for such a batch."""

    def found() -> StreamingQueryProgress | None:
        if query.exception():
            raise RuntimeError(last_error(query))
        return next(filter(wanted, query.recentProgress), None)

    progress = wait_until(found, MOST_SECONDS, "the batch to measure")
    return progress.durationMs["triggerExecution"] / 1000
