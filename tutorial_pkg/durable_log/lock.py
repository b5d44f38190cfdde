"""Locks on files: held by one process, and released by the system when that process dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path

from tutorial_pkg.core.disk import naming
from tutorial_pkg.core.waiting import wait_for

PATIENCE_SECONDS = 10.0  # a killed driver's reader process lives for some seconds more
FOLDER_MODE = 0o750  # a log is for its user, and a group that its tasks may run under


class LogLockedError(Exception):
    """Another process writes to the log; the text names it."""


class FileLock:
    """`flock` on a file that also names its holder."""

    def __init__(self, path: Path, mode: int = 0o640) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, mode)

    def take(self, seconds: float) -> bool:
        """Take the lock; return whether that worked within `seconds`.

        Raises `OSError` where the file system has no locks.
        """
        with naming(self.path):
            if not wait_for(lambda: _try_flock(self._file, fcntl.LOCK_EX), seconds, every=0.02):
                return False
        with contextlib.suppress(OSError):  # on a full disk the lock works without a name, too
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps({"process": os.getpid()}).encode(), 0)
        return True

    def holder(self) -> str:
        """Return the process that holds the lock, as a text for errors."""
        process = _holder(self._file)
        return f"process {process}" if process else "an unknown process"

    def release(self) -> None:
        os.close(self._file)


class WriterLock(FileLock):
    """Held by the log's only writing process.

    Raises `LogLockedError` if another process still has the lock after `patience` seconds.
    """

    def __init__(self, directory: Path, patience: float = PATIENCE_SECONDS) -> None:
        directory.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        super().__init__(directory / "lock")
        if not self.take(patience):
            holder = self.holder()
            self.release()
            raise LogLockedError(
                f"the log {directory} is in use by {holder}, a query or a receiver: stop that one "
                "first, or use a separate log. A query that reads a source twice, as a self-join "
                "does, is in its own way, too: write the rows to a table first, and join that"
            )


def writer_process(directory: Path) -> int | None:
    """Return the process that holds the `WriterLock` of `directory`; None if that is unknown."""
    try:
        with open(directory / "lock") as file:
            return None if _try_flock(file.fileno(), fcntl.LOCK_SH) else _holder(file.fileno())
    except FileNotFoundError:
        return None


def _try_flock(file: int, kind: int) -> bool:
    """Take the lock if it is free; return whether it was."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> int | None:
    """Return None if the name is damaged: its process was killed while it wrote."""
    try:
        return int(json.loads(os.pread(file, 4096, 0))["process"])
    except (ValueError, TypeError):
        return None
