"""Real servers for a lesson: on loopback only, restarted with their data, gone with their owner."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.unit.kit.test_query_process import gone
from workbook import services
from workbook.services import ServerProcess, start_kafka, start_nats, start_postgres

Start = Callable[[Path], ServerProcess]


@pytest.mark.parametrize("start", [start_postgres, start_nats, start_kafka])
def test_server_restarts_and_ends(database_folder: Path, start: Start) -> None:
    with start(database_folder) as server:
        uri, pid = server.uri, server.pid
        places = psutil.Process(pid).net_connections("inet")
        assert {place.laddr.ip for place in places} <= {"127.0.0.1"}
        server.kill()
        assert gone(pid)
        server.restart()
        pid = server.pid
        assert server.uri == uri
    assert gone(pid)
    server.close()


def test_port_is_given_to_one_server(monkeypatch: pytest.MonkeyPatch) -> None:
    first, draw = services._free_port(), random.randint
    drawn = [first]
    monkeypatch.setattr(random, "randint", lambda *limits: drawn.pop() if drawn else draw(*limits))
    assert services._free_port() != first
    assert drawn == []


def test_server_ends_with_its_owner(database_folder: Path) -> None:
    code = (
        "import time; from pathlib import Path; from workbook.services import start_nats; "
        f"print(start_nats(Path({str(database_folder)!r})).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: gone(pid), 60, "the end of the server")


def test_missing_server_says_what_to_install() -> None:
    with pytest.raises(FileNotFoundError, match="pip install no-such-server"):
        services._program("no-such-server", "/bin/server")
