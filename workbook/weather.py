"""A weather service over HTTP, on loopback: pages, busy responses, and alarms.

    GET /STATION/readings?from=N  {"readings": [{"id": "STATION-N", "degrees": 8.5}, …], "next": M}
    POST /STATION/alarms          a text; with an Idempotency-Key, the same one counts once

A page has at most 100 readings; the next page begins at M. Past the end the page is empty and M is
N. A busy service responds with 503, or with 429 and the seconds in Retry-After.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tutorial_pkg.core.places import LOOPBACK
from workbook.plots import BLUE, ORANGE, RED, chart, picture


class Weather:
    """The service at `url`, in a thread of this process, until `close`."""

    def __init__(self, page: int = 100) -> None:
        self.page = page
        self.requests: list[tuple[float, int]] = []  # the time and the status of each response
        self.readings: dict[str, list[float]] = defaultdict(list)
        self.alarms_by_key: dict[str, dict[object, str]] = defaultdict(dict)
        self.refusals: deque[tuple[int, int | None]] = deque()
        handler = type("Handler", (_Handler,), {"service": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True).start()
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"

    def measure(self, station: str, degrees: Iterable[float]) -> None:
        """Add readings of a station."""
        self.readings[station].extend(degrees)

    def busy(self, times: int, status: int, retry_after: int | None = None) -> None:
        """Refuse the next `times` requests with `status`."""
        self.refusals.extend([(status, retry_after)] * times)

    def alarms(self, station: str) -> list[str]:
        """Return the alarms, without repetitions of a key."""
        return list(self.alarms_by_key[station].values())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def draw_requests(requests: Sequence[tuple[float, int]]) -> None:
    """Plot one tick for each request: the status of its response over time."""
    figure, axes = chart("seconds since the first request", "", height=2)
    labels = {200: "200: a page", 429: "429: wait a second", 503: "503: busy"}
    for status, color in zip(labels, (BLUE, ORANGE, RED), strict=True):
        times = [at - requests[0][0] for at, answer in requests if answer == status]
        axes.plot(times, [labels[status]] * len(times), "|", color=color, ms=24, mew=2)
    axes.margins(y=0.3)
    alt = "Ticks for requests: a 503, later a 429, then the first page, then the rest."
    picture(figure, alt)


class _Handler(BaseHTTPRequestHandler):
    service: Weather

    def do_GET(self) -> None:
        if match := self._match(r"/([^/]+)/readings\?from=(\d+)"):
            station, start = match[1], int(match[2])
            degrees = self.service.readings[station][start : start + self.service.page]
            readings = [
                {"id": f"{station}-{number}", "degrees": one}
                for number, one in enumerate(degrees, start)
            ]
            self._respond(200, {"readings": readings, "next": start + len(readings)})

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if match := self._match(r"/([^/]+)/alarms"):
            alarms = self.service.alarms_by_key[match[1]]
            key = self.headers["Idempotency-Key"] or object()
            is_new = key not in alarms
            alarms.setdefault(key, text)
            self._respond(201 if is_new else 200, {"new": is_new})

    def _match(self, pattern: str) -> re.Match[str] | None:
        """Match the path, or respond that it is wrong, or that the service is busy."""
        match = re.fullmatch(pattern, self.path)
        if self.service.refusals:
            status, retry_after = self.service.refusals.popleft()
            self._respond(status, {"error": "busy"}, retry_after)
        elif match:
            return match
        else:
            self._respond(404, {"error": "expected /STATION/readings?from=N or /STATION/alarms"})
        return None

    def _respond(self, status: int, content: Any, retry_after: int | None = None) -> None:
        self.service.requests.append((time.monotonic(), status))
        self.send_response(status)
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: object) -> None:
        """Print nothing: `requests` has everything."""
