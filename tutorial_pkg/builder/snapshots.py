"""The snapshots of all instances: the last position of each, also after a crash.

While a source runs, every frame contains the newest snapshot of its instance. A start writes a
file, before any instance adds rows: the snapshots of *all* restored instances, and the positions
of their logs. So after a restart, the snapshot of an instance is in the last frame after that
position, or else in the file. It never belongs to an earlier number of instances.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from tutorial_pkg.builder.frames import head_of
from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import LogDamagedError, last_frame


class Snapshots:
    """The snapshots of a run's `count` instances. They wait here for each other at the start.

    `saved` is set once the snapshots of all are on disk. A source without snapshots doesn't use it.
    """

    def __init__(self, logs: LogGroup, count: int, used: bool) -> None:
        self.saved = False
        self._logs = logs
        self._file = logs.directory / "snapshots.json"
        if not used:
            self._file.unlink(missing_ok=True)  # it would become outdated
        self._fresh: list[Any] = [None] * count
        self._barrier = threading.Barrier(count, action=self._save)

    def last(self) -> list[Any]:
        """Return the newest snapshot of each instance; none before the first run.

        Raises:
            LogDamagedError: The file is missing, although frames contain snapshots.
        """
        if not self._file.is_file():
            self._check_never_written()
            return []
        start = json.loads(self._file.read_text())
        pairs = zip(start["snapshots"], start["positions"], strict=True)
        return [
            self._newest(index, position, first) for index, (first, position) in enumerate(pairs)
        ]

    def save_with_others(self, index: int, snapshot: Any) -> None:
        """Return when the snapshots of all instances are on disk.

        Raises:
            BrokenBarrierError: Another instance has failed.
        """
        self._fresh[index] = snapshot
        self._barrier.wait()

    def abort(self) -> None:
        """Make the other instances stop waiting."""
        self._barrier.abort()

    def _save(self) -> None:
        ends = self._logs.sync().positions
        positions = [ends[index] for index in range(len(self._fresh))]
        content = {"snapshots": self._fresh, "positions": positions}
        replace_file(self._file, json.dumps(content))
        self.saved = True

    def _newest(self, index: int, position: int, first: Any) -> Any:
        frame = last_frame(self._logs.of(index), position, self._logs.writers[index].end)
        return head_of(frame[1])["snapshot"] if frame else first

    def _check_never_written(self) -> None:
        writers = self._logs.writers.items()
        frames = [last_frame(self._logs.of(number), log.first, log.end) for number, log in writers]
        heads = [head_of(frame[1]) for frame in frames if frame]
        if heads and all("snapshot" in head for head in heads):
            raise LogDamagedError(
                f"{self._file} is missing, so the source cannot resume without duplicating rows. "
                "Restore the file, or start with a new log and a new checkpoint"
            )
