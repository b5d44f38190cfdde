"""item_stream(): an endless stream of lines to feed a sink with, on Spark's own `rate` source."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def item_stream(spark: SparkSession, items_per_second: int = 10) -> DataFrame:
    """An endless streaming DataFrame with one column `item STRING`.

    The items are lines such as `SimpleEvent(timestamp=10:09:37.000, sequence=2900)`: the time of
    day in UTC, and a number that counts up from 0 without a gap, however often a query with a
    checkpoint is restarted.

    Args:
        items_per_second: 1..10000000 items a second; after a pause the missing ones follow at once.

    Raises:
        ValueError: if `items_per_second` is not a whole number in that range.
    """
    if type(items_per_second) is not int or not 1 <= items_per_second <= 10_000_000:
        raise ValueError(
            f"`items_per_second` must be a whole number in 1..10000000, got {items_per_second!r}"
        )
    rows = spark.readStream.format("rate").option("rowsPerSecond", items_per_second).load()
    return rows.select(_item().alias("item"))


def _item() -> Column:
    """Computed from epoch milliseconds: `date_format` would follow the session's time zone."""
    millis = F.unix_millis("timestamp")
    hours, minutes, seconds = (F.floor(millis / size) for size in (3_600_000, 60_000, 1_000))
    return F.format_string(
        "SimpleEvent(timestamp=%02d:%02d:%02d.%03d, sequence=%d)",
        hours % 24,
        minutes % 60,
        seconds % 60,
        millis % 1000,
        F.col("value"),
    )
