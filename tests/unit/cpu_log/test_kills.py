"""`kill -9` at each point of the protocol, and at random: real processes, no Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak import few_or_many
from tests.unit.cpu_log import committing
from tests.unit.cpu_log.committing import LINES, PARTITIONS, Log, last_done, write
from tutorial_pkg.connectors.cpu_log import CRASH_AT
from tutorial_pkg.core.waiting import wait_until


def expected_files(batches: int) -> dict[str, str]:
    return {
        str(partition): "".join(
            f"{batch}-{partition}-{line}\n" for batch in range(batches) for line in range(LINES)
        )
        for partition in range(PARTITIONS)
    }


class Writer(subprocess.Popen):
    """A process that commits; it is killed at the end of the `with` block."""

    def __init__(self, folder: Path, batches: int, crash_at: str = "") -> None:
        words = [committing.__file__, folder / "out", folder / "done", str(batches)]
        super().__init__([sys.executable, *words], env={**os.environ, CRASH_AT: crash_at})

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.wait() == -signal.SIGKILL


@pytest.mark.parametrize("point", ["staging", "staged", "recorded", "half_applied", "applied"])
def test_kill_at_any_point_keeps_each_line_once(tmp_path: Path, point: str) -> None:
    log, done, arrived = Log(tmp_path / "out"), tmp_path / "done", tmp_path / "arrived"
    write(log.path, done, batches=1)
    with Writer(tmp_path, batches=3, crash_at=f"{point}@{arrived}"):
        wait_until(arrived.exists, 60, f"the writer's arrival at {point!r}")
        before = log.visible()
    write(log.path, done, batches=3)
    after = log.visible()
    assert after == expected_files(3)
    assert log.orphans() == []
    assert all(after[name].startswith(text) for name, text in before.items()), "taken back"


@few_or_many("kills", 3, 50)
def test_random_kills_keep_each_line_once(tmp_path: Path, kills: int) -> None:
    log, done, chance = Log(tmp_path / "out"), tmp_path / "done", random.Random(20261121)
    before: dict[str, str] = {}
    for _ in range(kills):
        with Writer(tmp_path, batches=100_000):
            goal = last_done(done) + chance.randrange(1, 4)
            wait_until(lambda goal=goal: last_done(done) >= goal, 60, f"batch {goal}")
            for _ in range(chance.randrange(20_000)):
                pass  # a random time that is far shorter than a batch
        now = log.visible()
        assert all(now[name].startswith(text) for name, text in before.items()), "taken back"
        before = now
    batches = last_done(done) + 2
    write(log.path, done, batches)
    assert log.visible() == expected_files(batches)
