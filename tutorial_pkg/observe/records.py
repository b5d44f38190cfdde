"""A run of a query and its micro-batches, in numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress


@dataclass(frozen=True)
class BatchMetrics:
    """A micro-batch.

    - `started`: when its trigger fired, in UTC.
    - `rows_in` from the sources, `rows_out` to the sink (None if the sink does not count).
    - `in_per_second`: its rows divided by the time since the previous trigger. `done_per_second`:
      how fast they were processed. If that stays lower, the query falls behind.
    - `seconds` by phase: `latestOffset`, `walCommit` (recording the offsets), `queryPlanning`,
      `addBatch` (tasks and sink), `commitOffsets`; `triggerExecution` is the sum.
    - `lag`: the distance to the newest offsets of the sources, in their unit.
    - `watermark`: None without one.
    - `state_rows` and `state_bytes` of aggregates and joins; `late_rows` were dropped.
    """

    batch: int
    started: datetime
    rows_in: int
    rows_out: int | None
    in_per_second: float
    done_per_second: float
    seconds: dict[str, float]
    lag: float | None
    watermark: datetime | None
    state_rows: int
    state_bytes: int
    late_rows: int

    @classmethod
    def of(cls, progress: StreamingQueryProgress) -> BatchMetrics:
        """Convert `query.lastProgress`, or the progress in a listener's event."""
        state = progress.stateOperators
        return cls(
            batch=progress.batchId,
            started=datetime.fromisoformat(progress.timestamp),
            rows_in=progress.numInputRows,
            rows_out=progress.sink.numOutputRows if progress.sink.numOutputRows >= 0 else None,
            in_per_second=progress.inputRowsPerSecond,
            done_per_second=progress.processedRowsPerSecond,
            seconds={phase: millis / 1000 for phase, millis in progress.durationMs.items()},
            lag=lag(progress),
            watermark=_watermark(progress.eventTime),
            state_rows=sum(operator.numRowsTotal for operator in state),
            state_bytes=sum(operator.memoryUsedBytes for operator in state),
            late_rows=sum(operator.numRowsDroppedByWatermark for operator in state),
        )

    def watermark_behind(self, now: datetime) -> float | None:
        """Return the seconds from the watermark to `now`: the age of the results."""
        return (now - self.watermark).total_seconds() if self.watermark else None


@dataclass
class QueryRecord:
    """A run of a query, from a start to its end.

    `name` is the query's, or its id if it has none. `state` is `running`, `stopped` or `failed`,
    with Spark's `error`. `batches` are the latest ones, oldest first; totals count all batches.
    `rows_out_total` is None if the sink does not count.
    """

    name: str
    id: str
    run: str
    state: str = "running"
    error: str | None = None
    batches: list[BatchMetrics] = field(default_factory=list)
    batches_total: int = 0
    rows_in_total: int = 0
    rows_out_total: int | None = None
    late_rows_total: int = 0

    @property
    def last(self) -> BatchMetrics | None:
        return self.batches[-1] if self.batches else None

    def add(self, batch: BatchMetrics, keep: int) -> None:
        """Add a batch, and keep only the latest ones."""
        self.batches = [*self.batches, batch][-keep:]
        self.batches_total += 1
        self.rows_in_total += batch.rows_in
        if batch.rows_out is not None:
            self.rows_out_total = (self.rows_out_total or 0) + batch.rows_out
        self.late_rows_total += batch.late_rows


def lag(progress: StreamingQueryProgress) -> float | None:
    """Return the distance between the batch's end and its sources' newest offsets.

    Return None if no source reports any. Offsets are JSON in any shape: their numbers are summed.
    If a source's offsets can't be compared like this, it reports the distance: `{"unread": 5}`.
    """
    distances = []
    for source in progress.sources:
        newest, reached = _value(source.latestOffset), _value(source.endOffset)
        if isinstance(newest, dict) and newest.keys() == {"unread"}:
            distances.append(_sum_of_numbers(newest))
        elif newest is not None and reached is not None:
            distances.append(max(0.0, _sum_of_numbers(newest) - _sum_of_numbers(reached)))
    return sum(distances) if distances else None


def _value(offset: str | None) -> Any:
    """Return None for a missing offset; PySpark reports "None" for some sources."""
    try:
        return json.loads(offset or "null")
    except ValueError:
        return None


def _sum_of_numbers(value: Any) -> float:
    if isinstance(value, dict | list):
        return sum(map(_sum_of_numbers, value.values() if isinstance(value, dict) else value))
    return value if isinstance(value, int | float) else 0.0


def _watermark(event_time: dict[str, str]) -> datetime | None:
    """Spark reports 1970 until it has seen an event."""
    at = datetime.fromisoformat(event_time.get("watermark", "1970-01-01T00:00Z"))
    return at if at.timestamp() > 0 else None
