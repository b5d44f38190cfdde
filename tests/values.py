"""Extreme values of every Spark type, for round trips through a log, a file or a server."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as spark

ODD_TEXT = "\0NULL \\N null ' \" \\ {} {,} \r\n \t,; \ufeff 😀"

# Spark's years, less a day at either end, for zones far from UTC.
FIRST, LAST = datetime(1, 1, 2), datetime(9999, 12, 30, 23, 59, 59, 999_999)

VALUES: dict[spark.DataType, list[Any]] = {
    spark.BooleanType(): [True, False],
    spark.ByteType(): [-(2**7), 2**7 - 1],
    spark.ShortType(): [-(2**15), 2**15 - 1],
    spark.IntegerType(): [-(2**31), 2**31 - 1],
    spark.LongType(): [-(2**63), 2**63 - 1],
    spark.FloatType(): [-0.0, float("-inf")],
    spark.DoubleType(): [float("nan"), 5e-324],
    spark.DecimalType(38, 18): [Decimal(f"{10**20 - 1}.{10**18 - 1}"), Decimal("-1e-18")],
    spark.DecimalType(10, 0): [Decimal(-9_999_999_999), Decimal(0)],
    spark.DecimalType(5, 5): [Decimal("0.99999"), Decimal("-0.00001")],
    spark.StringType(): ["", ODD_TEXT],
    spark.BinaryType(): [b"", b"\0\xff"],
    spark.DateType(): [date.min, date.max],
    spark.TimestampType(): [FIRST.replace(tzinfo=UTC), LAST.replace(tzinfo=UTC)],
    spark.TimestampNTZType(): [FIRST, LAST],
    spark.DayTimeIntervalType(): [timedelta(-100_000_000), timedelta(1, 0, 1)],
}
if hasattr(spark, "TimeType"):  # from Spark 4.1 on
    VALUES[spark.TimeType()] = [time.min, time.max]
DEEP = spark.ArrayType(spark.MapType(spark.StringType(), spark.StructType().add("x", "double")))
NESTED: dict[spark.DataType, list[Any]] = {DEEP: [[], [None, {"": {"x": None}, "ä": {"x": -0.0}}]]}

# Values of a partition column, which name folders.
IN_FOLDERS = [*"%/ä:?*'\"\\\n ", "a b", "%20", "a/b", "日本", "..", "a=b", None]


def comparable(value: Any) -> Any:
    """Return a value whose `==` also tells NaN, the sign of zero, and bool from int."""
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items()}
    return repr(value) if isinstance(value, float | bool) else value
