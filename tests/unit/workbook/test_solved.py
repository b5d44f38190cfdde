"""Solved exercises are recorded in a notebook, and nowhere else; `progress` shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from workbook import __main__, checks, solved
from workbook.checks import the_solution
from workbook.checks.verdict import Case, compare, exercise

ROOT = Path(__file__).parents[3]


@exercise("def twice(number)")
def check_03_1(answer: Callable[[int], int]) -> str:
    compare(answer, [Case((2,), 4, "2 and 2 make 4.")])
    return "Right."


def twice(number: int) -> int:
    return 2 * number


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two notebooks; this process counts as a notebook's."""
    new = nbformat.v4
    (tmp_path / "notebooks").mkdir()
    for name, *headings in (
        ("00_start.ipynb", "# Start", "## Exercise: a plan"),
        ("03_lines.ipynb", "# Lines", "## Exercises 1 to 2: half a line", "## Exercise 3: no end"),
    ):
        cells = [new.new_markdown_cell(heading) for heading in headings]
        nbformat.write(new.new_notebook(cells=cells), tmp_path / "notebooks" / name)
    (tmp_path / "environment.yml").touch()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(solved, "_in_a_notebook", lambda: True)
    return tmp_path


def test_progress_shows_solved_and_next(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solved.record_solved("check_00_1")
    assert check_03_1(twice).passed
    __main__.main(["progress"])
    assert capsys.readouterr().out.splitlines() == [
        "00 Start  ✓",
        "03 Lines  ✓ – –",
        "",
        "2 of 4 exercises are solved. Next: notebook 03, exercise 2: half a line.",
    ]


def test_only_right_answers_in_a_notebook_count(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not check_03_1(abs).passed
    assert the_solution(check_03_1)(twice).passed
    assert solved.solved() == set()
    monkeypatch.setattr(solved, "_in_a_notebook", lambda: False)
    assert check_03_1(twice).passed
    assert solved.solved() == set()


def test_each_exercise_has_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    headings = {check for lesson in solved._lessons() for check in lesson.exercises}
    assert headings == {name for name in vars(checks) if re.fullmatch(r"check_\d\d_\d", name)}
