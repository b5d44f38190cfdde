"""What happens when a file is rotated at the worst moment, and how a file is recognized."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Tailing, append, numbers, tailed
from tutorial_pkg.connectors.file_lines import line_file
from tutorial_pkg.connectors.file_lines.line_file import TrackedFile, reopen

RESTARTS = pytest.mark.parametrize("restarts", [True, False])
PATTERNS = pytest.mark.parametrize("pattern", ["app.log", "*"])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def rotate(log: Path, *lines: str) -> None:
    log.rename(f"{log}.1")
    append(log, *lines)


def copytruncate(log: Path) -> None:
    shutil.copy(log, f"{log}.1")
    os.truncate(log, 0)


def compress(file: Path, opener: Callable = gzip.open, suffix: str = ".gz") -> Path:
    """As logrotate's `compress` does."""
    packed = Path(f"{file}{suffix}")
    with opener(packed, "wb") as target:
        target.write(file.read_bytes())
    file.unlink()
    return packed


def before_opening(monkeypatch: pytest.MonkeyPatch, path: Path, action: Callable[[], None]) -> None:
    """Do something once, when `path` is about to be opened."""
    really_open, pending = os.open, [action]

    def open_later(name, *args, **kwargs):
        if name == str(path) and pending:
            pending.pop()()
        return really_open(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_later)


# ---- Between two looks ---------------------------------------------------------------------------


@PATTERNS
def test_a_renamed_file_is_read_to_its_end(tmp_path, log, pattern):
    tailing = tailed(log, *numbers(1, 3), pattern=pattern)
    append(log, *numbers(4, 5))
    rotate(log, *numbers(6, 7))
    assert sorted(tailing.batch()) == numbers(4, 7)
    append(tmp_path / "app.log.1", *numbers(8, 8))  # a writer that has not noticed
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    rotate(log, *numbers(9, 9))
    assert sorted(tailing.batch()) == numbers(8, 9)
    assert tailing.batch() == []


@pytest.mark.parametrize("again", [numbers(200, 203), numbers(200, 239)])
def test_a_truncated_file_is_read_from_its_start(log, caplog, again):
    tailing = tailed(log, *numbers(100, 109))
    log.write_text("")
    append(log, *again)
    assert tailing.batch() == again
    assert "after byte 90 was not read" in caplog.text
    assert tailing.batch() == []


def test_the_copy_of_copytruncate_has_the_rest(log, caplog):
    tailing = tailed(log, *numbers(1, 3), restarts=False)
    append(log, *numbers(4, 5))
    copytruncate(log)
    append(log, *numbers(6, 6))
    assert sorted(tailing.batch()) == numbers(4, 6)
    Path(f"{log}.1").rename(f"{log}.2")
    copytruncate(log)
    assert tailing.batch() == []
    Path(f"{log}.1").rename(f"{log}.3")
    append(log, *numbers(7, 8))
    assert tailing.batch() == numbers(7, 8)
    for number in (9, 11):  # the second copy gets the inode of the first
        append(log, *numbers(number, number))
        copytruncate(log)
        append(log, *numbers(number + 1, number + 1))
        assert sorted(tailing.batch()) == sorted(numbers(number, number + 1))
    assert not caplog.records


@RESTARTS
@pytest.mark.parametrize("count", [6, 300])
@pytest.mark.parametrize(
    ("opener", "suffix"), [(gzip.open, ".gz"), (bz2.open, ".bz2"), (lzma.open, ".xz")]
)
def test_the_archive_has_the_rest(log, monkeypatch, restarts, opener, suffix, count):
    tailing = tailed(log, *numbers(1, count), restarts=restarts)
    append(log, *numbers(count + 1, count + 4))
    rotate(log, "new")
    packed = compress(Path(f"{log}.1"), opener, suffix)
    assert sorted(tailing.rest()) == sorted([*numbers(count + 1, count + 4), "new"])
    packed.rename(f"{log}.2{suffix}")
    append(log, "more")
    assert tailing.rest() == ["more"]
    monkeypatch.delattr(line_file, "_unpack")  # a finished archive is not unpacked again
    Path(f"{log}.2{suffix}").rename(f"{log}.3{suffix}")
    append(log, "most")
    assert tailing.rest() == ["most"]


