"""A lock on a file: held by one process, and released by the system when that process dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tutorial_pkg.core.disk import open_own
from tutorial_pkg.core.waiting import wait_for

_SIGNATURE_BYTES = 4096  # more than one ever has


@dataclass(frozen=True)
class Holder:
    """The process that took a lock; logs of version 0.1.0 have no `host` and `parent`."""

    process: int
    since: str
    host: str | None = None
    parent: int | None = None

    @classmethod
    def this_process(cls) -> Holder:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        return cls(os.getpid(), since, socket.gethostname(), os.getppid())

    def has_ended(self) -> bool:
        """Return whether its process has ended, as far as this host can know."""
        return self.host == socket.gethostname() and not pid_exists(self.process)


def pid_exists(pid: int) -> bool:
    """Return whether there is a process with this number, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class FileLock:
    """`flock` on a file that also names its holder."""

    def __init__(self, path: Path, mode: int = 0o640) -> None:
        self.path = path
        self._file = open_own(path, os.O_RDWR | os.O_CREAT, mode)

    def take(self, seconds: float, every: float = 0.05) -> bool:
        """Take and sign the lock; return whether that worked within `seconds`."""
        taken = wait_for(self.is_taken, seconds, every)
        if taken:
            self.sign()
        return taken

    def is_taken(self) -> bool:
        """Take the lock if it is free. Raises `OSError` if the file system has no locks."""
        try:
            return try_flock(self._file, fcntl.LOCK_EX)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self.path.parent}: files cannot be locked here ({error.strerror}), so two "
                "queries could write to one log; keep it on a file system that has locks",
            ) from None

    def sign(self) -> None:
        """Write this process into the file as the holder."""
        os.ftruncate(self._file, 0)
        with contextlib.suppress(OSError):  # on a full disk the lock works without a name, too
            os.pwrite(self._file, json.dumps(vars(Holder.this_process())).encode(), 0)

    def holder(self) -> Holder | None:
        """Return the last holder that signed; None if it has ended, or there is none."""
        signed = _signature(self._file)
        return None if signed is None or signed.has_ended() else signed

    def release(self) -> None:
        os.close(self._file)


def holder_of(path: Path) -> Holder | None:
    """Return the current holder; None if the lock is free, or its holder has not signed."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if try_flock(file, fcntl.LOCK_SH) else _signature(file)
    finally:
        os.close(file)


def try_flock(file: int, kind: int) -> bool:
    """Take the lock if it is free; return whether it was."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _signature(file: int) -> Holder | None:
    """Return None if it is damaged: its process was killed while it signed."""
    try:
        return Holder(**json.loads(os.pread(file, _SIGNATURE_BYTES, 0)))
    except (ValueError, TypeError):
        return None
