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
from tutorial_pkg.builder import REQUIRED, SplitContext, integer

Order = tuple[int, str, datetime]


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
    spark.dataSource.register(_ORDERS)
    options = {"perSecond": per_second, "began": int(1000 * time.time()), "late": late}
    reader = spark.readStream.format("orders").options(**options, hot=int(hot))
    return reader.option("maxRowsPerTrigger", most).load()


def _look(context: SplitContext) -> dict[str, tuple[int, int]]:
    options = context.options
    millis = int(1000 * time.time()) - options.began
    return {"all": (0, max(0, millis) * options.perSecond // 1000)}


def _read(context: SplitContext, split: str, start: int, end: int) -> Iterator[Order]:
    options = context.options
    for number in range(start, end):
        seconds = options.began / 1000 + number / options.perSecond - number % 2 * options.late
        shop = number % 20 and (2 if options.hot else number % 20)
        yield number, f"shop {shop}", datetime.fromtimestamp(seconds, UTC)


_ORDERS = (
    SourceBuilder.replayable("orders", "number LONG, shop STRING, time TIMESTAMP", _look, _read)
    .distributed(2)
    .option("perSecond", integer(1), REQUIRED, "how many orders arrive")
    .option("began", integer(0), REQUIRED, "when the first one arrived, in epoch milliseconds")
    .option("late", integer(0), 0, "how many seconds old every second order is")
    .option("hot", integer(0), 0, "1: most orders are from one shop")
    .build()
)


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
