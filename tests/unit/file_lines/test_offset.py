"""Offsets stay small: the positions of resting files are in notes beside the files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.file_lines.driving import Tailing, append, numbers
from tutorial_pkg.connectors.file_lines import offset as offset_module
from tutorial_pkg.connectors.file_lines.offset import FileOffset, Notes
from tutorial_pkg.observe.records import lag

RESTARTS = pytest.mark.parametrize("restarts", [True, False])
MANY = 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(MANY):
        append(folder / f"old.{number}", f"old {number}")
    return folder


def old_lines() -> list[str]:
    return sorted(f"old {number}" for number in range(MANY))


def notes_of(folder: Path) -> list[Path]:
    return sorted((folder / "_file_lines").iterdir())


@RESTARTS
@pytest.mark.parametrize("limits", [{}, {"maxRowsPerTrigger": 70}])
def test_resting_files_leave_the_offset(folder, restarts, limits):
    tailing = Tailing(folder, restarts, **limits)
    assert tailing.rest() == old_lines()
    assert len(tailing.offset["files"]) < offset_module.FOLD_FILES
    assert tailing.offset["seen"] == MANY
    assert {note.stem for note in notes_of(folder)} >= set(tailing.offset["folded"]) > set()
    assert tailing.batch() == []


@RESTARTS
def test_resting_files_are_still_known(folder, restarts):
    tailing = Tailing(folder, restarts)
    assert tailing.rest() == old_lines()
    append(folder / "old.3", "grown")
    assert tailing.batch() == ["grown"]
    (folder / "old.4").rename(folder / "old.4.gone")
    append(folder / "old.4", "in its place")
    append(folder / "old.4.gone", "late")
    assert sorted(tailing.batch()) == ["in its place", "late"]
    for number in range(100, MANY):
        (folder / f"old.{number}").unlink()
    append(folder / "new", "new")
    assert tailing.batch() == ["new"]
    offset = FileOffset.from_json(tailing.offset)
    assert len(Notes(str(folder / "_file_lines")).all_files(offset)) == 102


def test_the_lag_counts_what_a_limit_leaves(folder):
    unread = sum(len(line) + 1 for line in old_lines())
    tailing = Tailing(folder, restarts=False, maxBytesPerTrigger=500)
    while unread:
        unread -= sum(len(line) + 1 for line in tailing.batch())
        latest = json.dumps(tailing.reader().reportLatestOffset())
        source = SimpleNamespace(endOffset=json.dumps(tailing.offset), latestOffset=latest)
        assert lag(SimpleNamespace(sources=[source])) == unread


def test_an_old_checkpoint_finds_its_notes(folder, monkeypatch):
    monkeypatch.setattr(offset_module, "FOLD_FILES", 1)
    monkeypatch.setattr(offset_module, "MOST_NOTES", 5)
    tailing = Tailing(folder)
    tailing.batch()
    restored = tailing.offset
    for number in range(30):
        append(folder / "live", f"line {number}")
        tailing.batch()
        assert len(tailing.offset["folded"]) <= 5
    tailing.offset = restored
    assert tailing.batch() == [f"line {number}" for number in range(30)]


def test_a_missing_or_damaged_note_is_an_error(folder):
    tailing = Tailing(folder)
    tailing.batch()
    (note,) = notes_of(folder)
    content = note.read_bytes()
    for damage in (note.unlink, lambda: note.write_bytes(content[:-1])):
        damage()
        with pytest.raises(ValueError, match=f"{note} is missing or damaged"):
            tailing.batch()


def test_notes_may_be_in_another_directory(folder, tmp_path, caplog):
    tailing = Tailing(folder, notesDirectory=tmp_path / "notes")
    assert tailing.rest() == old_lines()
    assert len(list((tmp_path / "notes").iterdir())) == 1
    assert not (folder / "_file_lines").exists()
    tailing = Tailing(folder, notesDirectory=folder / "old.1")
    assert tailing.rest() == old_lines()
    assert len(tailing.offset["files"]) == MANY
    assert "notesDirectory" in caplog.text


@RESTARTS
@pytest.mark.parametrize("seed", range(4))
def test_random_renames_lose_nothing(tmp_path, monkeypatch, restarts, seed):
    monkeypatch.setattr(offset_module, "FOLD_FILES", 1)
    monkeypatch.setattr(offset_module, "MOST_NOTES", 3)
    chance = random.Random(seed)
    limits = chance.choice([{}, {"maxRowsPerTrigger": 3}, {"maxBytesPerTrigger": 40}])
    tailing = Tailing(tmp_path / "*", restarts, restAfter=1, **limits)
    read: list[str] = []
    written = 0
    for name in range(120):
        files = [file for file in tmp_path.iterdir() if file.is_file()]
        action = chance.randrange(10)
        if action < 5 or not files:
            lines = numbers(written + 1, written + chance.randrange(1, 6))
            append(chance.choice([*files, tmp_path / f"file.{name}"]), *lines)
            written += len(lines)
        elif action < 7:
            chance.choice(files).rename(tmp_path / f"file.{name}")
        else:
            read += tailing.batch()
    assert sorted(read + tailing.rest()) == sorted(numbers(1, written))
    assert tailing.offset["folded"]
