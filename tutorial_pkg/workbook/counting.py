"""A query made to be killed: numbers from a source of a few functions go into the CPU log.

As a script it is a driver in a process of its own. Argument: folder.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg import SourceBuilder, start_spark
from tutorial_pkg.processes.query_process import end_with_parent


class Count:
    """Counts from 0 on, ten numbers a `fill`, some thousand a second."""

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
    """Two instances, each with numbers of its own."""
    builder = SourceBuilder.stream("count", "instance INT, number LONG", create=Count)
    builder = builder.fill(Count.fill).snapshot(Count.snapshot).restore(Count.restore)
    return builder.distributed(2).build()


def count_to_log(spark: SparkSession, folder: str) -> StreamingQuery:
    """Start the query; the source's log, the checkpoint and the output are all in `folder`."""
    spark.dataSource.register(count_source())
    numbers = spark.readStream.format("count").load(f"{folder}/numbers")
    items = numbers.selectExpr("concat(instance, ' ', number) AS item")
    writer = items.writeStream.format("cpu_log")
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/out")


if __name__ == "__main__":
    end_with_parent()
    without_ui: dict[str, Any] = {"spark.ui.enabled": "false"}
    count_to_log(start_spark("drill", **without_ui), sys.argv[1]).awaitTermination()
