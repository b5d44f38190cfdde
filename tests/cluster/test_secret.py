"""Only who knows the cluster's secret can use it, and other users cannot learn it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.spare_driver import SECONDS
from tutorial_pkg.core.waiting import wait_until
from tutorial_pkg.processes.cluster import Cluster
from tutorial_pkg.processes.query_process import QueryProcess

SESSION = """
import sys
from tutorial_pkg import start_spark
start_spark("uninvited", **{"spark.master": sys.argv[1]})
"""
REFUSED = "Expected SaslMessage"  # what Spark's master says of a client without the secret


@pytest.fixture
def uninvited(cluster: Cluster, tmp_path: Path) -> Iterator[QueryProcess]:
    script = tmp_path / "uninvited.py"
    script.write_text(SESSION)
    with QueryProcess(script, cluster.url, output=tmp_path / "uninvited.log") as session:
        yield session


def test_a_session_without_the_secret_is_refused(cluster: Cluster, uninvited: QueryProcess) -> None:
    log = cluster.folder / "master.log"
    wait_until(lambda: REFUSED in log.read_text(errors="replace"), SECONDS, "a refusal")
    with urllib.request.urlopen(f"{cluster.ui}/json/") as answer:
        state = json.load(answer)
    names = {app["name"] for app in state["activeapps"] + state["completedapps"]}
    assert "uninvited" not in names


def test_the_secret_is_in_a_private_file_and_on_no_command_line(cluster: Cluster) -> None:
    file = cluster.conf / "spark-defaults.conf"
    assert file.stat().st_mode & 0o777 == 0o600
    assert cluster.conf.stat().st_mode & 0o777 == 0o700
    secret = cluster.settings["spark.authenticate.secret"]
    assert secret in file.read_text()
    running = psutil.process_iter(["cmdline"])
    assert not [p.pid for p in running if secret in " ".join(p.info["cmdline"] or [])]
