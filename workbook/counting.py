"""A query made to be killed: numbers go from a source into a database, exactly once.

As a script it is a driver. Arguments: folder, and the database's URI.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg
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
TABLES = "CREATE TABLE IF NOT EXISTS numbers (instance INT, number BIGINT)"


def table_sink() -> type[DataSource]:
    """Return a sink that writes exactly once to a table."""
    builder = SinkBuilder.dbapi(
        "numbers_table", lambda options: psycopg.connect(options.uri, autocommit=True)
    )
    return builder.option("uri", not_empty, REQUIRED, "the database", "a PostgreSQL URI").build()


def count_to_table(spark: SparkSession, folder: str, uri: str) -> StreamingQuery:
    """Start the query; the source's log and the checkpoint are in `folder`."""
    with psycopg.connect(uri) as database:
        database.execute(TABLES)
    for connector in (count_source(), table_sink()):
        spark.dataSource.register(connector)
    counted = spark.readStream.format("count").option("maxRowsPerTrigger", MOST_ROWS)
    numbers = counted.load(f"{folder}/numbers")
    writer = numbers.writeStream.format("numbers_table").options(uri=uri, table="numbers")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


if __name__ == "__main__":
    end_with_parent()
    without_ui: dict[str, Any] = {"spark.ui.enabled": "false"}
    count_to_table(start_spark("drill", **without_ui), *sys.argv[1:]).awaitTermination()
