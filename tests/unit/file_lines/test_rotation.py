"""What happens when a file is rotated at the worst moment, and how a file is known again."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Tailing, append, numbers, tailed
from tutorial_pkg.connectors.file_lines.rotation import Planned, reopen


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


RESTARTS = pytest.mark.parametrize("restarts", [True, False])


def rotate(log: Path, *lines: str) -> None:
    log.rename(f"{log}.1")
    append(log, *lines)


def copytruncate(log: Path, gap: str = "") -> None:
    """Copy and truncate, with what the writer wrote in between."""
    shutil.copy(log, f"{log}.1")
    if gap:
        append(log, gap)
    os.truncate(log, 0)


def before_opening(monkeypatch: pytest.MonkeyPatch, path: Path, action: Callable[[], None]) -> None:
    """Do something once, when `path` is about to be opened."""
    really_open, waiting = os.open, [action]

    def open_later(name, *args, **kwargs):
        if name == str(path) and waiting:
            waiting.pop()()
        return really_open(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_later)


def missed_by_listing(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let one listing miss files, as it may when they are renamed meanwhile."""
    really_scan, waiting = os.scandir, [names]

    class Scan:
        def __init__(self, place) -> None:
            missed = waiting.pop() if waiting else ()
            with really_scan(place) as entries:
                self._entries = [entry for entry in entries if entry.name not in missed]

        def __enter__(self):
            return iter(self._entries)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", Scan)


# ---- Between two looks ---------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["app.log", "*", "app*"])
def test_rename_rotation_reads_the_old_file_to_its_end(tmp_path, log, pattern):
    tailing = tailed(log, *numbers(1, 3), pattern=pattern)
    append(log, *numbers(4, 5))
    log.rename(tmp_path / "app.log.1")
    append(log, *numbers(6, 7))
    assert sorted(tailing.batch()) == numbers(4, 7)
    append(tmp_path / "app.log.1", *numbers(8, 8))  # a writer that has not noticed
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    append(log, *numbers(9, 9))
    assert sorted(tailing.batch()) == numbers(8, 9)
    assert tailing.batch() == []


def test_a_file_renamed_between_planning_and_reading(tmp_path, log):
    append(log, *numbers(1, 3))
    tailing = Tailing(log)
    tailing.plan()
    log.rename(tmp_path / "app.log.1")
    append(log, *numbers(4, 4))
    assert tailing.replay() == numbers(1, 3)
    assert tailing.batch() == numbers(4, 4)


def test_a_file_seen_without_a_line_may_be_renamed_before_the_next_look(tmp_path, log):
    log.touch()
    tailing = Tailing(log)
    assert tailing.batch() == []
    append(log, "one")
    log.rename(tmp_path / "app.log.1")
    append(log, "two")
    assert sorted(tailing.batch()) == ["one", "two"]


@pytest.mark.parametrize("longer", [False, True])
def test_a_truncated_file_is_read_from_its_start_with_a_warning(log, caplog, longer):
    tailing = tailed(log, *numbers(100, 109))
    os.truncate(log, 0)
    again = numbers(200, 239) if longer else numbers(200, 203)
    append(log, *again)
    with caplog.at_level(logging.WARNING):
        assert tailing.batch() == again
    assert f"{log} was deleted, truncated or rewritten" in "\n".join(caplog.messages)
    assert "byte 90" in "\n".join(caplog.messages)
    assert tailing.batch() == []


def test_a_file_rewritten_to_the_same_length_is_noticed(log):
    tailing = tailed(log, "aaa")
    log.write_text("bbb\n")
    assert tailing.batch() == ["bbb"]


def test_copytruncate_takes_unread_lines_from_the_copy(tmp_path, log, caplog):
    tailing = tailed(log, *numbers(1, 3))
    append(log, *numbers(4, 5))
    shutil.copy(log, tmp_path / "app.log.1")
    os.truncate(log, 0)
    append(log, *numbers(6, 6))
    assert sorted(tailing.batch()) == numbers(4, 6)
    assert not caplog.records


def test_a_new_file_with_an_old_name_starts_at_its_beginning(log):
    tailing = tailed(log, *numbers(1, 3))
    log.unlink()
    append(log, *numbers(4, 9))  # most file systems give it the same inode
    assert tailing.batch() == numbers(4, 9)
    assert sorted(tailing.offset["files"]) == ["1"]


