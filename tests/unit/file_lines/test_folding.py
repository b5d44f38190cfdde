"""Cost that does not grow with what is finished: notes, small offsets, and files left alone."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.unit.file_lines.driving import Clock, Tailing, age, append, numbers
from tutorial_pkg.connectors.file_lines import folding, watch
from tutorial_pkg.connectors.file_lines.offset import FileOffset
from tutorial_pkg.observe.records import lag

RESTARTS = pytest.mark.parametrize("restarts", [True, False])
MANY = 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A year's logs, none of which has changed of late."""
    monkeypatch.setattr(watch, "_AT_REST_LEAST", MANY)
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(MANY):
        append(folder / f"old.{number}", f"old {number}")
        age(folder / f"old.{number}")
    return folder


def old_lines() -> list[str]:
    return sorted(f"old {number}" for number in range(MANY))


def notes_of(folder: Path) -> list[Path]:
    return sorted((folder / "_file_lines").iterdir())


@pytest.fixture
def everything_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold what there is, after each batch."""
    monkeypatch.setattr(folding, "FOLD_FILES", 1)
    monkeypatch.setattr(watch.Watch, "restless", lambda *_: set())


# ---- Small offsets -------------------------------------------------------------------------------


@RESTARTS
@pytest.mark.parametrize("limits", [{}, {"maxRowsPerTrigger": 70}])
def test_files_at_rest_leave_the_offset(folder, restarts, limits):
    append(folder / "live", "one")
    tailing = Tailing(folder, restarts, **limits)
    assert tailing.rest() == sorted([*old_lines(), "one"])
    assert len(tailing.offset["files"]) < folding.FOLD_FILES
    assert tailing.offset["seen"] == MANY + 1
    assert {note.stem for note in notes_of(folder)} >= set(tailing.offset["folded"]) > set()
    assert tailing.batch() == []


@RESTARTS
def test_few_files_are_not_folded(tmp_path, restarts):
    for number in range(folding.FOLD_FILES - 1):
        append(tmp_path / str(number), "line")
        age(tmp_path / str(number))
    tailing = Tailing(tmp_path, restarts)
    tailing.batch()
    assert "folded" not in tailing.offset
    assert not (tmp_path / "_file_lines").exists()


@RESTARTS
def test_a_folded_file_that_grows_rotates_or_comes_back_is_known_again(folder, restarts):
    tailing = Tailing(folder, restarts)
    assert tailing.rest() == old_lines()
    append(folder / "old.3", "grown")
    assert tailing.batch() == ["grown"]
    (folder / "old.4").rename(folder / "old.4.gone")
    append(folder / "old.4", "in its place")
    append(folder / "old.4.gone", "late")
    assert sorted(tailing.batch()) == ["in its place", "late"]
    shutil.copy2(folder / "old.5", folder.parent / "copy")  # with its old time
    (folder.parent / "copy").rename(folder / "old.5")
    append(folder / "new", "new, with an old time")
    age(folder / "new")
    assert tailing.batch() == ["new, with an old time"]
    append(folder / "old.5", "after its return")
    age(folder / "old.5")
    assert tailing.batch() == ["after its return"]
    assert tailing.batch() == []


@RESTARTS
def test_a_folded_file_that_is_deleted_is_forgotten(folder, restarts):
    tailing = Tailing(folder, restarts)
    tailing.rest()
    for number in range(MANY // 2):
        (folder / f"old.{number}").unlink()
    append(folder / "new", "new")
    assert tailing.batch() == ["new"]
    known = folding.FoldedFiles(str(folder / "_file_lines")).all_of(
        FileOffset.from_json(tailing.offset)
    )
    assert len(known) == MANY - MANY // 2 + 1


def test_what_was_read_and_folded_is_no_lag(folder):
    tailing = Tailing(folder, restarts=False)
    assert sorted(tailing.batch()) == old_lines()
    assert tailing.offset["folded"]
    assert lag_of(tailing) == 0
    append(folder / "old.7", "more")
    for batch in ["more"], []:
        assert tailing.batch() == batch
        assert lag_of(tailing) == 0


def test_the_lag_is_the_bytes_that_a_limit_leaves(folder, everything_rests):
    left = sum(len(line) + 1 for line in old_lines())
    tailing = Tailing(folder, restarts=False, maxBytesPerTrigger=500)
    while left:
        left -= sum(len(line) + 1 for line in tailing.batch())
        assert lag_of(tailing) == left
    assert tailing.offset["folded"]
    assert tailing.batch() == []
    assert lag_of(tailing) == 0


def lag_of(tailing: Tailing) -> float | None:
    """As a query's progress tells it after the batch."""
    latest = json.dumps(tailing.reader().reportLatestOffset())
    source = SimpleNamespace(endOffset=json.dumps(tailing.offset), latestOffset=latest)
    return lag(SimpleNamespace(sources=[source]))


