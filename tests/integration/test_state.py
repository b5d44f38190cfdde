"""State in Spark against plain Python: rolling, sliding by frames, and late rows."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tests.unit.state.test_operation import Totals
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state import drop_mark, rolling, sliding, use_rocksdb
from workbook.batches import post, stream_of
from workbook.trading import SCHEMA, first_trades

SECOND = timedelta(seconds=1)
SECONDS = 180  # until a result that must come counts as missing


@pytest.fixture
def rocksdb(spark: SparkSession) -> None:
    if not HAS_STATE:
        pytest.skip("before Spark 4.1 transformWithState takes pandas only")
    pytest.importorskip("google.protobuf", reason="transformWithState needs protobuf")
    use_rocksdb(spark)


@pytest.mark.parametrize(("window", "slide"), [(5, 2), (0, 1), (4, 0), (4, 8)])
def test_window_must_be_a_multiple(spark: SparkSession, window: int, slide: int) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ValueError, match="`window`"):
        sliding(rows, "ticker", Totals(), "time", window * SECOND, slide * SECOND)


@pytest.mark.skipif(not HAS_STATE, reason="before Spark 4.1 it does not work at all")
def test_missing_protobuf_is_named(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ImportError, match=r"pip install 'tutorial_pkg\[state\]'"):
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
    wait_until(lambda: spark.table("forget").count() == 1, SECONDS, "a result")
    state = lambda: query.lastProgress.stateOperators[0]  # noqa: E731
    wait_until(lambda: state().numRowsTotal == 0, SECONDS, "an empty state")
    post(folder, [[one]])
    wait_until(lambda: spark.table("forget").count() == 2, SECONDS, "another result")
    query.stop()
    assert [row.trades for row in spark.table("forget").collect()] == [1, 1]


def test_mark_of_a_missing_batch_is_an_error(tmp_path: Path) -> None:
    assert drop_mark(tmp_path, 0) == datetime.fromtimestamp(0, UTC)
    with pytest.raises(ValueError, match="no batch 6"):
        drop_mark(tmp_path, 7)
