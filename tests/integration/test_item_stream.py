"""item_stream() on Spark's rate source."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.item_stream import item_stream

ITEM = re.compile(r"SimpleEvent\(timestamp=(\d\d:\d\d:\d\d\.\d\d\d), sequence=(\d+)\)")


def run_until(spark: SparkSession, rows_wanted: int, checkpoint: Path, collected: list[Row]):
    """Run a query over 100 items a second until `collected` holds that many rows, then stop it."""
    query = (
        item_stream(spark, 100)
        .writeStream.foreachBatch(lambda batch, _: collected.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    wait_until(lambda: len(collected) >= rows_wanted or query.exception(), 60, "enough items")
    query.stop()


def test_items_resume_with_times_in_utc(spark, tmp_path):
    collected: list[Row] = []
    session_zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        before = datetime.now(UTC)
        run_until(spark, 100, tmp_path, collected)
        run_until(spark, len(collected) + 100, tmp_path, collected)
        after = datetime.now(UTC)
    finally:
        spark.conf.set("spark.sql.session.timeZone", session_zone)
    found = [ITEM.fullmatch(row.item) for row in collected]
    sequences = {int(item[2]) for item in found}
    assert sequences == set(range(len(sequences)))
    assert all(time_of_day_within(item[1], before, after) for item in found)


def time_of_day_within(text: str, first: datetime, last: datetime) -> bool:
    """Whether some day's `text` lies between the two, to the second."""
    time = datetime.strptime(text, "%H:%M:%S.%f").time()
    days = {first.date(), last.date()}
    candidates = [datetime.combine(day, time, UTC) for day in days]
    slack = timedelta(seconds=1)
    return any(first - slack <= candidate <= last + slack for candidate in candidates)


@pytest.mark.parametrize("wrong", [0, -1, 10_000_001, 2.5, "10", True, None])
def test_items_per_second_is_checked_first(spark, wrong):
    with pytest.raises(ValueError, match=r"whole number in 1\.\.10000000, got ") as error:
        item_stream(spark, wrong)
    assert str(error.value).endswith(f"got {wrong!r}")
