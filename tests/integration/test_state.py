"""State in Spark against plain Python: rolling, sliding by frames, and late rows."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state import drop_mark, rolling, sliding, use_rocksdb
from workbook.batches import post, stream_of
from workbook.trade_totals import Totals
from workbook.trading import SCHEMA, Trade, first_trades

SECOND = timedelta(seconds=1)


@pytest.fixture
def rocksdb(spark: SparkSession) -> None:
    if not HAS_STATE:
        pytest.skip("before Spark 4.1 transformWithState takes pandas only")
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    use_rocksdb(spark)


def post_in(folder: Path, batches: int, rows: list[Trade]) -> None:
    size = len(rows) // batches
    post(folder, [rows[n : n + size] for n in range(0, len(rows), size)])


def window_ends(time: datetime) -> list[datetime]:
    """Return the ends of the windows of 6 seconds, every 2, that have an event at `time`."""
    first = time.replace(microsecond=0) + (2 - time.second % 2) * SECOND
    return [first, first + 2 * SECOND, first + 4 * SECOND]


@pytest.mark.soak
@pytest.mark.usefixtures("rocksdb")
def test_sliding_windows_match_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    # The pause is longer than a window: its windows must be empty, and leave nothing behind.
    rows = [row for row in first_trades(3000) if not 12 <= row.time.second < 21]
    post_in(tmp_path / "in", 7, [*rows[:900], rows[0]._replace(time=None), *rows[900:]])
    stream = stream_of(spark, tmp_path / "in", SCHEMA).withWatermark("time", "6 seconds")
    log = work_dir("logs") / f"spark-{os.getpid()}.log"
    size_before = log.stat().st_size
    windows = sliding(stream, "ticker", Totals(), "time", 6 * SECOND, 2 * SECOND)
    writer = windows.writeStream.format("memory").queryName("by_frames")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    found = {
        (row.ticker, row.end.astimezone(UTC)): (row.trades, row.shares)
        for row in spark.table("by_frames").collect()
    }
    last = max(end for _, end in found)
    expected: dict[tuple[str, datetime], tuple[int, int]] = {}
    for row in rows:
        for end in window_ends(row.time):
            trades, shares = expected.get((row.ticker, end), (0, 0))
            expected[row.ticker, end] = trades + 1, shares + row.quantity
    assert found == {key: sums for key, sums in expected.items() if key[1] <= last}
    dropped = [batch.stateOperators[0].numRowsDroppedByWatermark for batch in query.recentProgress]
    assert sum(dropped) == 0
    assert b"Failed to register timer" not in log.read_bytes()[size_before:]


@pytest.mark.parametrize(("window", "slide"), [(5, 2), (0, 1), (4, 0), (4, 8)])
def test_window_must_be_a_multiple(spark: SparkSession, window: int, slide: int) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ValueError, match="`window`"):
        sliding(rows, "ticker", Totals(), "time", window * SECOND, slide * SECOND)


@pytest.mark.skipif(not HAS_STATE, reason="before Spark 4.1 it does not work at all")
def test_missing_protobuf_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ImportError, match=r"pip install 'protobuf>=6\.33\.5'"):
        rolling(spark.createDataFrame([], SCHEMA), "ticker", Totals())


@pytest.mark.skipif(HAS_STATE, reason="it works there")
def test_older_spark_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match=r"Spark 4\.1"):
        rolling(spark.createDataFrame([("A",)], "ticker STRING"), "ticker", Totals())


@pytest.mark.usefixtures("rocksdb")
def test_silent_key_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    folder, one = tmp_path / "in", first_trades(1)[0]
    forgetting = rolling(stream_of(spark, folder, SCHEMA), "ticker", Totals(), SECOND)
    query = forgetting.writeStream.format("memory").queryName("forget").outputMode("update").start()
    post(folder, [[one]])
    wait_until(lambda: spark.table("forget").count() == 1, 60, "a result")
    wait_until(lambda: query.lastProgress.stateOperators[0].numRowsTotal == 0, 60, "an empty state")
    post(folder, [[one]])
    wait_until(lambda: spark.table("forget").count() == 2, 60, "another result")
    query.stop()
    assert [row.trades for row in spark.table("forget").collect()] == [1, 1]


def test_mark_of_a_missing_batch_is_an_error(tmp_path: Path) -> None:
    assert drop_mark(tmp_path, 0) == datetime.fromtimestamp(0, UTC)
    with pytest.raises(ValueError, match="no batch 6"):
        drop_mark(tmp_path, 7)
