"""How a receiver is doing, for Prometheus: the counters of its ports."""

from __future__ import annotations

from pathlib import Path

from tutorial_pkg.connectors.network_lines.status import network_status
from tutorial_pkg.core.extras import extra

with extra("metrics"):
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector

METRICS = {  # of a `PortStatus`, what Prometheus should take it for, and what it is
    "listening": (GaugeMetricFamily, "1 while senders can connect"),
    "connections": (GaugeMetricFamily, "senders that are connected"),
    "accepted": (CounterMetricFamily, "connections since the start"),
    "idle_closed": (CounterMetricFamily, "connections that were closed as idle"),
    "refused": (CounterMetricFamily, "clients that were not let in, by reason"),
    "lines": (CounterMetricFamily, "lines that were put into the log"),
    "bytes": (CounterMetricFamily, "bytes of these lines"),
    "dropped": (CounterMetricFamily, "lines that were dropped, by reason"),
    "kept_unterminated": (CounterMetricFamily, "lines without a newline that were taken as lines"),
    "unconfirmed": (CounterMetricFamily, "lines of which the sender could not be told"),
    "backlog_bytes": (GaugeMetricFamily, "bytes in the log that the query has not processed"),
}
BY_REASON = {"refused", "dropped"}


class ReceiverMetrics(Collector):
    """The ports of the log in a folder, as `prometheus_client` asks for them at each scrape."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def collect(self) -> list[Metric]:
        families = {name: _family(name) for name in METRICS}
        for number, port in network_status(self._path).ports.items():
            for name, family in families.items():
                value = getattr(port, name)
                counts = value if name in BY_REASON else {None: value}
                for reason, count in counts.items():
                    family.add_metric([str(number), *([reason] if reason else [])], int(count))
        return [family for family in families.values() if family.samples]


def _family(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    kind, what = METRICS[name]
    labels = ["port", "reason"] if name in BY_REASON else ["port"]
    family: CounterMetricFamily | GaugeMetricFamily = kind(
        f"network_lines_{name}", what, None, labels
    )
    return family
