"""A query made to be killed: numbers go from a source into a database, exactly once.

As a script it is a driver. Arguments: folder, and the database's URI.
"""

from __future__ import annotations

import sys
import time
import uuid
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import end_with_parent
from tutorial_pkg import SinkBuilder, SourceBuilder, start_spark
from tutorial_pkg.builder import REQUIRED, not_empty


class Count:
    """An instance that counts from 0, about two thousand numbers per second."""

    def __init__(self, context: Any) -> None:
        self.instance, self.next = context.index, 0

    def fill(self, buffer: Any) -> None:
        time.sleep(0.005)
        for number in range(self.next, self.next + 10):
            buffer.add((self.instance, number))
        self.next += 10

    def snapshot(self) -> int:
        return self.next

    def restore(self, snapshots: list[int]) -> None:
        self.next = snapshots[self.instance]


def count_source() -> type[DataSource]:
    """Return a source with two instances."""
    builder = SourceBuilder.stream("count", "instance INT, number LONG", create=Count)
    builder = builder.fill(Count.fill).snapshot(Count.snapshot).restore(Count.restore)
    return builder.distributed(2).build()


MOST_ROWS = 1_000  # in a batch: many small ones, so that kills hit every stage
TABLES = """
CREATE TABLE IF NOT EXISTS numbers (instance INT, number BIGINT);
CREATE TABLE IF NOT EXISTS numbers_staged (handle TEXT, instance INT, number BIGINT);
CREATE TABLE IF NOT EXISTS numbers_done (query TEXT, batch BIGINT, PRIMARY KEY (query, batch));
"""


class Stage:
    """A task, which writes its rows to a staging table under a handle of its own."""

    def __init__(self, context: Any) -> None:
        self.handle = uuid.uuid4().hex
        self.database = psycopg.connect(context.options.uri)

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        with self.database.cursor().copy("COPY numbers_staged FROM STDIN") as copy:
            for row in batch.to_pylist():
                copy.write_row((self.handle, row["instance"], row["number"]))

    def flush(self) -> str:
        self.database.commit()
        return self.handle

    def close(self) -> None:
        self.database.close()


def publish(context: Any, handles: list[str]) -> None:
    """Publish the batch's rows and record that it is done, in one transaction."""
    batch = [context.query, context.batch]
    with psycopg.connect(context.options.uri) as database:
        note = "INSERT INTO numbers_done VALUES (%s, %s) ON CONFLICT DO NOTHING"
        if database.execute(note, batch).rowcount:
            staged = "SELECT instance, number FROM numbers_staged WHERE handle = ANY(%s)"
            database.execute(f"INSERT INTO numbers {staged}", [handles])
        database.execute("DELETE FROM numbers_staged WHERE handle = ANY(%s)", [handles])


def table_sink() -> type[DataSource]:
    """Return a sink that writes exactly once to the table `numbers`."""
    builder = SinkBuilder.stream("numbers_table", create=Stage).receive_batch(Stage.receive_batch)
    builder = builder.flush(Stage.flush).destroy(Stage.close).commit(publish)
    return builder.option("uri", not_empty, REQUIRED, "the database", "a PostgreSQL URI").build()


def count_to_table(spark: SparkSession, folder: str, uri: str) -> StreamingQuery:
    """Start the query; the source's log and the checkpoint are in `folder`."""
    with psycopg.connect(uri) as database:
        database.execute(TABLES)
    for connector in (count_source(), table_sink()):
        spark.dataSource.register(connector)
    counted = spark.readStream.format("count").option("maxRowsPerTrigger", MOST_ROWS)
    numbers = counted.load(f"{folder}/numbers")
    writer = numbers.writeStream.format("numbers_table").option("uri", uri)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


if __name__ == "__main__":
    end_with_parent()
    without_ui: dict[str, Any] = {"spark.ui.enabled": "false"}
    count_to_table(start_spark("drill", **without_ui), *sys.argv[1:]).awaitTermination()