def test_a_batch_whose_file_is_gone_says_what_to_do(log):
    append(log, "one")
    tailing = Tailing(log)
    tailing.plan()
    log.unlink()
    with pytest.raises(FileNotFoundError) as error:
        tailing.replay()
    assert str(error.value) == (
        f"{log} is gone or was rewritten, and its bytes 0 to 4 belong to a batch that has to be "
        "read again; put it back, or set option `failOnDataLoss` to false to go on without them"
    )
    append(log, "two")
    with pytest.raises(FileNotFoundError, match="is gone or was rewritten"):
        tailing.replay()


# ---- Between two steps of a look -----------------------------------------------------------------


@RESTARTS
@pytest.mark.parametrize("pattern", ["app.log", "*"])
@pytest.mark.parametrize("new", ["", "other", "as before"])
def test_a_rename_between_listing_and_opening(log, monkeypatch, restarts, pattern, new):
    tailing = tailed(log, *numbers(1, 3), pattern=pattern, restarts=restarts)
    append(log, *numbers(4, 5))
    lines = {"": [], "other": ["new"], "as before": [*numbers(1, 3), "new"]}[new]
    before_opening(monkeypatch, log, lambda: rotate(log, *lines))
    rows = tailing.batch() + tailing.batch()
    assert sorted(rows) == sorted(numbers(4, 5) + lines)
    assert tailing.batch() == []


@RESTARTS
@pytest.mark.parametrize("again", [[], numbers(100, 101), numbers(100, 900)])
def test_copytruncate_between_listing_and_opening(log, monkeypatch, restarts, again):
    tailing = tailed(log, *numbers(10, 20), restarts=restarts)
    append(log, *numbers(21, 30))

    def cut_off() -> None:
        copytruncate(log)
        append(log, *again)

    before_opening(monkeypatch, log, cut_off)
    assert sorted(tailing.batch() + tailing.batch()) == sorted(numbers(21, 30) + again)
    assert tailing.batch() == []


@RESTARTS
@pytest.mark.parametrize("pattern", ["app.log", "*"])
def test_a_file_that_a_listing_missed(log, monkeypatch, restarts, pattern):
    tailing = tailed(log, *numbers(1, 3), pattern=pattern, restarts=restarts)
    append(log, *numbers(4, 5))
    rotate(log, *numbers(6, 7))
    missed_by_listing(monkeypatch, "app.log.1")
    assert sorted(tailing.batch() + tailing.batch()) == numbers(4, 7)
    assert tailing.batch() == []


@RESTARTS
def test_a_file_truncated_while_its_end_is_looked_for(log, monkeypatch, restarts):
    tailing = tailed(log, *numbers(10, 30), restarts=restarts)
    append(log, *numbers(31, 33))
    really_read, waiting = os.pread, [True]

    def read_later(descriptor, length, position):
        data = really_read(descriptor, length, position)
        if waiting:  # the first read says that it is the same file
            waiting.pop()
            copytruncate(log)
            append(log, *numbers(40, 90))
        return data

    monkeypatch.setattr(os, "pread", read_later)
    assert sorted(tailing.batch() + tailing.batch()) == numbers(31, 33) + numbers(40, 90)


# ---- Between planning and reading ----------------------------------------------------------------


@pytest.mark.parametrize("again", [[], numbers(100, 900)])
def test_copytruncate_between_planning_and_reading(log, caplog, again):
    tailing = tailed(log, *numbers(10, 20))
    append(log, *numbers(21, 30))
    tailing.plan()
    append(log, *numbers(31, 35))
    copytruncate(log)
    append(log, *again)
    assert tailing.replay() == numbers(21, 30)
    assert tailing.batch() == numbers(31, 35) + again
    assert not caplog.records


@pytest.mark.parametrize("first", [numbers(10, 20), numbers(10, 300)])
def test_what_copytruncate_itself_loses_is_counted_and_told(tmp_path, log, caplog, first):
    tailing = tailed(log, *first)
    append(log, "before the copy")
    shutil.copy(log, tmp_path / "app.log.1")
    append(log, "behind it")
    tailing.plan()
    size = log.stat().st_size
    os.truncate(log, 0)
    append(log, "after all")
    with caplog.at_level(logging.WARNING):
        assert tailing.replay() == ["before the copy"]
    assert (
        f"{log} was truncated, and its copy {log}.1 has its lines up to byte {size - 10} only"
        in caplog.messages[-1]
    )
    assert caplog.messages[-1].endswith("Lost: 10 bytes.")
    assert tailing.batch() == ["after all"]