def test_an_old_checkpoint_finds_its_notes(folder, everything_rests):
    """Notes are never changed, and those that were joined stay."""
    tailing = Tailing(folder)
    tailing.batch()
    restored, live = tailing.offset, folder / "live"
    for number in range(30):
        append(live, f"line {number}")
        tailing.batch()
    tailing.offset = restored
    assert tailing.batch() == [f"line {number}" for number in range(30)]
    assert len(tailing.offset["folded"]) < 6


@pytest.mark.parametrize("is_earlier", [False, True])
def test_a_file_is_found_by_its_line_of_a_note(folder, monkeypatch, is_earlier):
    """A note of an earlier version is the same JSON in one line."""
    monkeypatch.setattr(folding, "_LINE_FILES", 7)
    tailing = Tailing(folder)
    tailing.batch()
    (note,) = notes_of(folder)
    assert note.read_bytes().count(b"\n") == MANY // 7
    if is_earlier:
        data = json.dumps(json.loads(note.read_bytes()), separators=(",", ":")).encode()
        tailing.offset["folded"] = [folding._digest(data)]
        note.with_stem(folding._digest(data)).write_bytes(data)
        note.unlink()
    notes, offset = folding.FoldedFiles(str(note.parent)), FileOffset.from_json(tailing.offset)
    known = notes.all_of(offset)
    assert len(known) == MANY
    assert {number: notes.find(offset, number) for number in known} == known
    assert notes.find(offset, MANY) is None
    append(folder / "old.7", "more")
    assert tailing.batch() == ["more"]


def test_without_its_note_a_query_says_what_to_do(folder):
    tailing = Tailing(folder)
    tailing.batch()
    (note,) = notes_of(folder)
    content = note.read_bytes()
    for damage in (note.unlink, lambda: note.write_bytes(content[:-1])):
        damage()
        with pytest.raises(ValueError) as error:
            tailing.batch()
        assert str(error.value) == (
            f"{note} is missing or damaged, and the checkpoint needs it: it holds how far files "
            "at rest were read; put it back, let option `notesDirectory` name where it is, "
            "or start with a new checkpoint directory"
        )


def test_the_notes_may_be_elsewhere(folder, tmp_path):
    tailing = Tailing(folder, notesDirectory=tmp_path / "notes")
    assert tailing.rest() == old_lines()
    assert len(list((tmp_path / "notes").iterdir())) == 1
    assert not (folder / "_file_lines").exists()


def test_a_place_for_notes_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="option `notesDirectory` must be a local directory, or a"):
        Tailing(tmp_path, notesDirectory=tmp_path / "no" / "notes")


@RESTARTS
def test_where_no_notes_can_be_written_the_offset_names_each_file(folder, restarts, caplog):
    (folder / "_file_lines").touch()
    tailing = Tailing(folder, restarts)
    assert tailing.rest() == old_lines()
    assert len(tailing.offset["files"]) == MANY
    assert "_file_lines: no notes of files at rest can be written (File exists)" in "\n".join(
        caplog.messages
    )
    append(folder / "old.7", "more")
    assert tailing.batch() == ["more"]


def test_a_note_is_whole_or_not_there(folder, monkeypatch):
    """A driver killed while it writes one leaves a draft, which nothing reads."""
    with monkeypatch.context() as killed:
        killed.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        tailing = Tailing(folder)
        with pytest.raises(KeyboardInterrupt):
            tailing.batch()
    assert sorted(tailing.batch()) == old_lines()
    assert tailing.batch() == []


