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
from tests.unit.cpu_log import writing
from tests.unit.cpu_log.committing import Log
from tests.unit.cpu_log.writing import LINES, PARTITIONS, last_done, write
from tutorial_pkg.connectors.cpu_log.crash_point import CRASH_AT
from tutorial_pkg.core.waiting import wait_until


def expected_files(batches: int) -> dict[str, str]:
    return {
        str(partition): "".join(
            f"{batch}-{partition}-{line}\n" for batch in range(batches) for line in range(LINES)
        )
        for partition in range(PARTITIONS)
    }


class Writer(subprocess.Popen):
    """One that is killed, at the latest when it leaves the `with` block."""

    def __init__(self, folder: Path, run: int, batches: int, crash_at: str = "") -> None:
        words = [writing.__file__, folder / "out", folder / "done", str(run), str(batches)]
        super().__init__([sys.executable, *words], env={**os.environ, CRASH_AT: crash_at})

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self.wait() == -signal.SIGKILL


@pytest.mark.parametrize("point", ["staging", "staged", "recorded", "half_applied", "applied"])
def test_killed_at_any_point_every_line_is_there_once(tmp_path: Path, point: str) -> None:
    log, done, arrived = Log(tmp_path / "out"), tmp_path / "done", tmp_path / "arrived"
    write(log.path, done, run=1, batches=1)
    with Writer(tmp_path, run=2, batches=3, crash_at=f"{point}@{arrived}"):
        wait_until(arrived.exists, 60, f"the drill's arrival at {point!r}")
        before = log.visible()
    write(log.path, done, run=3, batches=3)
    after = log.visible()
    assert after == expected_files(3)
    assert log.left() == []
    assert all(after[name].startswith(text) for name, text in before.items()), "taken back"


@few_or_many("kills", 3, 50)
def test_killed_at_random_every_line_is_there_once(tmp_path: Path, kills: int) -> None:
    """A tailing reader looks on: what it has seen of a file is always the file's beginning."""
    log, done, moment = Log(tmp_path / "out"), tmp_path / "done", random.Random(20261121)
    seen: dict[str, str] = {}
    for run in range(kills):
        with Writer(tmp_path, run, batches=100_000):
            goal = last_done(done) + moment.randrange(1, 4)
            wait_until(lambda goal=goal: last_done(done) >= goal, 60, f"batch {goal}")
            _spin(moment.randrange(20_000))
        now = log.visible()
        assert all(now[name].startswith(text) for name, text in seen.items()), "taken back"
        seen = now
    batches = last_done(done) + 2
    write(log.path, done, kills, batches)
    assert log.visible() == expected_files(batches)


def _spin(turns: int) -> None:
    """Pass a random while, far shorter than a batch, without asking a clock to sleep."""
    for _ in range(turns):
        pass
