"""Any single process of a running query is killed: it goes on or restarts, and nothing is locked.

A query is a family: the driver's Python, its JVM, the reader, the workers of tasks and commits, and
the daemons that fork them. `TUTORIAL_PKG_KILLS=20` makes it as long as it was when this was mended.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.network_queries import HOST
from tutorial_pkg import send_lines
from tutorial_pkg.processes.query_process import wait_for_end, wait_until

DRIVER = Path(__file__).with_name("network_to_log_driver.py")
KILLS = int(os.environ.get("TUTORIAL_PKG_KILLS", "1"))


class Service:
    """A driver that runs, and one whose Spark is up already, for when the first has died."""

    def __init__(self, directory: Path, port: int, cleanup: ExitStack) -> None:
        self._directory, self._port, self._cleanup = directory, port, cleanup
        self._started = 0
        self._seen: set[psutil.Process] = set()
        cleanup.callback(self._end)
        self._spare = self._start()
        self._take_over()

    def keep_up(self) -> None:
        """As whoever watches over a service does."""
        if not self._driver.running:
            self._take_over()

    def family(self) -> dict[str, list[psutil.Process]]:
        """The processes by what they are."""
        driver = psutil.Process(self._driver.pid)
        kinds = {"driver": [driver]}
        for process in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if kind := _kind(process):
                    kinds.setdefault(kind, []).append(process)
        self._seen.update(*kinds.values())
        return kinds

    def lines(self) -> Counter[str]:
        """The items that readers of the log see."""
        files = (self._directory / "out").glob("data.*.csv")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Counter(line.split(",", 2)[2] for line in lines if line.count(",") == 2)

    def _take_over(self) -> None:
        self._driver, self._spare = self._spare, self._start()
        self._driver.go()

    def _end(self) -> None:
        """What a killed process has left behind ends by itself, or here."""
        for process in wait_for_end(self._seen, 10):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _start(self) -> SpareDriver:
        self._started += 1
        path = self._directory / f"driver-{self._started}"
        driver = SpareDriver(DRIVER, path, self._directory, self._port)
        return self._cleanup.enter_context(driver)


def _kind(process: psutil.Process) -> str | None:
    words = process.cmdline()
    if process.name() == "java":
        return "JVM"
    if "pyspark.daemon" not in words:
        return None  # one of the JVM's errands, a `chmod`
    parent = process.parent()
    return f"{'daemon' if parent and parent.name() == 'java' else 'worker'} of {words[-1]}"


@pytest.fixture
def service(tmp_path: Path, free_ports: Callable[[int], int]) -> Iterator[tuple[Service, int]]:
    port = free_ports(1)
    with ExitStack() as cleanup:
        yield Service(tmp_path, port, cleanup), port


def test_whatever_is_killed_the_lines_go_on_and_come_once(service: tuple[Service, int]) -> None:
    running, port = service
    chance = random.Random(20261121)
    confirmed: list[str] = []

    def sent() -> bool:
        """Lines of new names each time: of those that nobody confirmed, nobody knows."""
        running.keep_up()
        lines = [f"{time.monotonic_ns()}-{number}" for number in range(20)]
        with suppress(ConnectionError):
            send_lines(HOST, port, lines)
            confirmed.extend(lines)
            return True
        return False

    def published() -> bool:
        running.keep_up()
        return set(confirmed) <= running.lines().keys()

    for _ in range(KILLS):
        wait_until(sent, SECONDS, "a port that takes lines")
        wait_until(published, SECONDS, "the lines in the log")
        wait_until(sent, SECONDS, "a port that takes lines")
        time.sleep(chance.uniform(0, 0.3))  # somewhere in the next batch
        kinds = running.family()
        kind = chance.choice(sorted(kinds))
        print("killed:", kind)
        with suppress(psutil.NoSuchProcess):
            chance.choice(kinds[kind]).kill()
    wait_until(sent, SECONDS, "a port that takes lines")
    wait_until(published, SECONDS, "the lines in the log")
    assert set(running.lines().values()) == {1}, "there twice"