def test_an_offset_of_version_0_1_0(tmp_path):
    """Its files were copied since, so that only names and bytes tell what they are."""
    written = Path(__file__).parents[2] / "earlier" / "written"
    shutil.copytree(written / "lines", tmp_path / "lines")
    last = (written / "lines_checkpoint" / "offsets" / "0").read_text().splitlines()[-1]
    tailing = Tailing(tmp_path / "lines")
    tailing.offset = json.loads(last.replace("@DIRECTORY@", str(tmp_path)))
    assert FileOffset.from_json(tailing.offset).to_json() == tailing.offset
    append(tmp_path / "lines" / "app.log", "f", "four")
    assert tailing.batch() == ["half", "four"]
    assert tailing.batch() == []


# ---- Files left alone ----------------------------------------------------------------------------


def test_unchanged_files_are_not_opened(folder, monkeypatch):
    append(folder / "live", "one")
    tailing = Tailing(folder, restarts=False)
    tailing.batch()
    age(folder / "live")
    tailing.batch()
    opened = spied(monkeypatch, os, "open")
    assert tailing.batch() == []
    assert opened == []
    append(folder / "live", "two")
    assert tailing.batch() == ["two"]
    assert set(opened) == {str(folder / "live")}


def spied(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[str]:
    """The first arguments of all calls of a function from now on."""
    calls: list[str] = []
    function = getattr(module, name)

    def spy(first, *args, **kwargs):
        calls.append(first)
        return function(first, *args, **kwargs)

    monkeypatch.setattr(module, name, spy)
    return calls


def test_files_at_rest_are_looked_at_in_turns(folder, monkeypatch):
    monkeypatch.setattr(watch, "_AT_REST_LEAST", 10)
    clock = Clock()
    look = watch.Watch(str(folder), lambda _: True, 60, clock).look
    assert len(look()) == MANY
    asked = spied(monkeypatch, watch, "found_file")
    assert not look()
    assert len(asked) == 10
    clock.now += watch.AT_REST_EVERY / 2
    look()
    assert len(asked) == 10 + MANY // 2
    clock.now += watch.AT_REST_EVERY / 2
    look()
    look()  # the ten that were asked in the first look, too
    assert set(asked) == {str(file) for file in folder.iterdir()}


@pytest.mark.parametrize("skew", [-1e6, 0, 1e6])
def test_clocks_decide_when_not_what(folder, monkeypatch, skew):
    """The clock that makes the times of files may be another one, or be set."""
    asked = []

    def clock() -> float:
        asked.append(skew)
        return 1_700_000_000 + skew

    monkeypatch.setattr(watch.Watch.__init__, "__defaults__", (clock,))
    tailing = Tailing(folder, restarts=False)
    assert tailing.rest() == old_lines()
    for number in range(5):
        append(folder / "live", f"line {number}")
        os.utime(folder / "live", (1_700_000_000,) * 2)
        append(folder / f"old.{number}", f"more {number}")
        assert sorted(tailing.batch()) == [f"line {number}", f"more {number}"]
    assert asked


# ---- A random life -------------------------------------------------------------------------------


@RESTARTS
@pytest.mark.parametrize("seed", range(6))
def test_random_lives_of_folded_files(tmp_path, everything_rests, restarts, seed):
    chance = random.Random(seed)
    tailing = Tailing(tmp_path / "*", restarts, **chance.choice([{}, {"maxRowsPerTrigger": 3}]))
    read: list[str] = []
    written = 0
    names = iter(range(1_000_000))
    for _ in range(120):
        files = [file for file in tmp_path.iterdir() if file.is_file()]
        action = chance.randrange(10)
        if action < 5 or not files:
            place = chance.choice([*files, tmp_path / f"file.{next(names)}"])
            lines = numbers(written + 1, written + chance.randrange(1, 6))
            append(place, *lines)
            written += len(lines)
        elif action < 7:
            chance.choice(files).rename(tmp_path / f"file.{next(names)}")
        else:
            read += tailing.batch()
    assert sorted(read + tailing.rest()) == sorted(numbers(1, written))
    assert tailing.offset["files"] == {}
