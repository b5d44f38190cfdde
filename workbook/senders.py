"""Lines for a port in the background, free ports, commands and workers to kill."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from IPython.display import DisplayHandle

import tutorial_pkg
from spark_connector_tests.query_process import QueryProcess, wait_until
from tutorial_pkg import last_error, send_lines
from tutorial_pkg.core.ports import LOOPBACK as HOST
from tutorial_pkg.core.ports import is_free
from workbook.services import Guard

FIRST_PORT = 11000
LAST_PORT = 32_000  # the system takes higher ports for its own clients
REDRAW_SECONDS = 0.2

# UDP ports that tell other processes which TCP ports are meant for this one.
_reservations: dict[int, socket.socket] = {}


def free_ports(count: int = 1) -> int:
    """Return the first of `count` consecutive free ports, 11000 if possible.

    They stay reserved as long as this process lives, so that two notebooks that run at the same
    time never send to each other's queries. Raises `OSError` when there are none.
    """
    for first in range(FIRST_PORT, LAST_PORT - count, count):
        if all(_reserve(port) and is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} consecutive free ports from {FIRST_PORT} to {LAST_PORT}")


def _reserve(port: int) -> bool:
    """Hold the UDP port of the same number until the process ends."""
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

    Raises `TimeoutError`, or `RuntimeError` if the `query` that should listen has ended.
    """

    def listens() -> bool:
        if is_free(port) and query is not None and not query.isActive:
            raise RuntimeError(f"the query ended before it listened: {last_error(query)}")
        return not is_free(port)

    wait_until(listens, seconds, f"a listener on port {port}")


def play(lines: Path | Sequence[str | bytes], port: int, rate: float | None = None) -> Sending:
    """Send the lines of a file or a list to `port` in the background.

    `rate` is in lines per second; None is as fast as the receiver takes them.
    """
    if isinstance(lines, Path):
        with open(lines, "rb") as file:
            lines = list(file)
    return Sending(lines, port, rate)


class Sending:
    """Lines on their way to a port, with a bar in the cell that shows how many are sent."""

    def __init__(self, lines: Sequence[str | bytes], port: int, rate: float | None) -> None:
        self._lines, self._sent, self._handle = lines, 0, DisplayHandle()
        self._handle.display(self)
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._threads = [
            threading.Thread(target=self._send, args=(port, rate), daemon=True),
            threading.Thread(target=self._draw, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> int:
        """Wait until the receiver has all lines, and return their number.

        Raises the error of `send_lines`.
        """
        for thread in self._threads:
            thread.join()
        if self._error:
            raise self._error
        return len(self._lines)

    def _send(self, port: int, rate: float | None) -> None:
        try:
            send_lines(HOST, port, self._counted(), rate)
        except Exception as error:  # for join(), which raises it
            self._error = error
        finally:
            self._ended.set()

    def _counted(self) -> Iterator[str | bytes]:
        for number, line in enumerate(self._lines, start=1):
            self._sent = number
            yield line

    def _draw(self) -> None:
        while not self._ended.wait(REDRAW_SECONDS):  # drawing must not slow the sender
            self._handle.update(self)
        self._handle.update(self)

    def __repr__(self) -> str:
        return f"{self._sent} of {len(self._lines)} lines sent"

    def _repr_html_(self) -> str:
        return f'<progress value="{self._sent}" max="{len(self._lines)}"></progress> {self!r}'


class Command(QueryProcess):
    """`python -m tutorial_pkg WORDS` in a process to kill; it ends with this one.

    `output` collects what the command prints. `again()` starts it once more.
    """

    def __init__(self, *words: object, output: Path) -> None:
        super().__init__(
            Path(tutorial_pkg.__file__).with_name("__main__.py"), *words, output=output
        )
        self._words = words
        self._guard = Guard(self.pid, signal.SIGKILL)

    def again(self) -> Command:
        self.close()
        return Command(*self._words, output=self.output)

    def close(self) -> None:
        self._guard.release()
        super().close()


def kill_a_worker(driver: QueryProcess) -> None:
    """`kill -9` a Python worker that runs tasks of the driver's queries, if there is one now.

    Spark's other daemons fork what plans and commits, which no retry of a task replaces.
    """
    for process in psutil.Process(driver.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            runs_tasks = process.cmdline()[-2:] == ["pyspark.daemon", "pyspark.worker"]
            if runs_tasks and not process.children():
                process.kill()
                return
