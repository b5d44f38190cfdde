"""Solved exercises are recorded in a notebook, and nowhere else; `progress` shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

import workbook
from workbook import __main__, checks, solved
from workbook.checks import the_solution
from workbook.checks.verdict import Case, compare, exercise

ROOT = Path(__file__).parents[3]
EXERCISE = re.compile(r"^## Exercises?(?: (\d+))?(?: to (\d+))?: ", re.M)


@exercise("def twice(number)")
def check_04_1(answer: Callable[[int], int]) -> str:
    compare(answer, [Case((2,), 4, "2 and 2 make 4.")])
    return "Right."


def twice(number: int) -> int:
    return 2 * number


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two notebooks; this process counts as a notebook's."""
    new = nbformat.v4
    (tmp_path / "notebooks").mkdir()
    for name, title in (
        ("00_start.ipynb", "# Start"),
        ("04_lines.ipynb", "# Lines"),
    ):
        cells = [new.new_markdown_cell(title)]
        nbformat.write(new.new_notebook(cells=cells), tmp_path / "notebooks" / name)
    (tmp_path / "environment.yml").touch()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(solved, "get_ipython", object)
    return tmp_path


def test_progress_shows_solved_and_next(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solved.record_solved("check_00_1")
    assert check_04_1(twice).passed
    __main__.main(["progress"])
    assert capsys.readouterr().out.splitlines() == [
        f"00 {'Start':42}  ✓",
        f"04 {'Lines':42}  ✓ –",
        "",
        "2 of 3 exercises are solved. Next: notebook 04, exercise 2.",
    ]


def test_only_right_answers_in_a_notebook_count(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not check_04_1(abs).passed
    assert the_solution(check_04_1)(twice).passed
    assert solved.solved() == set()
    monkeypatch.setattr(solved, "get_ipython", lambda: None)
    assert check_04_1(twice).passed
    assert solved.solved() == set()


def test_each_exercise_has_a_check() -> None:
    headings = set()
    for file in ROOT.glob("notebooks/*.ipynb"):
        for match in EXERCISE.finditer(
            "\n".join(cell.source for cell in nbformat.read(file, 4).cells)
        ):
            first = int(match[1] or 1)
            numbers = range(first, int(match[2] or first) + 1)
            headings |= {f"check_{file.name[:2]}_{number}" for number in numbers}
    assert headings == {name for name in vars(checks) if re.fullmatch(r"check_\d\d_\d", name)}
    assert headings <= set(workbook.__all__)
