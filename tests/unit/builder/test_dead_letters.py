"""The option `deadLetters` of built sources: bad rows are set aside once, and all others arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_connector_tests.query_process import wait_until
from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import DEAD_LETTERS, Buffer, SourceBuilder, SourceContext, builder_status
from tutorial_pkg.builder.instances import Instance

pytestmark = pytest.mark.usefixtures("in_process")

FIRST, SECOND = [0, "one", 2, None, (4, 5)], [b"five", "six"]  # no good row in the second


def letters_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def bad_rows(folder: Path) -> list[str]:
    return sorted(str(letter["row"]) for letter in letters_in(folder))


class Rows:
    """The rows of `FIRST`, then those of `SECOND`."""

    def __init__(self, context: SourceContext) -> None:
        self.waiting = [FIRST, SECOND]

    def fill(self, buffer: Buffer) -> None:
        for row in self.waiting.pop(0) if self.waiting else []:
            buffer.add(row)

    def restore(self, snapshots: list[int]) -> None:
        self.waiting = self.waiting[snapshots[0] :]


def stream() -> Any:
    builder = SourceBuilder.stream("rows", "number LONG", Rows).fill(Rows.fill)
    builder = builder.snapshot(lambda state: 2 - len(state.waiting)).restore(Rows.restore)
    return builder.options(DEAD_LETTERS).build()


def test_stream_sets_bad_rows_aside_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an end between the letters and the frame, the same file is written again."""
    log, folder = tmp_path / "log", tmp_path / "letters"
    options = {"deadLetters": str(folder)}
    with monkeypatch.context() as patch:
        patch.setattr(Instance, "_append", lambda *arguments: 1 // 0)
        with running(stream(), log, **options) as first:
            assert "ZeroDivisionError" in first.failure()
    assert bad_rows(folder) == ["[4, 5]", "one"]
    with running(stream(), log, **options) as second:
        assert second.rows_until(lambda rows: len(rows) == 3) == [0, 2, None]
        wait_until(lambda: len(letters_in(folder)) == 4, 20, "all letters")
        wait_until(lambda: builder_status(log).instances[0].dead_letters == 4, 20, "the count")
    assert bad_rows(folder) == ["Zml2ZQ==", "[4, 5]", "one", "six"]
    with running(stream(), log, second.offset, **options):
        wait_until(lambda: builder_status(log).process is not None, 20, "a start")
    assert len(letters_in(folder)) == 4


def test_repeated_task_replaces_its_letters(tmp_path: Path) -> None:
    rows: list[Any] = [0, "one", 2]
    source = SourceBuilder.replayable(
        "pages", NUMBER, lambda context: {"a": (0, 3)}, lambda context, split, start, end: rows
    )
    texts = {"deadLetters": str(tmp_path)}
    reader = source.options(DEAD_LETTERS).build()(texts).reader(NUMBER)
    [part] = reader.partitions()
    for _ in range(2):
        assert [batch.column(0).to_pylist() for batch in reader.read(part)] == [[0], [2]]
        [letter] = letters_in(tmp_path)
        assert (letter["source"], letter["position"]) == ("pages", ["a", "", 0, 3])
        assert (letter["row"], "`number` BIGINT" in letter["problem"]) == ("one", True)
    rows[1] = 1
    assert [batch.num_rows for batch in reader.read(part)] == [3]
    assert letters_in(tmp_path) == []


def test_cursor_counts_its_letters(tmp_path: Path) -> None:
    def read(context: Any, split: str, position: Any) -> tuple[list[Any], Any]:
        return ([0, "one"], 2) if position is None else ([], position)

    source = SourceBuilder.cursor("pages", "number LONG", read).options(DEAD_LETTERS).build()
    options = {"deadLetters": str(tmp_path / "letters")}
    with running(source, tmp_path / "log", **options) as run:
        assert run.rows_until(lambda rows: len(rows) == 1) == [0]
        status = lambda: builder_status(tmp_path / "log").instances[0]  # noqa: E731
        wait_until(lambda: status().dead_letters == 1, 20, "the count")
    assert bad_rows(tmp_path / "letters") == ["one"]
