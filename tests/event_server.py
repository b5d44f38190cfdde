"""A server of server-sent events, which resends what follows `Last-Event-ID`."""

from __future__ import annotations

import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class EventServer(ThreadingHTTPServer):
    """Pushes `numbers` to each client at `url`, also those that are added later."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Events)
        self.numbers: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}/"
        Thread(target=self.serve_forever, daemon=True).start()


class Events(BaseHTTPRequestHandler):
    server: EventServer

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        place = int(self.headers.get("Last-Event-ID", -1)) + 1
        with suppress(OSError):  # the client has gone
            while True:
                new = list(enumerate(self.server.numbers[place:], place))
                events = "".join(f"id: {at}\n: comment\ndata: {number}\n\n" for at, number in new)
                self.wfile.write(events.encode() or b": quiet\n\n")
                place += len(new)
                time.sleep(0.05)

    def log_message(self, *_: object) -> None:
        pass
