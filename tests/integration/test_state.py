"""State in Spark against plain Python: rolling, sliding by frames, and the rows that were late."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state import drop_mark, rolling, sliding, use_rocksdb
from workbook.batches import post, run, stream_of, total
from workbook.trade_totals import Totals
from workbook.trading import SCHEMA, TICKERS, Trade, counts, trade

SECOND = timedelta(seconds=1)


@pytest.fixture
def rocksdb(spark: SparkSession) -> None:
    if not HAS_STATE:
        pytest.skip("before Spark 4.1 transformWithState takes pandas only")
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    use_rocksdb(spark)


def told(number: int) -> list[Trade]:
    """As two exchanges tell them, one after the other."""
    return [trade(TICKERS, n % 2, n // 2) for n in range(number)]


def post_in(folder: Path, batches: int, rows: list[Trade]) -> None:
    size = len(rows) // batches
    post(folder, [rows[n : n + size] for n in range(0, len(rows), size)])


def totals_of(rows: list[Trade]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in rows:
        number, shares = found.get(row.ticker, (0, 0))
        found[row.ticker] = number + 1, shares + row.quantity
    return found


def last_totals(spark: SparkSession, table: str) -> dict[str, tuple[int, int]]:
    rows = spark.table(table).orderBy("trades").collect()
    return {row.ticker: (row.trades, row.shares) for row in rows}


# ---- Rolling -------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.usefixtures("rocksdb")
def test_rolling_totals_also_after_a_restart_and_state_bounded_by_keys(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows, checkpoint = told(4000), tmp_path / "checkpoint"
    sizes, written = [], []
    for name, part in (("rolling_1", rows[:400]), ("rolling_2", rows[400:])):
        post_in(tmp_path / "in", 2, part)
        result = rolling(stream_of(spark, tmp_path / "in", SCHEMA), "ticker", Totals())

        def collect(batch: DataFrame, number: int) -> None:
            written.extend(tuple(row) for row in batch.collect())

        writer = result.writeStream.outputMode("update").foreachBatch(collect).queryName(name)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        started = query.start()
        assert started.awaitTermination(120)
        assert started.exception() is None
        sizes.append(started.lastProgress.stateOperators[0].numRowsTotal)
    found = {ticker: (number, shares) for ticker, number, shares in sorted(written)}
    assert found == totals_of(rows)
    assert sizes == [len(TICKERS)] * 2  # ten times the trades, and not a row more


# ---- Sliding -------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.usefixtures("rocksdb")
def test_sliding_windows_by_frames(spark: SparkSession, tmp_path: Path) -> None:
    rows = told(3000)
    # A pause that is longer than a window: its windows must be empty, and leave nothing behind.
    rows = [row for row in rows if not 12 <= row.time.second < 21]
    post_in(tmp_path / "in", 7, [*rows[:900], rows[0]._replace(time=None), *rows[900:]])
    stream = stream_of(spark, tmp_path / "in", SCHEMA).withWatermark("time", "6 seconds")
    log = work_dir("logs") / f"spark-{os.getpid()}.log"
    said_before = log.stat().st_size
    query = run(sliding(stream, "ticker", Totals(), "time", 6 * SECOND, 2 * SECOND), "by_frames")
    found = {
        (row.ticker, row.end.astimezone(UTC)): (row.trades, row.shares)
        for row in spark.table("by_frames").collect()
    }
    last = max(end for _, end in found)
    expected = {key: n for key, n in counts(rows, 6 * SECOND, 2 * SECOND).items() if key[1] <= last}
    assert {key: number for key, (number, _) in found.items()} == expected
    for (ticker, end), (_, shares) in found.items():
        inside = [r for r in rows if r.ticker == ticker and end - 6 * SECOND <= r.time < end]
        assert shares == sum(row.quantity for row in inside)
    assert total(query, "numRowsDroppedByWatermark") == 0
    assert b"Failed to register timer" not in log.read_bytes()[said_before:]


@pytest.mark.parametrize(("window", "slide"), [(5, 2), (0, 1), (4, 0), (4, 8)])
def test_a_window_is_a_multiple_of_its_slide(spark: SparkSession, window: int, slide: int) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ValueError, match="multiple of `slide`"):
        sliding(rows, "ticker", Totals(), "time", window * SECOND, slide * SECOND)


@pytest.mark.skipif(not HAS_STATE, reason="there it cannot be used at all")
def test_without_protobuf_it_says_what_to_install(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ImportError, match=r"pip install 'protobuf>=6\.33\.5'"):
        rolling(spark.createDataFrame([], SCHEMA), "ticker", Totals())


# ---- Time to live --------------------------------------------------------------------------------


@pytest.mark.usefixtures("rocksdb")
def test_a_silent_key_is_forgotten(spark: SparkSession, tmp_path: Path) -> None:
    folder, one = tmp_path / "in", told(1)[0]
    forgetting = rolling(stream_of(spark, folder, SCHEMA), "ticker", Totals(), SECOND)
    writer = forgetting.writeStream.format("memory").queryName("forget").outputMode("update")
    query = writer.start()
    post(folder, [[one]])
    wait_until(lambda: spark.table("forget").count() == 1, 60, "a result")
    wait_until(lambda: query.lastProgress.stateOperators[0].numRowsTotal == 0, 60, "an empty state")
    post(folder, [[one]])
    wait_until(lambda: spark.table("forget").count() == 2, 60, "another result")
    query.stop()
    assert [row.trades for row in spark.table("forget").collect()] == [1, 1]


@pytest.mark.skipif(HAS_STATE, reason="it can be used there")
def test_that_it_needs_a_newer_spark_is_told(spark: SparkSession) -> None:
    with pytest.raises(RuntimeError, match="`rolling` and `sliding` need Spark 4"):
        rolling(spark.createDataFrame([("A",)], "ticker STRING"), "ticker", Totals())


# ---- Late ----------------------------------------------------------------------------------------


def test_a_batch_that_is_not_in_the_checkpoint(tmp_path: Path) -> None:
    assert drop_mark(tmp_path, 0) == datetime.fromtimestamp(0, UTC)
    with pytest.raises(ValueError, match="no batch 6"):
        drop_mark(tmp_path, 7)


# ---- The notebooks' way to run a query -----------------------------------------------------------


def test_a_query_that_fails_says_why(spark: SparkSession, tmp_path: Path) -> None:
    post(tmp_path / "in", [told(1)])
    rows = stream_of(spark, tmp_path / "in", SCHEMA).selectExpr("raise_error('spilled') AS x")
    with pytest.raises(RuntimeError, match="spilled"):
        run(rows, "failing")
