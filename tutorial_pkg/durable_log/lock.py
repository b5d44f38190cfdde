"""The lock of a log's only writing process."""

from __future__ import annotations

from pathlib import Path

from tutorial_pkg.core.file_lock import FileLock, holder_of

PATIENCE_SECONDS = 10.0  # a killed driver's reader process lives for some seconds more
FOLDER_MODE = 0o750  # a log is for its user, and a group that its tasks may run under


class LogLockedError(Exception):
    """Another process writes to the log; the text names it."""


class WriterLock:
    """Held by the log's only writing process; the system releases it when the process dies.

    Raises `LogLockedError` if another process still has the lock after `patience` seconds.
    """

    def __init__(self, directory: Path, patience: float = PATIENCE_SECONDS) -> None:
        directory.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self._file = FileLock(directory / "lock")
        if not self._file.take(patience):
            holder = self._file.holder()
            self.release()
            raise LogLockedError(
                f"the log {directory} is in use by {holder}, a query or a receiver: stop that one "
                "first, or use a separate log. A query that reads a source twice, as a self-join "
                "does, is in its own way, too: write the rows to a table first, and join that"
            )

    def release(self) -> None:
        self._file.release()


def writer_process(directory: Path) -> int | None:
    """Return the process that holds the `WriterLock` of `directory`, or None."""
    return holder_of(directory / "lock")
