"""Carrying a record out: crashes half-way, full and broken disks, and files that were changed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.unit.cpu_log.committing import FIRST, Log
from tutorial_pkg.connectors.cpu_log import applying, publish
from tutorial_pkg.connectors.cpu_log.data_files import file_name
from tutorial_pkg.core import disk


def test_abort_keeps_what_a_record_still_needs(log: Log) -> None:
    """Spark aborts a batch whose commit failed, but a recorded batch cannot be taken back."""
    log.add(0, {0: "a\n", 1: "b\n"})
    log.add_to_a_full_disk({0: "aaaa\n", 1: "bbbb\n"}, room=3)
    log.sweep(FIRST.query)
    assert sum(map(len, log.visible().values())) == 4 + 3
    log.recover()
    assert log.visible() == {"0": "a\naaaa\n", "1": "b\nbbbb\n"}


def test_a_crash_between_a_new_file_and_one_that_grows_is_recovered(log: Log) -> None:
    log.add(0, {0: "a\n"})
    log.add_to_a_full_disk({0: "aa\n", 1: "bb\n"}, room=1)
    assert log.visible() == {"0": "a\na", "1": "bb\n"}
    new = (log.path / file_name(1)).stat().st_ino
    log.recover()
    assert log.visible() == {"0": "a\naa\n", "1": "bb\n"}
    assert (log.path / file_name(1)).stat().st_ino == new, "whoever follows it has lost it"
    assert log.left() == []


def test_recovery_syncs_what_was_renamed_before_the_crash(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure could undo the renames after the batch has been called done."""
    log.add(0, {0: "a\n"})
    with monkeypatch.context() as patch:

        def crash(folder: Path) -> None:
            if (log.path / file_name(1)).exists():
                raise OSError(errno.EIO, "the crash")

        patch.setattr(applying, "sync_directory", crash)
        with pytest.raises(OSError, match="the crash"):
            log.add(1, {1: "b\n"})
    synced = []
    for module in (publish, applying):
        monkeypatch.setattr(module, "sync_directory", synced.append)
    assert not log.add(1, {1: "b\n"})
    assert synced == [log.path / "_cpu_log", log.path]
    assert log.visible() == {"0": "a\n", "1": "b\n"}


def test_recovery_notices_that_published_bytes_are_gone(log: Log) -> None:
    log.add(0, {0: "a\n"})
    (log.path / file_name(0)).unlink()
    with pytest.raises(RuntimeError, match="has 0 bytes instead of 2: somebody else has changed"):
        log.add(1, {1: "b\n"})


@pytest.mark.parametrize("refusal", [errno.EOPNOTSUPP, errno.EXDEV, None])
def test_where_the_kernel_does_not_copy_python_does(
    log: Log, monkeypatch: pytest.MonkeyPatch, refusal: int | None
) -> None:
    def refuse(*_: int) -> int:
        raise OSError(refusal, "not here")

    monkeypatch.setattr(os, "copy_file_range", refuse, raising=False)
    if refusal is None:
        monkeypatch.delattr(os, "copy_file_range")
    monkeypatch.setattr(disk, "READ_BYTES", 7)
    long = "".join(f"{i}\n" for i in range(100))
    for batch, text in enumerate(["a\n", long, "b\n"]):  # only what extends a file is copied
        log.add(batch, {0: text})
    assert log.visible() == {"0": f"a\n{long}b\n"}


def test_what_the_kernel_cannot_read_is_an_error(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own copy is no way around a broken disk."""

    def refuse(*_: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    log.add(0, {0: "a\n"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "copy_file_range", refuse, raising=False)
        with pytest.raises(OSError, match="Input/output error while publishing"):
            log.add(1, {0: "b\n"})
    assert log.visible() == {"0": "a\n"}


def test_an_empty_file_that_is_being_followed_stays_the_same_file(log: Log) -> None:
    followed = log.path / file_name(0)
    followed.touch()
    number = followed.stat().st_ino
    log.add(0, {0: "a\n"})
    assert followed.stat().st_ino == number
    assert log.visible() == {"0": "a\n"}


def test_a_full_disk_names_the_file_and_the_next_commit_goes_on(log: Log) -> None:
    log.add(0, {0: "a\n"})
    assert log.add_to_a_full_disk({0: "b\n"}, room=0) == (
        "[Errno 28] No space left on device while publishing; the next commit finishes it: "
        f"'{log.path}/{file_name(0)}'"
    )
    assert not log.add(1, {0: "b\n"})
    assert log.visible() == {"0": "a\nb\n"}


def test_staged_bytes_that_are_gone_are_noticed_before_they_are_recorded(log: Log) -> None:
    reports = log.staged({0: "a\n"})
    path = log.path / "_cpu_log" / "staged" / reports[0].name
    path.unlink()
    with pytest.raises(RuntimeError) as failed:
        log.commit(FIRST, 0, reports)
    assert str(failed.value) == (
        f"{path} has 0 bytes instead of 2: it was removed or changed before its commit; "
        "run the query again"
    )
    assert log.add(0, {0: "a\n"})


@pytest.mark.parametrize(("content", "size"), [("a\nb\n", 4), ("", 0)])
def test_a_file_that_somebody_changed_is_noticed(log: Log, content: str, size: int) -> None:
    log.add(0, {0: "a\n"})
    (log.path / file_name(0)).write_text(content)
    with pytest.raises(RuntimeError) as failed:
        log.add(1, {0: "c\n"})
    assert str(failed.value) == (
        f"{log.path}/{file_name(0)} has {size} bytes instead of 2: somebody else has changed it; "
        "restore it, or move the whole directory away"
    )
    assert log.visible() == {"0": content}


def test_recovery_refuses_staged_bytes_that_rotted(log: Log) -> None:
    log.add(0, {0: "a\n"})
    log.add_to_a_full_disk({0: "a\n"}, room=0)
    [name] = log.left()
    path = log.path / "_cpu_log" / "staged" / name
    path.write_text("b\n")
    with pytest.raises(RuntimeError) as failed:
        log.recover()
    assert str(failed.value) == (
        f"the staged file {path} is damaged: its checksum does not match the record"
    )
    assert log.visible() == {"0": "a\n"}