@RESTARTS
def test_the_archive_of_a_renamed_file_has_the_rest(log, restarts):
    """As `delaycompress` does."""
    tailing = tailed(log, *numbers(1, 3), restarts=restarts)
    append(log, *numbers(4, 5))
    rotate(log)
    assert tailing.batch() == numbers(4, 5)
    append(Path(f"{log}.1"), *numbers(6, 7))
    compress(Path(f"{log}.1").rename(f"{log}.2"))
    assert tailing.batch() == numbers(6, 7)


def test_the_copy_of_a_file_that_a_limit_left_unread(log, caplog):
    tailing = tailed(log, "one", restarts=False, maxRowsPerTrigger=1)
    append(log, "two")
    rotate(log, "three")
    assert tailing.batch() == ["two"]
    Path(f"{log}.1").rename(f"{log}.2")
    copytruncate(log)
    append(log, "four")
    assert tailing.rest() == ["four", "three"]
    assert not caplog.records


def test_a_damaged_archive_is_reported(log, caplog):
    tailing = tailed(log, *numbers(1, 300))
    append(log, *numbers(301, 400))
    packed = compress(log)
    packed.write_bytes(packed.read_bytes()[:-9])
    append(log, "new")
    assert tailing.batch() == ["new"]
    assert f"{log} was deleted, truncated or rewritten" in caplog.text


@RESTARTS
def test_files_that_came_and_went_are_counted(tmp_path, log, caplog, restarts):
    tailing = tailed(log, "one", restarts=restarts)
    os.utime(log, (1, 1))
    log.rename(tmp_path / "app.log.3")
    append(tmp_path / "app.log.2", "two")
    compress(tmp_path / "app.log.2")
    append(tmp_path / "app.log.1", "three")
    append(log, "four")
    assert tailing.batch() == ["four"]
    assert f"{log} was rotated more than once since the last look" in caplog.text
    assert f"Not read: {log}.1, {log}.2.gz" in caplog.text


@pytest.mark.parametrize("archive", [copytruncate, lambda log: compress(log.rename(f"{log}.1"))])
def test_the_unread_copy_of_an_empty_file_is_named(log, caplog, archive):
    log.touch()
    os.utime(log, (1, 1))
    tailing = Tailing(log, restarts=False)
    assert tailing.batch() == []
    append(log, "unread")
    archive(log)
    append(log, "new")
    assert tailing.batch() == ["new"]
    assert f"Not read: {log}.1" in caplog.text


def test_unread_files_are_named_though_the_last_one_is_gone(tmp_path, log, caplog):
    append(log, "one")
    os.utime(log, (1, 1))
    tailing = Tailing(log, restarts=False)
    assert tailing.batch() == ["one"]
    append(tmp_path / "app.log.1", "unread")
    append(tmp_path / ".new", "new")
    (tmp_path / ".new").rename(log)
    assert tailing.batch() == ["new"]
    assert f"Not read: {log}.1" in caplog.text


# ---- Between two steps of a look -----------------------------------------------------------------


@RESTARTS
@PATTERNS
@pytest.mark.parametrize("new", [[], ["new"], [*numbers(1, 3), "new"]])
def test_a_rename_between_listing_and_opening(log, monkeypatch, restarts, pattern, new):
    tailing = tailed(log, *numbers(1, 3), pattern=pattern, restarts=restarts)
    append(log, *numbers(4, 5))
    before_opening(monkeypatch, log, lambda: rotate(log, *new))
    assert sorted(tailing.batch() + tailing.batch()) == sorted(numbers(4, 5) + new)
    assert tailing.batch() == []


