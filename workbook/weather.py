"""A weather service over HTTP, on loopback: pages, busy responses, and alarms.

    GET /STATION/readings?from=N  {"readings": [{"id": "STATION-N", "degrees": 8.5}, …], "next": M}
    POST /STATION/alarms          a text; with an Idempotency-Key, the same one counts once

A page has at most 100 readings; the next page begins at M. Past the end the page is empty and M is
N. A busy service responds with 503, or with 429 and the seconds in Retry-After.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tutorial_pkg.core.places import LOOPBACK
from workbook.plots import BLUE, ORANGE, RED, chart, picture

PAGE = 100  # readings
POLL = 0.05  # seconds until `close` has an effect


class Answered(NamedTuple):
    """A request and the status of its response."""

    at: float
    path: str
    status: int


class Weather:
    """The service at `url`, in a thread of this process, until `close`."""

    def __init__(self, page: int = PAGE) -> None:
        self.requests: list[Answered] = []
        self.readings: dict[str, list[float]] = defaultdict(list)
        self.alarms_by_key: dict[str, dict[object, str]] = defaultdict(dict)
        self.refusals: deque[tuple[int, dict[str, str]]] = deque()
        self.most = page
        handler = type("Handler", (_Handler,), {"service": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        threading.Thread(target=self._server.serve_forever, args=[POLL], daemon=True).start()
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"

    def measure(self, station: str, degrees: Iterable[float]) -> None:
        """Add readings of a station."""
        self.readings[station].extend(degrees)

    def busy(self, times: int, status: int = 503, retry_after: int | None = None) -> None:
        """Refuse the next `times` requests with `status`."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.refusals.extend([(status, headers)] * times)

    def alarms(self, station: str) -> list[str]:
        """Return the alarms, without repetitions of a key."""
        return list(self.alarms_by_key[station].values())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def draw_requests(requests: Sequence[Answered]) -> None:
    """Plot one tick for each request: the status of its response over time."""
    figure, axes = chart("seconds since the first request", "", height=2)
    labels = {200: "200: a page", 429: "429: wait a second", 503: "503: busy"}
    for status, color in zip(labels, (BLUE, ORANGE, RED), strict=True):
        times = [one.at - requests[0].at for one in requests if one.status == status]
        axes.plot(times, [labels[status]] * len(times), "|", color=color, ms=24, mew=2)
    axes.margins(y=0.3)
    picture(
        figure, alt="Ticks for requests: a 503, later a 429, then the first page, then the rest."
    )


class _Handler(BaseHTTPRequestHandler):
    service: Weather
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        station, _, what = url.path.strip("/").partition("/")
        start = parse_qs(url.query).get("from", ["0"])[0]
        if self._refused():
            return
        if what != "readings" or not start.isdecimal():
            self._answer(404, {"error": "GET /STATION/readings?from=N"})
            return
        first = int(start)
        degrees = self.service.readings[station][first : first + self.service.most]
        readings = [
            {"id": f"{station}-{number}", "degrees": one}
            for number, one in enumerate(degrees, start=first)
        ]
        end = first + len(readings)
        self._answer(200, {"readings": readings, "next": end})

    def do_POST(self) -> None:
        station, _, what = self.path.strip("/").partition("/")
        text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode(errors="replace")
        if self._refused():
            return
        if what != "alarms":
            self._answer(404, {"error": "POST /STATION/alarms, a text"})
            return
        alarms = self.service.alarms_by_key[station]
        key = self.headers["Idempotency-Key"] or object()
        new = key not in alarms
        alarms.setdefault(key, text)
        self._answer(201 if new else 200, {"new": new})

    def _refused(self) -> bool:
        """Refuse the request if the service is busy."""
        if not self.service.refusals:
            return False
        status, headers = self.service.refusals.popleft()
        self._answer(status, {"error": "busy"}, headers)
        return True

    def _answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.service.requests.append(Answered(time.monotonic(), self.path, status))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: `requests` has everything."""
