"""Looking at growing files again and again: each line once, from one offset to the next."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.unit.file_lines.driving import Tailing, append, numbers, reader_of, rows, tailed
from tutorial_pkg.connectors.file_lines.line_file import LineFile


def test_half_a_line_is_held_back_until_it_is_whole(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntw")
    tailing = Tailing(log)
    assert tailing.batch() == ["one"]
    assert tailing.batch() == []
    append(log, "o")
    assert tailing.batch() == ["two"]


def test_nothing_new_leaves_the_offset_as_it_is(tmp_path):
    tailing = tailed(tmp_path / "log", "one", pattern="*")
    before = json.dumps(tailing.offset)
    (tmp_path / "log").open("a").write("half a li")
    assert tailing.batch() == []
    assert json.dumps(tailing.offset) == before


def test_a_batch_can_be_read_again_after_more_was_appended(tmp_path):
    log = tmp_path / "log"
    append(log, *numbers(1, 5))
    tailing = Tailing(log)
    tailing.plan()
    append(log, *numbers(6, 9))
    assert tailing.replay() == tailing.replay() == numbers(1, 5)
    assert tailing.batch() == numbers(6, 9)


def test_a_file_that_does_not_exist_yet_is_waited_for(tmp_path):
    tailing = Tailing(tmp_path / "later")
    assert tailing.batch() == []
    append(tmp_path / "later", "one")
    assert tailing.batch() == ["one"]


def test_latest_starts_behind_what_is_there_but_reads_new_files_whole(tmp_path):
    (tmp_path / "old").write_text("skipped\nha")
    tailing = Tailing(tmp_path, startFrom="latest")
    assert tailing.batch() == []
    append(tmp_path / "old", "lf")
    append(tmp_path / "new", "new")
    assert sorted(tailing.batch()) == ["half", "new"]


def test_deleted_files_leave_the_offset(tmp_path):
    for i in range(20):
        append(tmp_path / f"{i:02}", f"file {i}")
    tailing = Tailing(tmp_path)
    assert len(tailing.batch()) == 20
    for i in range(19):
        (tmp_path / f"{i:02}").unlink()
    append(tmp_path / "new", "one more")
    assert tailing.batch() == ["one more"]
    left = {Path(file["path"]).name for file in tailing.offset["files"].values()}
    assert left == {"19", "new"}  # their numbers depend on where the files lie on the disk


def test_from_latest_a_repeated_first_batch_has_nothing_of_before(tmp_path):
    """Spark asks for the initial offset again until it is through; a file may be gone by then."""
    for name in ("a", "b"):
        append(tmp_path / name, f"old {name}")
    first = reader_of(tmp_path, startFrom="latest")
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert first.partitions(first.initialOffset(), end) == []
    for name in ("a", "b"):
        append(tmp_path / name, f"new {name}")
    min(tmp_path.iterdir(), key=lambda file: file.stat().st_ino).unlink()
    repeated = reader_of(tmp_path, startFrom="latest")
    assert repeated.partitions(repeated.initialOffset(), end) == []
    later = repeated.latestOffset(end, ReadAllAvailable())
    [row] = rows(repeated, repeated.partitions(end, later))
    assert row.startswith("new")


def test_from_latest_of_an_empty_folder_all_is_new(tmp_path):
    reader = reader_of(tmp_path, startFrom="latest")
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    append(tmp_path / "log", *numbers(1, 3))
    later = reader.latestOffset(end, ReadAllAvailable())
    assert rows(reader, reader.partitions(end, later)) == numbers(1, 3)


def test_available_now_stops_at_what_there_was(tmp_path):
    append(tmp_path / "log", *numbers(1, 5))
    reader = reader_of(tmp_path, maxRowsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    append(tmp_path / "log", *numbers(6, 9))
    append(tmp_path / "new", "new")
    offsets = [reader.initialOffset()]
    for _ in range(3):
        offsets.append(reader.latestOffset(offsets[-1], reader.getDefaultReadLimit()))
    assert offsets[2] == offsets[3]
    assert rows(reader, reader.partitions(offsets[0], offsets[2])) == numbers(1, 5)


def test_available_now_survives_a_rotation(tmp_path):
    log = tmp_path / "log"
    append(log, *numbers(1, 5))
    reader = reader_of(log, maxRowsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    begin = reader.initialOffset()
    middle = reader.latestOffset(begin, reader.getDefaultReadLimit())
    log.rename(tmp_path / "log.1")
    append(log, "later")
    end = reader.latestOffset(middle, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(middle, end)) == numbers(4, 5)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end


def test_available_now_reads_the_end_of_a_file_that_was_renamed_before(tmp_path):
    log = tmp_path / "log"
    tailing = tailed(log, *numbers(1, 2))
    append(log, *numbers(3, 4))
    log.rename(tmp_path / "log.1")
    reader = tailing.reader()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(tailing.offset, reader.getDefaultReadLimit())
    assert rows(reader, reader.partitions(tailing.offset, end)) == numbers(3, 4)


# ---- A random life -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_random_rotations_lose_and_repeat_nothing(tmp_path, seed):
    chance = random.Random(seed)
    log = tmp_path / "data.csv"
    limits = chance.choice([{}, {"maxRowsPerTrigger": 3}, {"maxBytesPerTrigger": 40}])
    pattern = chance.choice(["data.csv", "*"])
    tailing = Tailing(tmp_path / pattern, **limits)
    read: list[str] = []
    written = rotations = 0
    seen = False  # a file that comes and goes between two looks matches `data.csv` in none
    for _ in range(150):
        action = chance.randrange(10)
        if action < 5:
            lines = numbers(written + 1, written + chance.randrange(1, 6))
            append(log, *lines)
            written += len(lines)
        elif action < 9 or not log.exists():
            before = tailing.offset
            read += tailing.batch()
            assert not went_back(before, tailing.offset)
            seen = log.exists()
        elif seen or pattern == "*":
            seen, rotations = False, rotations + 1
            log.rename(tmp_path / f"data.csv.{rotations}")
    assert sorted(read + tailing.rest()) == sorted(numbers(1, written))


def went_back(before: dict, after: dict) -> bool:
    known = before["files"].keys() & after["files"].keys()
    return any(after["files"][n]["next"] < before["files"][n]["next"] for n in known)


def test_links_are_read_and_those_that_lead_nowhere_are_left_out(tmp_path):
    append(tmp_path / "file", "one")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "file")
    (folder / "gone").symlink_to(tmp_path / "nothing")
    (folder / "loop").symlink_to(folder / "loop")
    assert Tailing(folder).batch() == ["one"]


@pytest.mark.parametrize("restarts", [True, False])
def test_a_file_that_is_replaced_while_it_is_first_opened_is_found_later(
    tmp_path, monkeypatch, restarts
):
    """As between a listing of names and the opening of each."""
    append(tmp_path / "a", "one")
    append(tmp_path / "b", "two")
    really_open = LineFile.__init__

    def replaced(self: LineFile, path: str, most: int) -> None:
        monkeypatch.undo()
        (tmp_path / "a").rename(tmp_path / "c")
        append(tmp_path / "a", "three")
        (tmp_path / "b").unlink()
        really_open(self, path, most)

    monkeypatch.setattr(LineFile, "__init__", replaced)
    assert Tailing(tmp_path, restarts=restarts).rest() == ["one", "three"]


@pytest.mark.parametrize("lines", [1, 200])
def test_a_new_file_is_noted_with_its_end(tmp_path, lines):
    """With the digest of its first KiB, if it has as much."""
    append(tmp_path / "log", *numbers(1, lines))
    tailing = Tailing(tmp_path)
    tailing.batch()
    (noted,) = tailing.offset["files"].values()
    with LineFile(str(tmp_path / "log"), 1 << 20) as file:
        assert noted["check"] == file.check_before(noted["next"])
        assert noted.get("head") == file.head()
        assert noted["next"] == file.size
