"""A small HTTP proxy in front of a store: it refuses, delays, cuts off, or drops conditions."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import urlsplit

REFUSALS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "503": (503, {}, b"<Error><Code>SlowDown</Code></Error>"),
    "full": (507, {}, b"<Error><Code>InsufficientStorage</Code></Error>"),
    "expired": (400, {}, b"<Error><Code>ExpiredToken</Code></Error>"),  # as Amazon says it
    "archived": (403, {}, b"<Error><Code>InvalidObjectState</Code></Error>"),
}


class Trouble(BaseHTTPRequestHandler):
    """Calls `trouble` for each request; None means that the request passes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # it would hold an answer's body back for 40 ms
    target: ClassVar[str]
    trouble: ClassVar[Callable[[str, str], str | None]]
    seen: ClassVar[list[str]]

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        kind = type(self).trouble(self.command, self.path)
        self.seen.append(kind or "passed")
        if kind == "interrupted":  # in the middle of an upload
            self.rfile.read(length // 2)
            self.close_connection = True
            return None
        body = self.rfile.read(length)
        if kind in REFUSALS:
            return self._answer(*REFUSALS[kind])
        if kind == "slow":
            time.sleep(0.3)
        server = http.client.HTTPConnection(urlsplit(self.target).netloc)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        content = answer.read()
        if kind == "lost":  # the request succeeded, but its response is lost
            self.close_connection = True
            return None
        if kind == "cut":
            content = content[: len(content) // 2]
            self.close_connection = True
        if kind == "unconditional" and answer.status == 412:  # as if the condition were unknown
            return self._answer(200, {"ETag": '"1"'}, b"")
        return self._answer(answer.status, dict(answer.getheaders()), content)

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        own = {"Content-Length": str(len(content))} | headers
        for name, value in own.items():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def troubled(
    target: str, trouble: Callable[[str, str], str | None]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a proxy in front of `target`, and what happened to each request."""
    seen: list[str] = []
    attributes = {"target": target, "trouble": staticmethod(trouble), "seen": seen}
    handler = type("Handler", (Trouble,), attributes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
