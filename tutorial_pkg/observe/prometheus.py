"""The metrics of queries as Prometheus reads them, and a server on loopback that tells them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tutorial_pkg.observe.metrics import QueryRecord

HOST = "127.0.0.1"
PATIENCE_SECONDS = 5.0  # with a client that says nothing

METRICS = {  # name: what Prometheus should take it for, and what it is
    "batches_total": ("counter", "batches that are done"),
    "rows_in_total": ("counter", "rows from the sources"),
    "rows_out_total": ("counter", "rows to the sink"),
    "late_rows_total": ("counter", "rows that a watermark has dropped"),
    "in_per_second": ("gauge", "rows a second that came before the last batch"),
    "done_per_second": ("gauge", "rows a second that the last batch dealt with"),
    "phase_seconds": ("gauge", "seconds of the last batch, by phase"),
    "lag": ("gauge", "how far the last batch was behind its sources, in units of their offsets"),
    "watermark_behind_seconds": ("gauge", "seconds from the watermark to now"),
    "state_rows": ("gauge", "rows that aggregates and joins keep"),
    "state_bytes": ("gauge", "memory that aggregates and joins use"),
}

Sample = tuple[str, dict[str, str], float]  # a metric's name, labels, the value


def prometheus_text(queries: Iterable[QueryRecord], now: datetime | None = None) -> str:
    """The queries that run, in Prometheus' text format: all samples of a metric in one block.

    Of a name only the latest run counts: Spark tells of a start at once, of an end later.
    """
    now = now or datetime.now(UTC)
    running = {query.name: query for query in queries if query.state == "running"}
    samples = [sample for query in running.values() for sample in _samples(query, now)]
    return "".join(_block(name, samples) for name in METRICS)


def _samples(query: QueryRecord, now: datetime) -> Iterator[Sample]:
    labels = {"query": query.name}
    for total in ("batches_total", "rows_in_total", "late_rows_total"):
        yield total, labels, getattr(query, total)
    if query.rows_out_total is not None:  # a 0 from a sink that does not count would be a lie
        yield "rows_out_total", labels, query.rows_out_total
    if query.last is None:
        return
    for gauge in ("in_per_second", "done_per_second", "state_rows", "state_bytes"):
        yield gauge, labels, getattr(query.last, gauge)
    for phase, seconds in query.last.seconds.items():
        yield "phase_seconds", labels | {"phase": phase}, seconds
    if query.last.lag is not None:
        yield "lag", labels, query.last.lag
    behind = query.last.watermark_behind(now)
    if behind is not None:
        yield "watermark_behind_seconds", labels, behind


def _block(name: str, samples: list[Sample]) -> str:
    kind, what = METRICS[name]
    lines = [_line(*sample) for sample in samples if sample[0] == name]
    head = f"# HELP spark_query_{name} {what}\n# TYPE spark_query_{name} {kind}\n"
    return head + "".join(lines) if lines else ""


def _line(name: str, labels: dict[str, str], value: float) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"spark_query_{name}{{{told}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


# ---- The server --------------------------------------------------------------------------------


class MetricsServer:
    """Answers `GET /metrics` on loopback with what `text()` says, one client after the other."""

    def __init__(self, text: Callable[[], str], port: int) -> None:
        handler = type("Handler", (_Handler,), {"text": staticmethod(text)})
        self._server = HTTPServer((HOST, port), handler)
        self.url = f"http://{HOST}:{self._server.server_port}/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more, and let go of the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_SECONDS
    text: Callable[[], str]

    def do_GET(self) -> None:
        if self.path != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, explain="ask for /metrics")
            return
        body = self.text().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """A cell is no place for a line at each question."""
