"""Workers and drivers of a cluster die at random moments: every line is published once.

`TUTORIAL_PKG_WORKER_KILLS=10 TUTORIAL_PKG_DRIVER_KILLS=5` kills more.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.spare_driver import PROJECT, SECONDS
from tests.network_queries import HOST
from tutorial_pkg import network_status, send_lines
from tutorial_pkg.processes.cluster import Cluster
from tutorial_pkg.processes.query_process import QueryProcess, wait_until

DRIVER = Path(__file__).with_name("counting_driver.py")
WORKER_KILLS = int(os.environ.get("TUTORIAL_PKG_WORKER_KILLS", "2"))
DRIVER_KILLS = int(os.environ.get("TUTORIAL_PKG_DRIVER_KILLS", "1"))
CHANCE = random.Random(20261122)
LINES = 400


class Service:
    """A query on the cluster, and the account of what its senders were told."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self._cluster, self._folder, self._port = cluster, folder, port
        self.confirmed: list[str] = []
        self._start()

    def kill_worker(self) -> None:
        self._cluster.kill_worker(CHANCE.choice(self._cluster.workers))
        self._cluster.add_worker()

    def kill_driver(self) -> None:
        self.driver.kill()
        self.driver.close()
        self._start()

    def send(self) -> None:
        """Lines of new names each time: of those that nobody confirmed, nobody knows."""
        lines = [f"{time.monotonic_ns()}-{number}" for number in range(LINES)]
        with suppress(ConnectionError):
            send_lines(HOST, self._port, lines)
            self.confirmed += lines

    def published(self) -> Counter[str]:
        """The items that readers of the log see."""
        files = (self._folder / "out").glob("data.*.csv")
        lines = [line for file in files for line in file.read_text().splitlines()]
        return Counter(line.split(",", 2)[2] for line in lines if line.count(",") == 2)

    def is_complete(self) -> bool:
        return set(self.confirmed) <= self.published().keys()

    def staged(self) -> list[Path]:
        return list((self._folder / "out" / "_cpu_log" / "staged").iterdir())

    def _start(self) -> None:
        words, output = (self._cluster.url, self._folder, self._port), self._folder / "driver.log"
        env = {"PYTHONPATH": str(PROJECT), "SPARK_CONF_DIR": str(self._cluster.conf)}
        self.driver = QueryProcess(DRIVER, *words, output=output, env=env)
        wait_until(self._listens, SECONDS, "a driver that listens")

    def _listens(self) -> bool:
        assert self.driver.running, self.driver.output.read_text()
        status = network_status(self._folder / "log")
        return status.listening and status.process is not None


@pytest.fixture
def service(
    cluster: Cluster, tmp_path: Path, free_ports: Callable[[int], int]
) -> Iterator[Service]:
    running = Service(cluster, tmp_path, free_ports(1))
    yield running
    running.driver.close()


def test_whatever_dies_every_confirmed_line_is_published_once(service: Service) -> None:
    kills = [service.kill_worker] * WORKER_KILLS + [service.kill_driver] * DRIVER_KILLS
    CHANCE.shuffle(kills)
    for kill in kills:
        service.send()
        time.sleep(CHANCE.uniform(0, 1))  # somewhere in a batch, or between two
        kill()
        service.send()
    service.send()
    wait_until(service.is_complete, SECONDS, "all lines in the log")
    assert len(service.confirmed) >= LINES * (len(kills) + 1)
    wait_until(lambda: not service.staged(), SECONDS, "a stage without orphans")
    assert set(service.published().values()) == {1}, "there twice"
