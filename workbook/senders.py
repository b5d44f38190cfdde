"""Send lines to a port while the notebook goes on, with a bar in the cell that shows how far."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from IPython.display import DisplayHandle

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.core.errors import last_error
from tutorial_pkg.core.ports import is_free

HOST = "127.0.0.1"
USUAL_PORT = 11000
LAST_PORT = 32_000  # above, the system takes ports for its own clients
REDRAW_SECONDS = 0.2


# The UDP ports that say to other processes which TCP ports are meant for this one.
_reservations: dict[int, socket.socket] = {}


def free_ports(count: int = 1) -> int:
    """The first of `count` consecutive free ports, 11000 if possible.

    They stay reserved for this process as long as it lives, so that two notebooks that run at the
    same time never send to each other's queries. Raises `OSError` when there are none.
    """
    for first in range(USUAL_PORT, LAST_PORT - count, count):
        if all(_reserve(port) and is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} consecutive free ports from {USUAL_PORT} to {LAST_PORT}")


def _reserve(port: int) -> bool:
    """Hold the UDP port of the same number: nobody needs it, and it is let go with the process."""
    if port not in _reservations:
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((HOST, port))
        except OSError:
            holder.close()
            return False
        _reservations[port] = holder
    return True


def wait_for_listener(port: int, query: Any = None, seconds: float = 60) -> None:
    """Wait until something listens on `port`, without connecting to it.

    Raises `TimeoutError`, or `RuntimeError` when `query`, which was to listen, has ended.
    """

    def listens() -> bool:
        if is_free(port) and query is not None and not query.isActive:
            raise RuntimeError(f"the query ended before it listened: {last_error(query)}")
        return not is_free(port)

    wait_until(listens, seconds, f"somebody listening on port {port}")


def play(lines: Path | Sequence[str | bytes], port: int, rate: float | None = None) -> Sending:
    """Send a file's lines, or `lines`, to `port` in the background, as if they happened now.

    `rate` is in lines per second; None is as fast as the receiver takes them.
    """
    if isinstance(lines, Path):
        with open(lines, "rb") as file:
            lines = list(file)
    return Sending(lines, port, rate)


class Sending:
    """Lines on their way to a port, in a thread of their own."""

    def __init__(self, lines: Sequence[str | bytes], port: int, rate: float | None) -> None:
        self._lines = lines
        self._bar = Bar(len(lines))
        self._handle = DisplayHandle()
        self._handle.display(self._bar)
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._sender = threading.Thread(target=self._send, args=(port, rate), daemon=True)
        self._drawer = threading.Thread(target=self._draw, daemon=True)
        self._sender.start()
        self._drawer.start()

    def join(self) -> int:
        """Wait until the receiver has all lines, and return their number.

        Raises what sending raised: see `send_lines`.
        """
        self._sender.join()
        self._drawer.join()
        if self._failure:
            raise self._failure
        return len(self._lines)

    def _send(self, port: int, rate: float | None) -> None:
        try:
            send_lines(HOST, port, self._counted(), rate)
        except Exception as failure:  # for join(), which raises it
            self._failure = failure
        finally:
            self._ended.set()

    def _counted(self) -> Iterator[str | bytes]:
        for number, line in enumerate(self._lines, start=1):
            self._bar.sent = number
            yield line

    def _draw(self) -> None:
        """Update the bar now and then; drawing must not slow the sender."""
        while not self._ended.wait(REDRAW_SECONDS):
            self._handle.update(self._bar)
        self._handle.update(self._bar)


class Bar:
    """How many of `total` lines are `sent`, as a notebook shows it."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.sent = 0

    def __repr__(self) -> str:
        return f"{self.sent} of {self.total} lines sent"

    def _repr_html_(self) -> str:
        return f'<progress value="{self.sent}" max="{self.total}"></progress> {self!r}'