def test_a_copy_of_another_file_is_no_copy(tmp_path, log):
    append(tmp_path / "app.log.1", "another")
    append(log, "one")
    tailing = Tailing(log)
    tailing.plan()
    os.truncate(log, 0)
    with pytest.raises(FileNotFoundError, match="is gone or was rewritten, and its bytes 0 to 4"):
        tailing.replay()


def test_a_file_truncated_while_it_is_read_goes_on_in_its_copy(log, monkeypatch):
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


def test_going_on_without_what_is_gone(log, caplog):
    append(log, "one")
    tailing = Tailing(log, failOnDataLoss=False)
    tailing.plan()
    log.unlink()
    append(log, "two")
    with caplog.at_level(logging.WARNING):
        assert tailing.replay() == []
    assert caplog.messages[-1].endswith("Lost: 4 bytes.")
    assert tailing.batch() == ["two"]


# ---- What a file is known by ---------------------------------------------------------------------


@RESTARTS
def test_an_unchanging_footer_does_not_hide_a_new_file(tmp_path, log, restarts):
    log, footer = tmp_path / "app.log", ["=" * 2000]
    append(log, *numbers(100, 350), *footer)
    tailing = Tailing(log, restarts)
    tailing.batch()
    os.truncate(log, 0)
    again = [*numbers(400, 650), *footer]
    append(log, *again)
    assert tailing.batch() == again


@RESTARTS
def test_a_file_of_the_same_lines_that_was_renamed_is_not_taken_for_the_new_one(log, restarts):
    tailing = tailed(log, *["same"] * 1000, restarts=restarts)
    rotate(log, *["same"] * 2200)
    assert len(tailing.batch()) == 2200


@pytest.mark.xfail(strict=True, reason="the same bytes in the same inode: nothing tells them apart")
def test_a_truncated_file_of_the_same_lines(log):
    tailing = tailed(log, *["same"] * 1000)
    os.truncate(log, 0)
    append(log, *["same"] * 2200)
    assert len(tailing.batch()) == 2200


@RESTARTS
def test_a_file_replaced_by_its_longer_self_goes_on(tmp_path, log, restarts):
    """As rsync and many editors do: another inode with the same lines, and more."""
    tailing = tailed(log, *numbers(1, 500), restarts=restarts)
    append(tmp_path / ".new", *numbers(1, 502))
    (tmp_path / ".new").rename(log)
    assert tailing.batch() == numbers(501, 502)


@RESTARTS
def test_lines_held_back_by_a_limit_are_read_from_the_copy(log, restarts):
    append(log, *numbers(1, 400))
    tailing = Tailing(log, restarts, maxRowsPerTrigger=100)
    rows = tailing.batch()
    copytruncate(log, gap="in no file")
    append(log, "new")
    for _ in range(6):
        rows += tailing.batch()
    assert sorted(rows) == sorted([*numbers(1, 400), "new"])


@RESTARTS
def test_a_directory_that_is_away_for_a_moment(tmp_path, restarts):
    """As when a disk is mounted anew."""
    folder, away = tmp_path / "logs", tmp_path / "away"
    folder.mkdir()
    append(folder / "a", "one")
    append(folder / "b", "two")
    tailing = Tailing(folder / "*", restarts)
    assert sorted(tailing.batch()) == ["one", "two"]
    folder.rename(away)
    folder.mkdir()
    assert tailing.batch() == []
    folder.rmdir()
    away.rename(folder)
    append(folder / "a", "three")
    assert tailing.batch() == ["three"]


@pytest.mark.parametrize("check", [None, "of a stream"])
def test_a_host_that_does_not_see_the_folder_is_named(tmp_path, check) -> None:
    folder = tmp_path / "shared"
    with pytest.raises(FileNotFoundError) as error:
        reopen(Planned(str(folder / "app.log"), "1:2", 4, check), 1 << 20)
    assert str(error.value) == (
        f"host {socket.gethostname()} does not see {folder}: put it on storage that all workers "
        "share, under the same path. If it is not on the driver's machine either, it was deleted"
    )
