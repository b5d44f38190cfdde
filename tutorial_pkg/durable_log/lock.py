"""The lock of a log's only writing process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tutorial_pkg.core.disk import make_folder
from tutorial_pkg.core.file_lock import FileLock, Holder, holder_of, try_flock
from tutorial_pkg.core.waiting import wait_for

PATIENCE_SECONDS = 10.0  # a killed driver's reader process lives for some seconds more
RETRY_SECONDS = 0.1
FOLDER_MODE = 0o750  # a log is for its user, and a group that its tasks may run under


class LogLockedError(Exception):
    """Another process writes to the log; the text names it."""


class WriterLock:
    """Held by the log's only writing process; the system releases it when the process dies.

    There are two locks, on the file `lock` and on the log's folder. The file names the writer, and
    deleting it does not let a second writer in.

    Args:
        directory: the log's folder.
        patience: for how many seconds to wait for another process to release the lock.
        user: "query" or "receiver", for the explanation when the lock is in use.

    Raises `LogLockedError` when the log is in use, and `OSError` where the file system has no
    locks.
    """

    def __init__(
        self, directory: Path, patience: float = PATIENCE_SECONDS, user: str = "query"
    ) -> None:
        make_folder(directory, FOLDER_MODE)
        self._file = FileLock(directory / "lock")
        self._folder = os.open(directory, os.O_RDONLY)
        try:
            if not wait_for(self._try_both, patience, RETRY_SECONDS):
                raise LogLockedError(_locked_text(directory, self._file.holder(), user))
            self._file.sign()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        self._file.release()
        os.close(self._folder)

    def _try_both(self) -> bool:
        return self._file.is_taken() and self._try_folder()

    def _try_folder(self) -> bool:
        try:
            return try_flock(self._folder, fcntl.LOCK_EX)
        except OSError:  # NFS locks only files: there, the file has to suffice
            return True


def writer_process(directory: Path) -> int | None:
    """Return the process that holds the `WriterLock` of `directory`, or None."""
    holder = holder_of(directory / "lock")
    return holder.process if holder else None


def _locked_text(directory: Path, holder: Holder | None, user: str) -> str:
    who = "an unknown program (its file `lock` is unsigned)"
    if holder:
        who = f"process {holder.process} (since {holder.since})"
    text = (
        f"the log {directory} is in use by {who}, a query or a receiver; stop that one first, or "
        f"give this {user} a separate log"
    )
    if user == "query" and holder and holder.parent == os.getppid():
        text += (
            ". Both queries are of this driver. A query that uses one DataFrame twice, such as a "
            "self-join, meets itself here: write the lines to a table first, and join that"
        )
    return text
