"""The live plot says why it gave up, which the notebooks never show; and a clear desk."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import raise_error

from tutorial_pkg import item_stream
from workbook.lesson import clear_desk
from workbook.plots import watch


def test_watch_reports_a_failed_query(spark: SparkSession) -> None:
    rows = item_stream(spark, 200).select(raise_error("the item is broken"))
    query = rows.writeStream.format("noop").start()
    with pytest.raises(RuntimeError, match=r"the query has stopped: .*the item is broken"):
        watch(query, rows=100)


def test_watch_gives_up_on_missing_rows(spark: SparkSession) -> None:
    query = item_stream(spark, 1).where("false").writeStream.format("noop").start()
    with pytest.raises(TimeoutError, match=r"\d of 1000000 rows were read within 1 s"):
        watch(query, rows=1_000_000, seconds=1)


def test_clear_desk_stops_and_removes_everything(spark: SparkSession) -> None:
    query = item_stream(spark).writeStream.format("noop").start()
    (clear_desk(spark, "test") / "left.txt").write_text("from an earlier run")
    folder = clear_desk(spark, "test")
    assert not query.isActive
    assert list(folder.iterdir()) == []
