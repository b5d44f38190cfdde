"""The lock of a log's only writing process, and who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import psutil

from tutorial_pkg.core.disk import make_folder, open_own

PATIENCE_SECONDS = 10.0  # a killed driver's reader process lives for some seconds more
RETRY_SECONDS = 0.1
FOLDER_MODE = 0o750  # a log is for its user, and a group that its tasks may run under


class LogLockedError(Exception):
    """Another process writes to the log; the text names it."""


class WriterLock:
    """Held by the log's only writing process; the system releases it when the process dies.

    Two locks, on the file `lock` and on the log's folder: the file tells who writes, and whoever
    deletes it does not let a second writer in. Raises `LogLockedError` when another process still
    holds one of them after `patience` seconds, and `OSError` where the file system has no locks.
    """

    def __init__(self, directory: Path, patience: float = PATIENCE_SECONDS) -> None:
        make_folder(directory, FOLDER_MODE)
        self._directory = directory
        self._file = os.fdopen(open_own(directory / "lock", os.O_RDWR | os.O_CREAT), "r+")
        self._folder = os.open(directory, os.O_RDONLY)
        try:
            self._take(time.monotonic() + patience)
        except BaseException:
            self.release()
            raise
        self._sign()

    def release(self) -> None:
        self._file.close()
        os.close(self._folder)

    def _take(self, deadline: float) -> None:
        while not (self._file_is_ours() and self._folder_is_ours()):
            if time.monotonic() > deadline:
                raise LogLockedError(_locked_text(self._directory, _signature(self._file)))
            time.sleep(RETRY_SECONDS)

    def _file_is_ours(self) -> bool:
        try:
            return _flock(self._file.fileno(), fcntl.LOCK_EX)
        except OSError as error:
            text = f"{self._directory}: files cannot be locked here ({error.strerror}), so two "
            text += "queries could write to one log; keep it on a file system that has locks"
            raise OSError(error.errno, text) from None

    def _folder_is_ours(self) -> bool:
        try:
            return _flock(self._folder, fcntl.LOCK_EX)
        except OSError:  # NFS locks files only: there, the file has to do
            return True

    def _sign(self) -> None:
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        host = socket.gethostname()
        signature = {"process": os.getpid(), "since": since, "host": host, "parent": os.getppid()}
        self._file.truncate(0)
        json.dump(signature, self._file)
        self._file.flush()


def writer_process(directory: Path) -> int | None:
    """The process that holds the `WriterLock` of `directory`, or None."""
    try:
        file = (directory / "lock").open()
    except FileNotFoundError:
        return None
    with file:
        if _flock(file.fileno(), fcntl.LOCK_SH):
            return None
        signature = _signature(file)
        return signature["process"] if signature else None


def _flock(handle: int, kind: int) -> bool:
    """Whether the lock was to be had at once."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _signature(file: TextIO) -> dict[str, Any] | None:
    """Who took the lock last; None if nobody has signed, or was killed while signing."""
    file.seek(0)
    try:
        signature = json.load(file)
    except ValueError:
        return None
    return signature if isinstance(signature, dict) and "process" in signature else None


def _locked_text(directory: Path, signature: dict[str, Any] | None) -> str:
    text = f"the log {directory} is in use by {_holder(signature)}; stop that query first, "
    text += "or give this one a log of its own"
    if signature and signature.get("parent") == os.getppid():
        text += (
            ". Both are of this driver: a query that uses one DataFrame twice, as a self-join "
            "does, meets itself here; write the lines to a table first, and join that"
        )
    return text


def _holder(signature: dict[str, Any] | None) -> str:
    if signature is None or _has_ended(signature):
        return "a program that has not signed its file `lock`"
    return f"the query of process {signature['process']} (since {signature['since']})"


def _has_ended(signature: dict[str, Any]) -> bool:
    """Only of a process on this host one can know."""
    here = signature.get("host") == socket.gethostname()
    return here and not psutil.pid_exists(signature["process"])
