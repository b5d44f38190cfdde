"""The snapshots of all instances: where each of them stood, whatever the process died of.

While a source runs, every frame carries its instance's newest snapshot. A start adds what frames
cannot tell: before any instance fills, the snapshots of *all* of them, freshly restored, go into
one file, with the positions that the logs have then. So a restart finds each instance's last frame
behind that position, or else the snapshot in the file; never one of an earlier number of instances.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tutorial_pkg.builder.frames import head_of
from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import LogDamagedError, last_frame

_FILE = "snapshots.json"


def last_snapshots(logs: LogGroup) -> list[Any]:
    """The newest snapshot of each instance of the last run, by its index; none at first.

    Raises `LogDamagedError`, also where the file is gone and the logs show that there was one.
    """
    file = logs.directory / _FILE
    if not file.is_file():
        _check_never_there(logs)
        return []
    started = json.loads(file.read_text())
    pairs = zip(started["snapshots"], started["positions"], strict=True)
    return [_newest(logs, index, at, first) for index, (first, at) in enumerate(pairs)]


def _check_never_there(logs: LogGroup) -> None:
    """A source that had no snapshot before has frames without one."""
    found = (last_frame(logs.of(n), log.first, log.end) for n, log in logs.writers.items())
    heads = [head_of(frame[1]) for frame in found if frame]
    if heads and all("snapshot" in head for head in heads):
        raise LogDamagedError(
            f"{logs.directory / _FILE} is gone, which says where the source stands: without it "
            "rows would come again. Put it back, or start anew with a new log and checkpoint"
        )


def save_snapshots(logs: LogGroup, snapshots: Sequence[Any]) -> None:
    """Record on disk where all instances stand. Raises `OSError`."""
    ends = logs.sync().positions
    positions = [ends[index] for index in range(len(snapshots))]
    started = {"snapshots": list(snapshots), "positions": positions}
    replace_file(logs.directory / _FILE, json.dumps(started))


def forget_snapshots(directory: Path) -> None:
    """For a source that has none any more: an old one must not come back later."""
    (directory / _FILE).unlink(missing_ok=True)


def _newest(logs: LogGroup, index: int, position: int, first: Any) -> Any:
    found = last_frame(logs.of(index), position, logs.writers[index].end)
    return head_of(found[1])["snapshot"] if found else first
