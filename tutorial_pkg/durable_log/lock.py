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

_LOG_IN_USE = (
    "a query or a receiver: stop that one first, or use a separate log. A query that reads a "
    "source twice, as a self-join does, is in its own way, too: write the rows to a table first, "
    "and join that"
)


class LogLockedError(RuntimeError):
    """Another process writes to the log; the text names it."""


class FileLock:
    """`flock` on a file that also names its holder.

    Raises `LogLockedError` with a `remedy` if another process still has the lock after `seconds`,
    and `OSError` where the file system has no locks.
    """

    def __init__(self, path: Path, seconds: float, remedy: str, mode: int = 0o640) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, mode)
        with naming(path):
            taken = wait_for(lambda: _try_flock(self._file, fcntl.LOCK_EX), seconds, every=0.02)
        if not taken:
            process = _holder(self._file) or "(unknown)"
            self.release()
            raise LogLockedError(f"{path.parent} is in use by process {process}, {remedy}")
        with contextlib.suppress(OSError):  # on a full disk the lock works without a name, too
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps({"process": os.getpid()}).encode(), 0)

    def release(self) -> None:
        os.close(self._file)


class WriterLock(FileLock):
    """Held by the log's only writing process."""

    def __init__(self, directory: Path, patience: float = PATIENCE_SECONDS) -> None:
        directory.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        super().__init__(directory / "lock", patience, _LOG_IN_USE)


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
