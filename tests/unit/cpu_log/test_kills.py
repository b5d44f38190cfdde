"""`kill -9` at each point of the protocol: a real process, no Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cpu_log import committing
from tests.unit.cpu_log.committing import PARTITIONS, Log, lines_of
from tutorial_pkg.connectors.cpu_log import CRASH_AT
from tutorial_pkg.core.waiting import wait_until


@pytest.mark.parametrize("point", ["staging", "staged", "recorded", "half_applied", "applied"])
def test_kill_at_each_point_loses_nothing(tmp_path: Path, point: str) -> None:
    log, arrived = Log(tmp_path / "out"), tmp_path / "arrived"
    log.write(batches=1)
    command = [sys.executable, committing.__file__, str(log.path), "3"]
    environment = {**os.environ, CRASH_AT: f"{point}@{arrived}"}
    with subprocess.Popen(command, env=environment) as writer:
        wait_until(arrived.exists, 60, f"the writer's arrival at {point!r}")
        before = log.visible()
        writer.kill()
    log.write(batches=3)
    after = log.visible()
    assert after == {
        str(partition): "".join("".join(lines_of(batch, partition)) for batch in range(3))
        for partition in range(PARTITIONS)
    }
    assert log.orphans() == []
    assert all(after[name].startswith(text) for name, text in before.items()), "taken back"
