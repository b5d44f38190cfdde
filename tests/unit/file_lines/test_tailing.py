"""Looking at growing files again and again: each line once, from one offset to the next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.unit.file_lines.driving import Tailing, append, numbers, tailed
from tutorial_pkg.connectors.file_lines import tailing as tailing_module
from tutorial_pkg.connectors.file_lines.line_file import LineFile


@pytest.mark.parametrize("name", ["later", "*.later"])
def test_a_missing_file_is_waited_for(tmp_path, name):
    tailing = Tailing(tmp_path / name)
    assert tailing.batch() == []
    append(tmp_path / name, "one")
    assert tailing.batch() == ["one"]


def test_latest_skips_old_lines_only(tmp_path):
    """Spark repeats the first batch until it is done, and a file may be gone by then."""
    (tmp_path / "old").write_text("skipped\nha")
    append(tmp_path / "gone", "skipped")
    tailing = Tailing(tmp_path, startFrom="latest")
    assert tailing.batch() == []
    (tmp_path / "gone").unlink()
    append(tmp_path / "old", "lf")
    append(tmp_path / "new", "new")
    assert tailing.replay() == []
    assert sorted(tailing.batch()) == ["half", "new"]


def test_available_now_stops_at_what_there_was(tmp_path):
    log = tmp_path / "log"
    tailing = tailed(log, "old", restarts=False, maxRowsPerTrigger=2)
    append(log, *numbers(1, 5))
    log.rename(tmp_path / "log.1")
    tailing.reader().prepareForTriggerAvailableNow()
    append(tmp_path / "log.1", *numbers(6, 9))
    append(log, "new")
    assert tailing.rest() == numbers(1, 5)


def test_unchanged_files_are_not_opened(tmp_path, monkeypatch):
    for name in "abc":
        append(tmp_path / name, name)
    tailing = Tailing(tmp_path, restarts=False)
    assert sorted(tailing.batch()) == ["a", "b", "c"]
    opened: list[str] = []
    really_open = LineFile.__init__

    def spy(self: LineFile, path: str, *arguments: object) -> None:
        opened.append(Path(path).name)
        really_open(self, path, *arguments)

    monkeypatch.setattr(LineFile, "__init__", spy)
    assert tailing.batch() == []
    append(tmp_path / "b", "more")
    assert tailing.batch() == ["more"]
    assert set(opened) == {"b"}


def test_many_idle_files_are_listed_less_often(tmp_path, monkeypatch):
    monkeypatch.setattr(tailing_module, "MANY_FILES", 0)
    now = [100.0]
    monkeypatch.setattr(tailing_module.time, "monotonic", lambda: now[0])
    really_list = tailing_module.list_files

    def slow(*words):
        now[0] += 0.5
        return really_list(*words)

    monkeypatch.setattr(tailing_module, "list_files", slow)
    tailing = tailed(tmp_path / "log", "one", pattern="*", restarts=False)
    assert tailing.batch() == []
    append(tmp_path / "log", "two")
    assert tailing.batch() == []
    now[0] += 2.0
    assert tailing.batch() == ["two"]


# ---- Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "limits", "batches"),
    [
        (numbers(1, 10), {"maxRowsPerTrigger": 4}, [4, 4, 2, 0]),
        (["aaaa", "bbbb", "cccc", "dddd"], {"maxBytesPerTrigger": 6}, [2, 2, 0]),  # whole lines
        (["a" * 50, "b" * 50], {"maxBytesPerTrigger": 1}, [1, 1, 0]),  # still moves on
        (numbers(1, 9), {"maxRowsPerTrigger": 2, "maxBytesPerTrigger": 50}, [2, 2, 2, 2, 1, 0]),
        (numbers(1, 3), {"maxRowsPerTrigger": 8, "maxBytesPerTrigger": 7}, [1, 1, 1, 0]),
    ],
)
def test_a_batch_keeps_its_limits(tmp_path, lines, limits, batches):
    append(tmp_path / "log", *lines)
    tailing = Tailing(tmp_path, **limits)
    parts = [tailing.batch() for _ in batches]
    assert [len(part) for part in parts] == batches
    assert [line for part in parts for line in part] == lines


def test_a_limit_is_shared_by_all_files(tmp_path):
    for name, count in (("big", 100), ("small", 1), ("middle", 50)):
        append(tmp_path / name, *[name] * count)
    batch = Tailing(tmp_path, maxRowsPerTrigger=11).batch()
    assert Counter(batch) == {"small": 1, "middle": 5, "big": 5}
