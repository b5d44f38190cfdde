"""A lock on a file: held by one process, and released by the system when that process dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from tutorial_pkg.core.disk import naming
from tutorial_pkg.core.waiting import wait_for


class FileLock:
    """`flock` on a file that also names its holder."""

    def __init__(self, path: Path, mode: int = 0o640) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, mode)

    def take(self, seconds: float, every: float = 0.05) -> bool:
        """Take the lock; return whether that worked within `seconds`.

        Raises `OSError` where the file system has no locks.
        """
        with naming(self.path):
            taken = wait_for(lambda: _try_flock(self._file, fcntl.LOCK_EX), seconds, every)
        if taken:
            self._sign()
        return taken

    def holder(self) -> str:
        """Return the process that holds the lock, as a text for errors."""
        signature = _signature(self._file)
        if "process" not in signature:
            return "an unknown process"
        return f"process {signature['process']} (since {signature.get('since')})"

    def release(self) -> None:
        os.close(self._file)

    def _sign(self) -> None:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        signature = json.dumps({"process": os.getpid(), "since": since})
        os.ftruncate(self._file, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock works without a name, too
            os.pwrite(self._file, signature.encode(), 0)


def holder_of(path: Path) -> int | None:
    """Return the process that holds the lock; None if it is free, or the holder is unknown."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if _try_flock(file, fcntl.LOCK_SH):
            return None
        process: int | None = _signature(file).get("process")
        return process
    finally:
        os.close(file)


def _try_flock(file: int, kind: int) -> bool:
    """Take the lock if it is free; return whether it was."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _signature(file: int) -> dict[str, Any]:
    """Return nothing if it is damaged: its process was killed while it signed."""
    try:
        return dict(json.loads(os.pread(file, 4096, 0)))
    except (ValueError, TypeError):
        return {}
