"""What start_spark does beyond one machine, as far as one process can tell."""

from __future__ import annotations

import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import first_of_free_ports
from tutorial_pkg.core.worker import CORES, cores
from tutorial_pkg.session.cluster_start import (
    await_workers,
    check_master,
    note_cores,
    package_zip,
    ships,
)


def test_a_master_that_does_not_answer_is_named() -> None:
    port = first_of_free_ports()
    with pytest.raises(ConnectionError) as caught:
        check_master(f"spark://127.0.0.1:{port}")
    assert str(caught.value) == (
        f"no Spark master answers at 'spark://127.0.0.1:{port}' (Connection refused): start it, or "
        "correct `spark.master`; the address is on top of its web page"
    )


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = first_of_free_ports()
        check_master(f"spark://127.0.0.1:{dead},127.0.0.1:{server.getsockname()[1]}")
    check_master("yarn")  # finds its own way


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_master_at_an_address_of_ipv6_is_found() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        dead, port = first_of_free_ports(), server.getsockname()[1]
        check_master(f"spark://[::1]:{port}")
        check_master(f"spark://[::1]:{port},127.0.0.1:{dead}")
        check_master(f"spark://127.0.0.1:{dead},[::1]:{port}")
        with pytest.raises(ConnectionError, match="Connection refused"):
            check_master(f"spark://[::1]:{dead}")


@pytest.mark.parametrize(("setting", "meant"), [("true", True), ("False", False)])
def test_shipping_can_be_left_out(setting: str, meant: bool) -> None:
    assert ships(setting) is meant
    with pytest.raises(ValueError, match=r"`spark.tutorial_pkg.ship` must be true or false, got"):
        ships("no")


NOT_ON_WORKERS = "matplotlib IPython psycopg adbc_driver_postgresql confluent_kafka nats google"
IMPORTED = f"""
import sys
sys.modules |= dict.fromkeys("{NOT_ON_WORKERS}".split())
sys.path.insert(0, sys.argv[1])
import tutorial_pkg
print(tutorial_pkg.__file__)
"""


def test_the_package_can_be_imported_from_its_zip(tmp_path: Path) -> None:
    """With nothing but what the README wants on each machine."""
    archive = package_zip(tmp_path / "new")
    assert all(name.endswith(".py") for name in zipfile.ZipFile(archive).namelist())
    command = [sys.executable, "-c", IMPORTED, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"{archive}/tutorial_pkg/__init__.py", done.stderr


def test_work_is_cut_for_the_cores_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = SimpleNamespace(environment={}, defaultParallelism=64)
    note_cores(context)
    monkeypatch.setenv(CORES, context.environment[CORES])
    assert cores() == 64
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    for nothing in ("", "0", "many"):
        monkeypatch.setenv(CORES, nothing)
        assert cores() == 3


def context_of(stopped: bool, block_managers: int) -> Any:
    """As much of a session on a cluster as is asked; the driver is a block manager, too."""
    java = SimpleNamespace(
        isStopped=lambda: stopped,
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: block_managers),
    )
    return SimpleNamespace(
        master="spark://node1:7077",
        _jsc=SimpleNamespace(sc=lambda: java),
        getConf=lambda: {"spark.executor.memory": "4g"},
    )


def test_a_master_that_refuses_a_session_is_named() -> None:
    refused = (
        r"spark://node1:7077 has refused this .* secret, set `spark.authenticate` and `spark.au"
    )
    with pytest.raises(ConnectionError, match=refused):
        await_workers(context_of(stopped=True, block_managers=0), 0.1)


def test_a_cluster_without_workers_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    await_workers(context_of(stopped=False, block_managers=1), 0.1)
    assert capsys.readouterr().out == (
        "No worker of spark://node1:7077 has joined within 0.1 s; queries wait for one. It needs a "
        "free core and 4g (`spark.executor.memory`): see the master's web page\n"
    )
