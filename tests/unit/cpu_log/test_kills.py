"""`kill -9` at each point of the protocol, and at random: real processes, no Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.soak import few_or_many
from tests.unit.cpu_log.committing import Log
from tutorial_pkg.connectors.cpu_log.crash_point import CRASH_AT
from tutorial_pkg.core.waiting import wait_until

PARTITIONS, LINES = 3, 2000
WRITER = f"""
import os, sys
from pathlib import Path
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import Owner

directory, done = PublishedDirectory(sys.argv[1]), Path(sys.argv[2])
owner = Owner("query-a", sys.argv[3], os.uname().nodename, 1, 0.5)
batch = int(done.read_text()) + 1 if done.exists() else 0
while batch < int(sys.argv[4]):
    reports = []
    for partition in range({PARTITIONS}):
        stage = directory.stage("query-a", partition)
        for line in range({LINES}):
            stage.write(memoryview(f"{{batch}}-{{partition}}-{{line}}\\n".encode()))
        reports += stage.finish()
    directory.commit(owner, batch, reports)
    draft = done.with_suffix(".draft")
    draft.write_text(str(batch))
    draft.replace(done)
    batch += 1
"""


def expected_files(batches: int) -> dict[str, str]:
    return {
        str(partition): "".join(
            f"{batch}-{partition}-{line}\n" for batch in range(batches) for line in range(LINES)
        )
        for partition in range(PARTITIONS)
    }


@pytest.fixture
def write_batches(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts a process that publishes numbered batches and notes each done, as Spark does."""
    started = []

    def start(run: int, batches: int, crash_at: str = "") -> subprocess.Popen:
        words = [tmp_path / "out", tmp_path / "done", f"run-{run}", batches]
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, *map(str, words)], env={**os.environ, CRASH_AT: crash_at}
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()


@pytest.mark.parametrize("point", ["staging", "staged", "recorded", "half_applied", "applied"])
def test_killed_at_any_point_every_line_is_there_once(
    tmp_path: Path, write_batches: Callable[..., subprocess.Popen], point: str
) -> None:
    assert write_batches(run=1, batches=1).wait(30) == 0
    marker = tmp_path / "arrived"
    killed = write_batches(run=2, batches=3, crash_at=f"{point}@{marker}")
    wait_until(marker.exists, 60, f"the drill's arrival at {point!r}")
    before = Log(tmp_path / "out").visible()
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    assert write_batches(run=3, batches=3).wait(30) == 0
    after = Log(tmp_path / "out").visible()
    assert after == expected_files(3)
    assert Log(tmp_path / "out").left() == []
    assert all(after[name].startswith(text) for name, text in before.items()), "taken back"


@few_or_many("kills", 5, 50)
def test_killed_at_random_every_line_is_there_once(
    tmp_path: Path, write_batches: Callable[..., subprocess.Popen], kills: int
) -> None:
    """A tailing reader looks on: what it has seen of a file is always the file's beginning."""
    moment = random.Random(20261121)
    seen: dict[str, str] = {}
    for run in range(kills):
        child = write_batches(run, batches=100_000)
        goal = _done(tmp_path) + moment.randrange(1, 4)
        wait_until(lambda goal=goal: _done(tmp_path) >= goal, 60, f"batch {goal}")
        _spin(moment.randrange(20_000))
        child.kill()
        child.wait()
        now = Log(tmp_path / "out").visible()
        assert all(now[name].startswith(text) for name, text in seen.items()), "taken back"
        seen = now
    batches = _done(tmp_path) + 2
    assert write_batches(kills, batches).wait(120) == 0
    assert Log(tmp_path / "out").visible() == expected_files(batches)


def _done(tmp_path: Path) -> int:
    done = tmp_path / "done"
    return int(done.read_text()) if done.exists() else -1


def _spin(turns: int) -> None:
    """Pass a random while, far shorter than a batch, without asking a clock to sleep."""
    for _ in range(turns):
        pass
