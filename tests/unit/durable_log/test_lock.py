"""One process writes to a log, whatever is deleted; any other is told which."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tutorial_pkg.core import waiting
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


def test_second_writer_is_told_who_holds_the_lock_until_that_one_dies(tmp_path) -> None:
    with held(tmp_path) as holder:
        assert writer_process(tmp_path) == holder.pid
        since = json.loads((tmp_path / "lock").read_text())["since"]
        with pytest.raises(LogLockedError) as error:
            WriterLock(tmp_path, patience=0.2)
        assert str(error.value) == (
            f"the log {tmp_path} is in use by the query of process {holder.pid} (since {since}); "
            "stop that query first, or give this one a log of its own"
        )
    assert writer_process(tmp_path) is None
    WriterLock(tmp_path).release()


def test_no_process_writes_where_no_log_is(tmp_path) -> None:
    assert writer_process(tmp_path) is None


def test_waits_for_a_lock_that_comes_free(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = WriterLock(tmp_path)
    monkeypatch.setattr(waiting.time, "sleep", lambda _: first.release())
    second = WriterLock(tmp_path)
    with (tmp_path / "lock").open() as other, pytest.raises(OSError) as error:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert error.value.errno == errno.EAGAIN
    second.release()


def test_deleting_the_file_lets_nobody_in(tmp_path) -> None:
    with held(tmp_path):
        (tmp_path / "lock").unlink()
        expected = "is in use by a program that has not signed its file `lock`; stop that query"
        with pytest.raises(LogLockedError, match=expected):
            WriterLock(tmp_path, patience=0)
    WriterLock(tmp_path, patience=0).release()


def test_a_dead_holder_is_not_named(tmp_path) -> None:
    with held(tmp_path):
        pass
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LogLockedError, match="in use by a program that has not signed its fil"):
            WriterLock(tmp_path, patience=0)


@pytest.mark.parametrize("text", ["", "{", "[1, 2", "12"])
def test_a_damaged_signature_is_none(tmp_path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert writer_process(tmp_path) is None
        with pytest.raises(LogLockedError, match="in use by a program that has not signed its fil"):
            WriterLock(tmp_path, patience=0)


def test_a_query_that_reads_one_log_twice_is_told_so(tmp_path) -> None:
    """Both of its readers are children of the same process."""
    first = WriterLock(tmp_path)
    expected = (
        rf"of process {os.getpid()} .* Both are of this driver: a query that uses one DataFrame "
        "twice, as a self-join does, meets itself here; write the lines to a table first, and join "
        "that$"
    )
    with pytest.raises(LogLockedError, match=expected):
        WriterLock(tmp_path, patience=0)
    first.release()


def test_a_holder_of_version_0_1_0_is_named(tmp_path) -> None:
    """It signed without host and parent, and locked the file alone."""
    with (tmp_path / "lock").open("w") as other:
        other.write('{"process": 12, "since": "2026-11-20T10:00:00+00:00"}')
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(LogLockedError, match=r"of process 12 \(since 2026-11-20T10"):
            WriterLock(tmp_path, patience=0)


def test_a_file_system_without_locks_is_an_error(tmp_path, monkeypatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError) as error:
        WriterLock(tmp_path, patience=0)
    assert error.value.strerror == (
        f"{tmp_path}: files cannot be locked here (No locks available), so two queries could write "
        "to one log; keep it on a file system that has locks"
    )


def test_where_folders_cannot_be_locked_the_file_does(tmp_path, monkeypatch) -> None:
    """As on NFS."""
    flock = fcntl.flock

    def files_only(handle: int, kind: int) -> None:
        if os.path.isdir(f"/dev/fd/{handle}"):  # noqa: PTH112  (a Path of it is resolved)
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", files_only)
    lock = WriterLock(tmp_path)
    with pytest.raises(LogLockedError):
        WriterLock(tmp_path, patience=0)
    lock.release()


def test_a_full_disk_keeps_nobody_from_locking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What recovers the room is a commit, which needs the lock."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        lock = WriterLock(tmp_path)
    with pytest.raises(LogLockedError, match="a program that has not signed its file `lock`"):
        WriterLock(tmp_path, patience=0)
    lock.release()


def test_a_symbolic_link_as_lock_is_refused(tmp_path) -> None:
    victim = tmp_path / "somebody's"
    victim.write_text("theirs")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="lock is a symbolic link, which is not followed here; rem"):
        WriterLock(tmp_path / "log")
    assert victim.read_text() == "theirs"
