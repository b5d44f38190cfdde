"""A server of server-sent events, which resends what follows `Last-Event-ID`."""

from __future__ import annotations

from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread


class EventServer(ThreadingHTTPServer):
    """Keeps the numbers that are added, and pushes each to all clients at `url`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Events)
        self.numbers: list[int] = []
        self.added = Condition()
        self.url = f"http://127.0.0.1:{self.server_port}/"
        Thread(target=self.serve_forever, daemon=True).start()

    def add(self, numbers: Iterable[int]) -> None:
        with self.added:
            self.numbers += numbers
            self.added.notify_all()

    def after(self, place: int) -> list[int]:
        """Return the numbers from `place` on; none if a second passes without."""
        with self.added:
            self.added.wait_for(lambda: len(self.numbers) > place, 1)
            return self.numbers[place:]

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class Events(BaseHTTPRequestHandler):
    server: EventServer

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        place = int(self.headers.get("Last-Event-ID", -1)) + 1
        while True:
            new = self.server.after(place)
            events = "".join(f"id: {place + i}\ndata: {n}\n\n" for i, n in enumerate(new))
            self.wfile.write(events.encode() or b": quiet\n\n")
            place += len(new)

    def log_message(self, *_: object) -> None:
        pass
