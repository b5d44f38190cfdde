"""The counters of a receiver's ports, for Prometheus."""

from __future__ import annotations

from pathlib import Path

from tutorial_pkg.connectors.network_lines.status import network_status
from tutorial_pkg.core.extras import extra

with extra("metrics"):
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

METRICS = {  # fields of a `PortStatus`: their kind and meaning
    "listening": (GaugeMetricFamily, "1 while senders can connect"),
    "connections": (GaugeMetricFamily, "senders that are connected"),
    "accepted": (CounterMetricFamily, "connections since the start"),
    "idle_closed": (CounterMetricFamily, "connections that were closed as idle"),
    "refused": (CounterMetricFamily, "clients that were refused, by reason"),
    "lines": (CounterMetricFamily, "lines that were written to the log"),
    "bytes": (CounterMetricFamily, "bytes of these lines"),
    "dropped": (CounterMetricFamily, "lines that were dropped, by reason"),
    "kept_unterminated": (CounterMetricFamily, "lines without a newline that were kept"),
    "truncated": (CounterMetricFamily, "messages over RELP that were cut"),
    "unconfirmed": (CounterMetricFamily, "lines in the log that could not be confirmed"),
    "backlog_bytes": (GaugeMetricFamily, "bytes in the log that wait for the query"),
}
BY_REASON = {"refused", "dropped"}


class ReceiverMetrics(Collector):
    """The ports of the log in a folder, as `prometheus_client` reads them at each scrape."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def collect(self) -> list[Metric]:
        ports = network_status(self._path).ports
        families: list[CounterMetricFamily | GaugeMetricFamily] = []
        for name, (kind, meaning) in METRICS.items():
            labels = ["port", "reason"] if name in BY_REASON else ["port"]
            families.append(kind(f"network_lines_{name}", meaning, None, labels))
            for number, port in ports.items():
                value = getattr(port, name)
                for reason, count in (value if name in BY_REASON else {"": value}).items():
                    values = [str(number), reason][: len(labels)]
                    families[-1].add_metric(values, int(count))
        return [family for family in families if family.samples]
