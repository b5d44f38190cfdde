"""A query survives the death of all workers, and of the cluster's master."""

from __future__ import annotations

from collections.abc import Callable
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
LINES = 400


@pytest.mark.soak
def test_query_outlives_the_master(tmp_path: Path, free_ports: Callable[[int], int]) -> None:
    port = free_ports(1)
    account = LogAccount(tmp_path / "out", port)
    published = partial(wait_until, account.is_complete, SECONDS, "all lines in the log")

    def listens() -> bool:
        assert driver.running, driver.output.read_text()
        status = network_status(tmp_path / "log")
        return status.listening and status.process is not None

    def is_in_a_batch() -> bool:
        notes = (tmp_path / "checkpoint" / name for name in ("offsets", "commits"))
        planned, done = ({file.name for file in folder.iterdir()} for folder in notes)
        return bool(planned - done)

    with Cluster(tmp_path / "cluster") as cluster:
        settings = (f"spark.master={cluster.url}", "spark.executor.memory=512m")
        words = (tmp_path / "driver", tmp_path, port, *settings)
        with SpareDriver(DRIVER, *words, SPARK_CONF_DIR=str(cluster.conf)) as driver:
            driver.go()
            wait_until(listens, SECONDS, "a driver that listens")
            account.send(LINES)
            published()
            for number in cluster.workers:
                cluster.kill_worker(number)
            account.send(LINES)
            wait_until(is_in_a_batch, SECONDS, "a batch without running tasks")
            assert not account.is_complete()
            cluster.add_worker()
            published()
            cluster._master.close()
            account.send(LINES)
            published()
            account.check()
            assert "Traceback" not in driver.output.read_text(), "a query started again"
