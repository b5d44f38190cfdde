"""QueryMetrics without Spark: events become numbers, also for Prometheus."""

from __future__ import annotations

import urllib.error
import urllib.request
import uuid
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tutorial_pkg.observe import BatchMetrics, QueryMetrics

OPERATOR = {
    "operatorName": "stateStoreSave",
    "numRowsTotal": 7,
    "numRowsUpdated": 1,
    "allUpdatesTimeMs": 3,
    "numRowsRemoved": 0,
    "allRemovalsTimeMs": 0,
    "commitTimeMs": 2,
    "memoryUsedBytes": 4096,
    "numRowsDroppedByWatermark": 5,
    "numShufflePartitions": 2,
    "numStateStoreInstances": 2,
    "customMetrics": {},
}


def progress(batch: int = 0, **other: Any) -> StreamingQueryProgress:
    """Return a progress copied from a run, with round numbers."""
    source = {
        "description": "a source",
        "startOffset": '{"11000": 0}',
        "endOffset": '{"11000": 60, "11001": 5}',
        "latestOffset": '{"11000": 100, "11001": 5}',
        "numInputRows": 10,
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 40.0,
        "metrics": {},
    }
    report = {
        "id": str(uuid.UUID(int=1)),
        "runId": str(uuid.UUID(int=2)),
        "name": "lines",
        "timestamp": "2026-11-22T10:00:10.000Z",
        "batchId": batch,
        "batchDuration": 250,
        "durationMs": {"addBatch": 200, "triggerExecution": 250},
        "eventTime": {"watermark": "2026-11-22T10:00:00.000Z"},
        "stateOperators": [OPERATOR],
        "sources": [source],
        "sink": {"description": "a sink", "numOutputRows": 3, "metrics": {}},
        "numInputRows": 10,
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 40.0,
        "observedMetrics": {},
    }
    return StreamingQueryProgress.fromJson(report | other)


def event(run: int = 2, **other: Any) -> Any:
    ids = {"id": uuid.UUID(int=1), "runId": uuid.UUID(int=run), "name": "lines"}
    return SimpleNamespace(**(ids | other))


def test_progress_becomes_numbers() -> None:
    batch = BatchMetrics.of(progress())
    assert batch == BatchMetrics(
        batch=0,
        started=datetime(2026, 11, 22, 10, 0, 10, tzinfo=UTC),
        rows_in=10,
        rows_out=3,
        in_per_second=20.0,
        done_per_second=40.0,
        seconds={"addBatch": 0.2, "triggerExecution": 0.25},
        lag=40.0,
        watermark=datetime(2026, 11, 22, 10, tzinfo=UTC),
        state_rows=7,
        state_bytes=4096,
        late_rows=5,
    )
    assert batch.watermark_behind(datetime(2026, 11, 22, 10, 1, tzinfo=UTC)) == 60


def test_missing_numbers_are_none() -> None:
    unknown = progress(
        eventTime={"watermark": "1970-01-01T00:00:00.000Z"},
        sink={"description": "a sink", "numOutputRows": -1, "metrics": {}},
        sources=[],
        stateOperators=[],
    )
    batch = BatchMetrics.of(unknown)
    assert (batch.lag, batch.watermark, batch.rows_out) == (None, None, None)
    assert batch.watermark_behind(datetime.now(UTC)) is None
    assert BatchMetrics.of(progress(eventTime={})).watermark is None


@pytest.mark.parametrize("latest", ["None", "null", "", None, "no JSON"])
def test_lag_needs_a_newest_offset(latest: str | None) -> None:
    assert lag_of("5", latest) is None


@pytest.mark.parametrize(
    ("end", "latest", "lag"),
    [
        ("5", "12", 7),
        ('{"files": [{"id": "8:77", "next": 3}]}', '{"files": [{"id": "8:77", "next": 4}]}', 1),
        ('{"11000": 60}', '{"unread": 0}', 0),  # the source reports the distance
        ('{"11000": 60}', '{"unread": 12}', 12),
    ],
)
def test_lag_is_the_distance_of_numbers(end: str, latest: str, lag: int) -> None:
    assert lag_of(end, latest) == lag


def lag_of(end: str, latest: str | None) -> float | None:
    report = progress()
    report.sources[0] |= {"endOffset": end, "latestOffset": latest}
    return BatchMetrics.of(report).lag


def test_last_batches_are_kept() -> None:
    metrics = QueryMetrics(keep=3)
    metrics.onQueryStarted(event())
    for number in range(5):
        metrics.onQueryProgress(SimpleNamespace(progress=progress(number)))
    query = metrics.query("lines")
    assert [batch.batch for batch in query.batches] == [2, 3, 4]
    assert (query.batches_total, query.rows_in_total, query.rows_out_total) == (5, 50, 15)
    assert (query.late_rows_total, query.state, query.last.batch) == (25, "running", 4)
    with pytest.raises(KeyError, match="'other'"):
        metrics.query("other")


def test_ended_run_comes_last() -> None:
    metrics = QueryMetrics()
    for run in (2, 3):
        metrics.onQueryStarted(event(run))
    metrics.onQueryTerminated(event(2, exception="the disk is full"))
    states = [(query.state, query.error) for query in metrics.queries()]
    assert states == [("running", None), ("failed", "the disk is full")]
    metrics.onQueryTerminated(event(3, exception=None))
    assert metrics.query("lines").state == "stopped"


def test_prometheus_gets_running_queries() -> None:
    metrics = QueryMetrics()
    assert metrics.prometheus() == ""
    metrics.onQueryStarted(event(name='a "query"'))
    metrics.onQueryProgress(SimpleNamespace(progress=progress()))
    metrics.onQueryStarted(event(9, name="ended"))
    metrics.onQueryTerminated(event(9, exception=None))
    text = metrics.prometheus()
    assert "ended" not in text
    name = r'query="a \"query\""'
    for line in (
        "# TYPE spark_query_rows_in_total counter",
        f"spark_query_rows_in_total{{{name}}} 10.0",
        f"spark_query_in_per_second{{{name}}} 20.0",
        f'spark_query_phase_seconds{{phase="addBatch",{name}}} 0.2',
        f"spark_query_lag{{{name}}} 40.0",
        "# TYPE spark_query_watermark_behind_seconds gauge",
        f"spark_query_state_rows{{{name}}} 7.0",
        f"spark_query_late_rows_total{{{name}}} 5.0",
    ):
        assert line in text.splitlines(), line


def test_server_serves_until_closed() -> None:
    metrics = QueryMetrics()
    metrics.onQueryStarted(event())
    server = metrics.serve()
    try:
        assert server.url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(server.url) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=")
            assert response.read().decode() == metrics.prometheus() != ""
        with pytest.raises(OSError):
            metrics.serve(int(server.url.split(":")[2].split("/")[0]))
    finally:
        server.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url)
