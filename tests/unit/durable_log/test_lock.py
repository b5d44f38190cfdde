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
        with pytest.raises(LogLockedError, match=f"process {holder.pid} "):
            WriterLock(tmp_path, patience=0.2)
    assert writer_process(tmp_path) is None
    WriterLock(tmp_path).release()


def test_deleted_lock_file_lets_nobody_in(tmp_path) -> None:
    with held(tmp_path):
        (tmp_path / "lock").unlink()
        with pytest.raises(LogLockedError, match="unsigned"):
            WriterLock(tmp_path, patience=0)
    WriterLock(tmp_path, patience=0).release()


@pytest.mark.parametrize("text", ["", "{", "[1, 2", "12", '{"process": 12, "since": "then"}'])
def test_signature_of_another_version_or_damaged(tmp_path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with (tmp_path / "lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert writer_process(tmp_path) == (12 if "since" in text else None)
        expected = "process 12" if "since" in text else "unsigned"
        with pytest.raises(LogLockedError, match=expected):
            WriterLock(tmp_path, patience=0)


@pytest.mark.parametrize("user", ["query", "receiver"])
def test_self_join_is_explained_to_queries_only(tmp_path, user: str) -> None:
    """Two receivers of one shell have the same parent, too."""
    first = WriterLock(tmp_path, user=user)
    with pytest.raises(LogLockedError) as error:
        WriterLock(tmp_path, patience=0, user=user)
    assert ("self-join" in str(error.value)) == (user == "query")
    first.release()


def test_file_system_without_locks(tmp_path, monkeypatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OSError, match="files cannot be locked here"):
        WriterLock(tmp_path, patience=0)


def test_file_lock_suffices_where_folders_have_none(tmp_path, monkeypatch) -> None:
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


def test_lock_works_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    lock = WriterLock(tmp_path)
    with pytest.raises(LogLockedError):
        WriterLock(tmp_path, patience=0)
    lock.release()


def test_symbolic_link_as_lock_is_refused(tmp_path) -> None:
    (tmp_path / "victim").write_text("theirs")
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        WriterLock(tmp_path / "log")
    assert (tmp_path / "victim").read_text() == "theirs"
