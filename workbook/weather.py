"""A weather service over HTTP, on loopback: pages, ETags, busy responses, and alarms.

    GET /STATION/readings?from=N  {"readings": [{"id": "STATION-N", "degrees": 8.5}, …], "next": M}
    POST /STATION/alarms          a text; with an Idempotency-Key, the same one counts once

A page has at most 100 readings; the next page begins at M. Past the end the page is empty and M is
N. Every page has an ETag: with If-None-Match, the response to an unchanged page is 304, without a
body. A busy service responds with 503, or with 429 and the seconds in Retry-After.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tutorial_pkg.core.ports import LOOPBACK
from workbook.plots import BLUE, ORANGE, RED, chart, picture

PAGE = 100  # readings
LONGEST_ALARM = 10_000  # bytes
IDLE_SECONDS = 30  # of a connection without a request
POLL = 0.05  # seconds until `close` has an effect


class Answered(NamedTuple):
    """A request and the status and size of its response."""

    at: float
    method: str
    path: str
    status: int
    size: int


class Weather:
    """The service at `url`, in a thread of this process, until `close`."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self.requests: list[Answered] = []
        self._readings: dict[str, list[float]] = defaultdict(list)
        self._alarms: dict[str, list[str]] = defaultdict(list)
        self._keys: dict[str, set[str]] = defaultdict(set)
        self._moods: deque[tuple[int, float | None]] = deque()
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"service": self})
        self._server = ThreadingHTTPServer((LOOPBACK, 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=[POLL], daemon=True).start()
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"

    def measure(self, station: str, degrees: Iterable[float]) -> None:
        """Add readings of a station."""
        with self._lock:
            self._readings[station].extend(degrees)

    def busy(self, times: int, status: int = 503, retry_after: float | None = None) -> None:
        """Refuse the next `times` requests with `status`."""
        with self._lock:
            self._moods.extend([(status, retry_after)] * times)

    def alarms(self, station: str) -> list[str]:
        """Return the alarms, without repetitions of a key."""
        with self._lock:
            return list(self._alarms[station])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def mood(self) -> tuple[int, float | None] | None:
        """Return how to refuse the next request, or None."""
        with self._lock:
            return self._moods.popleft() if self._moods else None

    def page(self, station: str, first: int) -> dict[str, Any]:
        with self._lock:
            degrees = self._readings[station][first : first + self._page]
        readings = [
            {"id": f"{station}-{number}", "degrees": one}
            for number, one in enumerate(degrees, start=first)
        ]
        return {"readings": readings, "next": first + len(readings)}

    def alarm(self, station: str, text: str, key: str | None) -> bool:
        """Add an alarm; return whether it is new, which the key of an earlier one is not."""
        with self._lock:
            if key is not None and key in self._keys[station]:
                return False
            self._keys[station] |= {key} if key is not None else set()
            self._alarms[station].append(text)
            return True


def draw_requests(requests: Sequence[Answered]) -> None:
    """Plot one tick for each request: the status of its response over time."""
    figure, axes = chart("seconds since the first request", "", height=2)
    labels = {200: "200: a page", 429: "429: wait a second", 503: "503: busy"}
    for status, color in zip(labels, (BLUE, ORANGE, RED), strict=True):
        times = [one.at - requests[0].at for one in requests if one.status == status]
        axes.plot(times, [labels[status]] * len(times), "|", color=color, ms=24, mew=2)
    axes.margins(y=0.3)
    picture(
        figure, alt="Ticks for requests: a 503, a second later a 429, a second later all pages."
    )


class _Handler(BaseHTTPRequestHandler):
    service: Weather
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        station, _, what = asked.path.strip("/").partition("/")
        first = parse_qs(asked.query).get("from", ["0"])[0]
        if self._refused():
            return
        if what != "readings" or not first.isdecimal():
            self._answer(HTTPStatus.NOT_FOUND, {"error": "GET /STATION/readings?from=N"})
            return
        page = self.service.page(station, int(first))
        etag = f'"{station}-{first}-{page["next"]}"'
        if self.headers["If-None-Match"] == etag:
            self._answer(HTTPStatus.NOT_MODIFIED, None, {"ETag": etag})
        else:
            self._answer(HTTPStatus.OK, page, {"ETag": etag})

    def do_POST(self) -> None:
        station, _, what = self.path.strip("/").partition("/")
        size = self.headers["Content-Length"] or ""
        if what != "alarms" or not size.isdecimal() or int(size) > LONGEST_ALARM:
            self.close_connection = True  # its body stays unread
            self._answer(HTTPStatus.BAD_REQUEST, {"error": "POST /STATION/alarms, a short text"})
            return
        text = self.rfile.read(int(size)).decode(errors="replace")
        if self._refused():
            return
        new = self.service.alarm(station, text, self.headers["Idempotency-Key"])
        self._answer(HTTPStatus.CREATED if new else HTTPStatus.OK, {"new": new})

    def _refused(self) -> bool:
        mood = self.service.mood()
        if mood:
            status, seconds = mood
            later = {} if seconds is None else {"Retry-After": str(math.ceil(seconds))}
            self._answer(status, {"error": "busy"}, later)
        return mood is not None

    def _answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.service.requests.append(
            Answered(time.monotonic(), self.command, self.path, int(status), len(body))
        )
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: `requests` has everything."""