@RESTARTS
@pytest.mark.parametrize("new", [[], numbers(100, 101), numbers(100, 900)])
def test_copytruncate_between_listing_and_opening(log, monkeypatch, restarts, new):
    tailing = tailed(log, *numbers(10, 20), restarts=restarts)
    append(log, *numbers(21, 30))

    def cut_off() -> None:
        copytruncate(log)
        append(log, *new)

    before_opening(monkeypatch, log, cut_off)
    assert sorted(tailing.batch() + tailing.batch()) == sorted(numbers(21, 30) + new)
    assert tailing.batch() == []


# ---- Between planning and reading ----------------------------------------------------------------


@pytest.mark.parametrize("rotation", [rotate, copytruncate])
def test_a_rotation_between_planning_and_reading(log, caplog, rotation):
    tailing = tailed(log, *numbers(10, 20))
    append(log, *numbers(21, 30))
    tailing.plan()
    append(log, *numbers(31, 35))
    rotation(log)
    append(log, *numbers(100, 900))
    assert tailing.replay() == numbers(21, 30)
    assert sorted(tailing.batch()) == sorted(numbers(31, 35) + numbers(100, 900))
    assert not caplog.records


def test_a_file_is_rotated_while_read(log):
    lines = [f"{number:0100}" for number in range(20_000)]  # 2 MB, so several chunks
    append(log, *lines)
    tailing = Tailing(log)
    tailing.plan()
    reader = tailing.reader()
    (partition,) = reader.partitions(*tailing.last_batch)
    batches = reader.read(partition)
    rows = next(batches).column(0).to_pylist()
    copytruncate(log)
    append(log, *numbers(1, 90_000))
    rows += [row for batch in batches for row in batch.column(0).to_pylist()]
    assert rows == lines
    compress(Path(f"{log}.1"))
    assert tailing.replay() == lines


@pytest.mark.parametrize("fails", [True, False])
def test_a_batch_whose_bytes_are_gone(tmp_path, log, caplog, fails):
    append(tmp_path / "app.log.1", "a different file")
    append(log, "one")
    tailing = Tailing(log, failOnDataLoss=fails)
    tailing.plan()
    log.write_text("two\n")
    if fails:
        with pytest.raises(FileNotFoundError, match=f"{log} is gone .*`failOnDataLoss`"):
            tailing.replay()
    else:
        assert tailing.replay() == []
        assert "Lost: 4 bytes." in caplog.text
        assert tailing.batch() == ["two"]


def test_a_host_that_lacks_the_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"host {socket.gethostname()} does not see"):
        reopen(TrackedFile(str(tmp_path / "shared" / "app.log"), "1:2", 4), 1 << 20)


# ---- How a file is recognized --------------------------------------------------------------------


def test_a_file_with_an_old_footer_is_new(log):
    footer = ["=" * 2000]
    tailing = tailed(log, *numbers(100, 350), *footer)
    log.write_text("")
    again = [*numbers(400, 650), *footer]
    append(log, *again)
    assert tailing.batch() == again


def test_a_file_with_an_old_name_is_new(log):
    tailing = tailed(log, *numbers(1, 3))
    log.unlink()
    append(log, *numbers(4, 9))  # most file systems give it the same inode
    assert tailing.batch() == numbers(4, 9)
    rotate(log, *numbers(4, 9), "more")
    assert tailing.batch() == [*numbers(4, 9), "more"]


@RESTARTS
def test_a_file_replaced_by_its_longer_self(tmp_path, log, restarts):
    """As rsync and many editors do: a different inode with the same lines, and more."""
    tailing = tailed(log, *numbers(1, 500), restarts=restarts)
    append(tmp_path / ".new", *numbers(1, 502))
    (tmp_path / ".new").rename(log)
    assert tailing.batch() == numbers(501, 502)
