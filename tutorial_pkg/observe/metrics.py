"""QueryMetrics: a listener that keeps the latest batches of every query of a session."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tutorial_pkg.observe.records import BatchMetrics, QueryRecord

if TYPE_CHECKING:  # imported on demand: workers may lack `prometheus_client`
    from tutorial_pkg.observe.prometheus import MetricsServer

MOST_RUNS = 100


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
        self._runs: dict[str, QueryRecord] = {}
        self._lock = threading.Lock()

    def queries(self) -> list[QueryRecord]:
        """Return all runs, running ones first, as copies that do not change."""
        with self._lock:
            records = [replace(record) for record in self._runs.values()]
        return sorted(records, key=lambda record: record.state != "running")

    def query(self, name: str) -> QueryRecord:
        """Return the latest run of the query with this name. Raises `KeyError` if there is none."""
        with self._lock:
            runs = [record for record in self._runs.values() if record.name == name]
            if not runs:
                raise KeyError(f"no query named {name!r} since the listener was added")
            return replace(runs[-1])

    def prometheus(self) -> str:
        """Return the newest numbers of the running queries in Prometheus' text format."""
        from tutorial_pkg.observe.prometheus import RunningQueries, generate_latest

        return generate_latest(RunningQueries(self.queries)).decode()

    def serve(self, port: int = 0) -> MetricsServer:
        """Serve `GET /metrics` on this machine's loopback, until `close()`.

        Port 0 takes a free port: see `server.url`. Raises `OSError` for a port in use.
        """
        from tutorial_pkg.observe.prometheus import MetricsServer, RunningQueries

        return MetricsServer(RunningQueries(self.queries), port)

    # ---- Spark calls these ---------------------------------------------------------------------

    @cached_property
    def _jlistener(self) -> Any:  # PySpark's own one, but with `_JsonEvents`
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_JsonEvents(self))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        with self._lock:
            self._run(event.id, event.runId, event.name)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        with self._lock:
            self._run(progress.id, progress.runId, progress.name).add(
                BatchMetrics.of(progress), self._keep
            )

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with self._lock:
            record = self._run(event.id, event.runId, None)
            record.state = "failed" if event.exception else "stopped"
            record.error = event.exception

    def _run(self, query: object, run: object, name: str | None) -> QueryRecord:
        """A listener that was added late learns of a run from one of its batches."""
        if str(run) not in self._runs:
            if len(self._runs) >= MOST_RUNS:  # drop the oldest run, preferably one that has ended
                ended = (key for key, record in self._runs.items() if record.state != "running")
                del self._runs[next(ended, next(iter(self._runs)))]
            self._runs[str(run)] = QueryRecord(name or str(query), str(query), str(run))
        return self._runs[str(run)]


class _JsonEvents(JStreamingQueryListener):
    """Reads the report of a batch as one JSON text; PySpark would call the JVM a thousand times."""

    def onQueryProgress(self, event: Any) -> None:
        report = json.loads(event.progress().json())
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": report}))
