"""One process writes to a log; any other gets its number."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutorial_pkg.durable_log.lock import LogLockedError, WriterLock, writer_process

HOLDER = """
import sys
from pathlib import Path
from tutorial_pkg.durable_log.lock import WriterLock
lock = WriterLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process has the lock."""
    command = [sys.executable, "-c", HOLDER, str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield holder
        holder.kill()


def test_second_writer_waits_for_the_first(tmp_path) -> None:
    assert writer_process(tmp_path) is None
    with held(tmp_path) as holder:
        assert writer_process(tmp_path) == holder.pid
        with pytest.raises(LogLockedError, match=f"process {holder.pid},"):
            WriterLock(tmp_path, patience=0.2)
    assert writer_process(tmp_path) is None
    WriterLock(tmp_path).release()


@pytest.mark.parametrize(
    ("text", "process"), [("", None), ("[1, 2", None), ('{"process": 12, "host": "h"}', 12)]
)
def test_damaged_or_old_signature(tmp_path, text: str, process: int | None) -> None:
    (tmp_path / "lock").write_text(text)
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert writer_process(tmp_path) == process
        with pytest.raises(LogLockedError, match=f"process {process}" if process else "unknown"):
            WriterLock(tmp_path, patience=0)


def test_file_system_without_locks_is_an_error(tmp_path, monkeypatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match=f"No locks available: '{tmp_path}/lock'"):
        WriterLock(tmp_path, patience=0)


def test_lock_works_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = WriterLock(tmp_path)
    with pytest.raises(LogLockedError):
        WriterLock(tmp_path, patience=0)
    lock.release()
