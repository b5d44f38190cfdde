"""What the tests of the commit protocol share: real files, no Spark."""

from __future__ import annotations

import errno
import os
from threading import Lock

import pytest

from tutorial_pkg.connectors.cpu_log import DATA_FILES, applying
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import Owner
from tutorial_pkg.connectors.cpu_log.record import Staged

HERE = os.uname().nodename
FIRST = Owner("query-a", "run-1", HERE, 1, 0.5)
OTHER = Owner("query-b", "run-2", HERE, 2, 0.5)
Texts = dict[int, str]


class Log(PublishedDirectory):
    """A directory with what a test does to it, and sees of it."""

    def staged(self, texts: Texts, query: str = FIRST.query) -> list[Staged]:
        """What tasks report that wrote these texts, by partition."""
        reports = []
        for partition, text in texts.items():
            stage = self.stage(query, partition)
            stage.write(text.encode())
            reports += stage.finish()
        return reports

    def add(
        self, batch: int | None, texts: Texts, owner: Owner = FIRST, plan: str | None = None
    ) -> bool:
        """Whether the batch was published."""
        return self.commit(owner, batch, self.staged(texts, owner.query), plan)

    def visible(self) -> dict[str, str]:
        """What readers see, by what the file's name says: the partition, or partition and part."""
        begin, end = DATA_FILES.split("*")
        files = sorted(self.path.glob(DATA_FILES))
        return {file.name.removeprefix(begin).removesuffix(end): file.read_text() for file in files}

    def left(self) -> list[str]:
        """The names of staged files."""
        return sorted(file.name for file in (self.path / "_cpu_log" / "staged").iterdir())

    def add_to_a_full_disk(self, texts: Texts, room: int) -> str:
        """Batch 1, which is recorded, but of whose bytes only `room` are copied; the error."""
        with pytest.MonkeyPatch.context() as patch, pytest.raises(OSError) as failed:
            patch.setattr(applying, "copy_some", FullDisk(room))
            self.add(1, texts)
        return str(failed.value)


class FullDisk:
    """The kernel's answer when a disk is full, after some of the bytes have gone in."""

    def __init__(self, room: int) -> None:
        self._room, self._copy, self._one_at_a_time = room, applying.copy_some, Lock()

    def __call__(self, reader: int, writer: int, count: int, source: int, target: int) -> int:
        with self._one_at_a_time:
            if not self._room:
                raise OSError(errno.ENOSPC, "No space left on device")
            copied = self._copy(reader, writer, min(count, self._room), source, target)
            self._room -= copied
            return copied
