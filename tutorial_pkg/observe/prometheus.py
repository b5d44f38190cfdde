"""The metrics of queries as Prometheus reads them, and a server on loopback that serves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from tutorial_pkg.core.imports import extra
from tutorial_pkg.observe.records import QueryRecord

with extra("metrics"):
    from prometheus_client import generate_latest as generate_latest
    from prometheus_client import start_http_server
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

HOST = "127.0.0.1"

METRICS = {  # help text by name; totals are counters
    "batches_total": "batches that are done",
    "rows_in_total": "rows from the sources",
    "rows_out_total": "rows to the sink",
    "late_rows_total": "rows that a watermark has dropped",
    "in_per_second": "rows per second that arrived before the last batch",
    "done_per_second": "rows per second that the last batch processed",
    "phase_seconds": "seconds of the last batch, by phase",
    "lag": "distance to the newest offsets of the sources, in their unit",
    "watermark_behind_seconds": "seconds from the watermark to now",
    "state_rows": "rows that aggregates and joins keep",
    "state_bytes": "memory that aggregates and joins use",
}


class MetricsServer:
    """Serves what `metrics` collects over HTTP on loopback, with a thread for each client."""

    def __init__(self, metrics: Collector, port: int) -> None:
        self._server, self._thread = start_http_server(port, HOST, metrics)
        self.url = f"http://{HOST}:{self._server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class RunningQueries(Collector):
    """The running queries, collected at each scrape.

    Only the latest run of a name counts: Spark reports a start immediately, an end later.
    """

    def __init__(self, queries: Callable[[], list[QueryRecord]]) -> None:
        self._queries = queries

    def collect(self) -> list[Metric]:
        now, families = datetime.now(UTC), []
        running = {query.name: query for query in self._queries() if query.state == "running"}
        for name, text in METRICS.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            labels = ["query", "phase"] if name == "phase_seconds" else ["query"]
            family = kind(f"spark_query_{name}", text, None, labels)
            for query in running.values():
                for phase, value in _values(query, name, now).items():
                    if value is not None:  # the sink may not count its rows
                        family.add_metric([query.name, phase][: len(labels)], value)
            families.append(family)
        return [family for family in families if family.samples]


def _values(query: QueryRecord, name: str, now: datetime) -> Mapping[str, float | None]:
    """Return a metric's values by phase."""
    if name.endswith("_total"):
        return {"": getattr(query, name)}
    if query.last is None:
        return {}
    if name == "phase_seconds":
        return query.last.seconds
    behind = query.last.watermark_behind(now)
    return {"": behind if name == "watermark_behind_seconds" else getattr(query.last, name)}
