"""What senders were told, beside what readers see, of a query that makes lines a CPU log."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.network_queries import HOST
from tutorial_pkg import send_lines


def items_in(log: Path) -> Counter[str]:
    """The items that readers of a CPU log see."""
    lines = [line for file in log.glob("data.*.csv") for line in file.read_text().splitlines()]
    return Counter(line.split(",", 2)[2] for line in lines if line.count(",") >= 2)


class LogAccount:
    """Sends lines to `port` and compares those that were confirmed with the items in `log`."""

    def __init__(self, log: Path, port: int) -> None:
        self._log, self._port = log, port
        self.confirmed: list[str] = []

    def send(self, count: int) -> bool:
        """Lines of new names each time: of those that nobody confirmed, nobody knows."""
        lines = [f"{time.monotonic_ns()}-{number}" for number in range(count)]
        with suppress(ConnectionError):
            send_lines(HOST, self._port, lines)
            self.confirmed += lines
            return True
        return False

    def is_complete(self) -> bool:
        return set(self.confirmed) <= items_in(self._log).keys()

    def check(self) -> None:
        assert self.is_complete(), "confirmed, and lost"
        assert set(items_in(self._log).values()) == {1}, "there twice"

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Send lines, up to 20 at once, on a thread until the end of the block, or a refusal."""
        stopping = threading.Event()

        def run() -> None:
            while self.send(random.randint(1, 20)) and not stopping.wait(0.05):
                pass

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()
