"""start_spark beyond one machine, as far as one process can tell."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from tests.conftest import first_of_free_ports
from tutorial_pkg.core.worker import CORES, cores
from tutorial_pkg.session.cluster import (
    await_workers,
    check_master,
    describe_session,
    ships,
)


def test_silent_master_is_an_error() -> None:
    dead = first_of_free_ports()
    with pytest.raises(ConnectionError, match=f"'spark://127.0.0.1:{dead}'"):
        check_master(f"spark://127.0.0.1:{dead}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{dead},127.0.0.1:{server.getsockname()[1]}")
    check_master("yarn")


def test_shipping_can_be_switched_off() -> None:
    assert (ships("true"), ships("False")) == (True, False)
    with pytest.raises(ValueError, match=r"`spark.tutorial_pkg.ship`.*'no'"):
        ships("no")


def test_workers_know_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = SimpleNamespace(environment={}, defaultParallelism=64)
    describe_session(context)
    monkeypatch.setenv(CORES, context.environment[CORES])
    assert cores() == 64


def context_of(stopped: bool) -> Any:
    """Return as much of a session on a cluster without workers as `await_workers` needs."""
    java = SimpleNamespace(
        isStopped=lambda: stopped,
        getExecutorMemoryStatus=lambda: SimpleNamespace(size=lambda: 1),
    )
    return SimpleNamespace(
        stop=Mock(),
        master="spark://node1:7077",
        _jsc=SimpleNamespace(sc=lambda: java),
        getConf=lambda: {"spark.executor.memory": "4g", "spark.driver.host": "127.0.0.1"},
    )


def test_refused_session_names_the_secret() -> None:
    context = context_of(stopped=True)
    with pytest.raises(ConnectionError, match=r"`spark.authenticate.secret`"):
        await_workers(context, 0.1)
    context.stop.assert_called_once_with()  # so that the next `start_spark` starts a new one


def test_missing_workers_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    await_workers(context_of(stopped=False), 0.1)
    text = capsys.readouterr().out
    assert "No worker of spark://node1:7077 has joined" in text
    assert "reaches this driver at 127.0.0.1 (`spark.driver.host`)" in text
