"""What tasks write before any reader may see it: files of their own, synced, in `_cpu_log/staged`.

On a disk a batch costs its lines once more, until its commit has published them.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.crash_point import crash_point
from tutorial_pkg.connectors.cpu_log.record import Staged
from tutorial_pkg.connectors.cpu_log.state_folder import StateFolder
from tutorial_pkg.core.disk import begin_sync, open_own


class Stage:
    """What one task attempt writes: nothing is created before its first byte."""

    def __init__(
        self, folder: StateFolder, query: str, partition: int, max_file_bytes: int | None
    ) -> None:
        self._folder = folder
        self._query = query
        self._partition = partition
        self._limit = max_file_bytes
        self._files: list[_StagedFile] = []

    def write(self, lines: bytes) -> None:
        """Append whole lines."""
        if not self._files or self._is_full(len(lines)):
            self._files.append(_StagedFile(self._folder, f"{self._query}.{uuid.uuid4().hex}"))
        self._files[-1].write(lines)

    def finish(self) -> list[Staged]:
        """Sync what was written; what to hand to `commit`, empty when nothing was written."""
        crash_point("staging")
        return [file.finish(self._partition) for file in self._files]

    def discard(self) -> None:
        """Remove what was written."""
        for file in self._files:
            file.discard()

    def _is_full(self, more: int) -> bool:
        return self._limit is not None and self._files[-1].length + more > self._limit


class _StagedFile:
    def __init__(self, folder: StateFolder, name: str) -> None:
        folder.make()
        self._path = folder.staged / name
        # It may become a file that readers see, by a rename: with the rights that the umask gives.
        new = open_own(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._file = os.fdopen(new, "wb", buffering=0)
        self._crc32 = 0
        self.length = 0

    def write(self, lines: bytes) -> None:
        self._crc32 = zlib.crc32(lines, self._crc32)
        left = memoryview(lines)
        with named_error(self._path, "while staging lines"):
            while left:
                left = left[self._file.write(left) :]
            begin_sync(self._file.fileno(), self.length, len(lines))
        self.length += len(lines)

    def finish(self, partition: int) -> Staged:
        with self._file, named_error(self._path, "while staging lines"):
            os.fsync(self._file.fileno())
        return Staged(self._path.name, partition, self.length, self._crc32)

    def discard(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def named_error(path: Path, when: str) -> Iterator[None]:
    """The kernel's errors on an open file name no file; these do."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} {when}", str(path)) from error
