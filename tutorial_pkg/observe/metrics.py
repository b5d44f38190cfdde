"""QueryMetrics: a listener that keeps the latest batches of every query of a session."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tutorial_pkg.observe.records import BatchMetrics, QueryRecord

if TYPE_CHECKING:  # imported on demand: workers may lack `prometheus_client`
    from tutorial_pkg.observe.prometheus import MetricsServer

MOST_RUNS = 100


class _Run:
    """A growing record with a bounded number of batches."""

    def __init__(self, record: QueryRecord, keep: int) -> None:
        self.record = record
        self._batches: deque[BatchMetrics] = deque(maxlen=keep)

    def add(self, batch: BatchMetrics) -> None:
        self._batches.append(batch)
        self.record.batches_total += 1
        self.record.rows_in_total += batch.rows_in
        if batch.rows_out is not None:
            self.record.rows_out_total = (self.record.rows_out_total or 0) + batch.rows_out
        self.record.late_rows_total += batch.late_rows

    def snapshot(self) -> QueryRecord:
        return replace(self.record, batches=list(self._batches))


class QueryMetrics(StreamingQueryListener):
    """Keeps the last `keep` batches of every query of a session, for at most 100 runs.

        metrics = QueryMetrics()
        spark.streams.addListener(metrics)  # from here on
        ...
        for query in metrics.queries():
            print(query.name, query.state, query.last)

    Spark reports a batch after it has finished, in a separate thread, and skips batches without
    data: an idle query keeps its last batch. You may call the methods from any thread.
    `metrics.serve(9000)` serves the newest numbers to a Prometheus on this machine.

    Raises `ValueError` for `keep` below 1.

    The idea: Hazelcast Jet's Management Center, and Flink's metrics.
    """

    def __init__(self, keep: int = 200) -> None:
        if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
            raise ValueError(f"`keep` must be 1 or more batches, got {keep!r}")
        self._keep = keep
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()

    def queries(self) -> list[QueryRecord]:
        """Return all runs, running ones first, as copies that do not change."""
        with self._lock:
            records = [run.snapshot() for run in self._runs.values()]
        return sorted(records, key=lambda record: record.state != "running")

    def query(self, name: str) -> QueryRecord:
        """Return the latest run of the query with this name. Raises `KeyError` if there is none."""
        with self._lock:
            runs = [run for run in self._runs.values() if run.record.name == name]
            if not runs:
                raise KeyError(f"no query named {name!r} since the listener was added")
            return runs[-1].snapshot()

    def prometheus(self) -> str:
        """Return the newest numbers of the running queries in Prometheus' text format."""
        from tutorial_pkg.observe.prometheus import prometheus_text

        return prometheus_text(self.queries)

    def serve(self, port: int = 0) -> MetricsServer:
        """Serve `GET /metrics` on this machine's loopback, until `close()`.

        Port 0 takes a free port: see `server.url`. Raises `OSError` for a port in use.
        """
        from tutorial_pkg.observe.prometheus import MetricsServer, RunningQueries

        return MetricsServer(RunningQueries(self.queries), port)

    # ---- Spark calls these ---------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        self._run(str(event.id), str(event.runId), event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        batch = BatchMetrics.of(progress)
        run = self._run(str(progress.id), str(progress.runId), progress.name)
        with self._lock:
            run.add(batch)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing is new."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        run = self._run(str(event.id), str(event.runId), None)
        with self._lock:
            run.record.state = "failed" if event.exception else "stopped"
            run.record.error = event.exception

    def _run(self, query: str, run: str, name: str | None) -> _Run:
        """A listener that was added late learns of a run from one of its batches."""
        with self._lock:
            if run not in self._runs:
                self._make_room()
                self._runs[run] = _Run(QueryRecord(name or query, query, run), self._keep)
            return self._runs[run]

    def _make_room(self) -> None:
        """Drop the oldest run, preferably one that has ended."""
        if len(self._runs) >= MOST_RUNS:
            ended = (key for key, run in self._runs.items() if run.record.state != "running")
            del self._runs[next(ended, next(iter(self._runs)))]
