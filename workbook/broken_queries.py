"""Notebook 18's orders, and three broken queries whose faults you find from their metrics.

The docstrings of `_first`, `_second` and `_third` give the faults away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tutorial_pkg import SinkBuilder, SourceBuilder


def order_stream(
    spark: SparkSession, per_second: int, most: int = 1000, late: int = 0, hot: bool = False
) -> DataFrame:
    """Return a stream of orders: `number LONG, shop STRING, time TIMESTAMP`.

    Args:
        per_second: the number of orders that arrive per second.
        most: the limit of a batch. Further orders wait in the source, which reports them as lag.
        late: the age of every second order, in seconds.
        hot: whether 19 of 20 orders are from one shop, instead of one from each of 20 shops.
    """
    began = time.time()

    def look(context: Any) -> dict[str, tuple[int, int]]:
        return {"all": (0, int((time.time() - began) * per_second))}

    def read(context: Any, split: str, start: int, end: int) -> Iterator[Any]:
        for number in range(start, end):
            seconds = began + number / per_second - number % 2 * late
            shop = number % 20 and (2 if hot else number % 20)
            yield number, f"shop {shop}", datetime.fromtimestamp(seconds, UTC)

    schema = "number LONG, shop STRING, time TIMESTAMP"
    source = SourceBuilder.replayable("orders", schema, look, read).distributed(2)
    spark.dataSource.register(source.build())
    return spark.readStream.format("orders").option("maxRowsPerTrigger", most).load()


def scene(number: int, spark: SparkSession, folder: Path) -> StreamingQuery:
    """Start scene 1, 2 or 3; its query is named `scene 1` and so on."""
    name = f"scene {number}"
    writer = (_first, _second, _third)[number - 1](spark).queryName(name)
    writer = writer.trigger(processingTime="500 milliseconds")
    return writer.option("checkpointLocation", str(folder / name)).start()


def _first(spark: SparkSession) -> DataStreamWriter:
    """The sink takes 40 ms for each order: two tasks write 50 of 100 orders per second."""
    slow = SinkBuilder.stream("slow_sink", create=lambda context: None)
    spark.dataSource.register(slow.receive(lambda state, row: time.sleep(0.04)).build())
    return order_stream(spark, 100, most=50).repartition(2).writeStream.format("slow_sink")


def _second(spark: SparkSession) -> DataStreamWriter:
    """Every second order is a minute and a half old: older than the watermark allows."""
    orders = order_stream(spark, 100, late=90).withWatermark("time", "10 seconds")
    return orders.dropDuplicates(["number", "time"]).writeStream.format("noop")


def _third(spark: SparkSession) -> DataStreamWriter:
    """Nineteen of twenty orders are from one shop, so one task does nearly all of the work.

    At 8 ms an order, it takes 1.5 s for the orders of a second. Two tasks that shared them would
    take 0.8 s.
    """
    orders = order_stream(spark, 200, most=200, hot=True).repartition(2, "shop")
    return orders.mapInArrow(_work, "number LONG").writeStream.format("noop")


def _work(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Take 8 ms for each order."""
    for batch in batches:
        time.sleep(0.008 * batch.num_rows)
        yield batch.select(["number"])
