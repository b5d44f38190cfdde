"""The counters of a receiver's ports, for Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

from tutorial_pkg.connectors.network_lines.status import PortStatus, network_status
from tutorial_pkg.core.imports import extra

with extra("metrics"):
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector


class ReceiverMetrics(Collector):
    """The ports of the log in a folder, as `prometheus_client` reads them at each scrape."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def collect(self) -> list[Metric]:
        ports = network_status(self._path).ports
        families: list[CounterMetricFamily | GaugeMetricFamily] = []
        for name, hint in get_type_hints(PortStatus, include_extras=True).items():
            if get_origin(hint) is not Annotated:
                continue
            _, kind, meaning = get_args(hint)
            by_reason = name in ("refused", "dropped")
            labels = ["port", "reason"] if by_reason else ["port"]
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            families.append(family(f"network_lines_{name}", meaning, None, labels))
            for number, port in ports.items():
                value = getattr(port, name)
                for reason, count in (value if by_reason else {"": value}).items():
                    families[-1].add_metric([str(number), reason][: len(labels)], int(count))
        return [family for family in families if family.samples]
