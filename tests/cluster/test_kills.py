"""Workers and drivers of a cluster die at random moments: every line is published once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from spark_connector_tests.query_process import wait_until
from tests.faults import network_to_log_driver
from tests.faults.log_account import LogAccount
from tests.faults.spare_driver import SECONDS, SpareDriver
from tutorial_pkg import network_status
from workbook.cluster import Cluster

DRIVER = Path(network_to_log_driver.__file__)
CHANCE = random.Random(20261122)
LINES = 400


class Service:
    """A query on the cluster that can lose its workers and its driver."""

    def __init__(self, cluster: Cluster, folder: Path, port: int) -> None:
        self._cluster, self._folder, self._port = cluster, folder, port
        self._started = 0
        self._start()

    def kill_worker(self) -> None:
        self._cluster.kill_worker(CHANCE.choice(self._cluster.workers))
        self._cluster.add_worker()

    def kill_driver(self) -> None:
        self.driver.kill()
        self.close()
        self._start()

    def close(self) -> None:
        self.driver.close()

    def staged(self) -> list[Path]:
        return list((self._folder / "out" / "_cpu_log" / "staged").iterdir())

    def is_in_a_batch(self) -> bool:
        planned, done = (
            {file.name for file in (self._folder / "checkpoint" / notes).iterdir()}
            for notes in ("offsets", "commits")
        )
        return bool(planned - done)

    def _start(self) -> None:
        self._started += 1
        settings = (f"spark.master={self._cluster.url}", "spark.executor.memory=512m")
        words = (self._folder / f"driver-{self._started}", self._folder, self._port, *settings)
        self.driver = SpareDriver(DRIVER, *words, SPARK_CONF_DIR=str(self._cluster.conf))
        self.driver.go()
        wait_until(self._listens, SECONDS, "a driver that listens")

    def _listens(self) -> bool:
        assert self.driver.running, self.driver.output.read_text()
        status = network_status(self._folder / "log")
        return status.listening and status.process is not None


ROUNDS = 4


@pytest.mark.soak  # in every run notebook 19 loses a worker, and the fault tests kill drivers
def test_kills_lose_no_confirmed_line(
    cluster: Cluster, tmp_path: Path, free_ports: Callable[[int], int]
) -> None:
    port = free_ports(1)
    service, account = Service(cluster, tmp_path, port), LogAccount(tmp_path / "out", port)
    with closing(service):
        kills = [service.kill_worker, service.kill_driver] * ROUNDS
        CHANCE.shuffle(kills)
        for kill in kills:
            account.send(LINES)
            time.sleep(CHANCE.uniform(0, 1))  # somewhere in a batch, or between two
            kill()
            account.send(LINES)
        account.send(LINES)
        wait_until(account.is_complete, SECONDS, "all lines in the log")
        assert len(account.confirmed) >= LINES * (len(kills) + 1)
        wait_until(lambda: not service.staged(), SECONDS, "a stage without orphans")
        account.check()


@pytest.mark.soak
def test_query_outlives_the_master(tmp_path: Path, free_ports: Callable[[int], int]) -> None:
    port = free_ports(1)
    with Cluster(tmp_path / "cluster") as cluster:
        service, account = Service(cluster, tmp_path, port), LogAccount(tmp_path / "out", port)
        with closing(service):
            published = partial(wait_until, account.is_complete, SECONDS, "all lines in the log")
            account.send(LINES)
            published()
            for number in cluster.workers:
                cluster.kill_worker(number)
            account.send(LINES)
            wait_until(service.is_in_a_batch, SECONDS, "a batch without running tasks")
            assert not account.is_complete()
            cluster.add_worker()
            published()
            cluster.kill_master()
            account.send(LINES)
            published()
            account.check()
            assert "Traceback" not in service.driver.output.read_text(), "a query started again"
