"""What is solved is noted in a notebook, and nowhere else; `progress` shows it."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import nbformat
import pytest

from workbook import __main__, checks, solved
from workbook.checks import check_04_1, the_solution
from workbook.checks.verdict import exercise

ROOT = Path(__file__).parents[3]


def cut(rest: bytes, received: bytes) -> tuple[list[str], bytes]:
    *lines, rest = (rest + received).split(b"\n")
    return [line.decode() for line in lines], rest


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two notebooks; this process counts as a notebook's."""
    new = nbformat.v4
    for name, *headings in (
        ("00_start.ipynb", "# Start", "## Exercise: a plan"),
        ("04_lines.ipynb", "# Lines", "## Exercises 1 to 2: half a line", "## Exercise 3: no end"),
    ):
        cells = [new.new_markdown_cell(heading) for heading in headings]
        (tmp_path / "notebooks").mkdir(exist_ok=True)
        nbformat.write(new.new_notebook(cells=cells), tmp_path / "notebooks" / name)
    (tmp_path / "environment.yml").touch()
    monkeypatch.chdir(tmp_path / "notebooks")
    monkeypatch.setattr(solved, "_in_a_notebook", lambda: True)
    return tmp_path


def test_what_is_solved_and_what_comes_next(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert solved.progress().splitlines()[-1].startswith("0 of 4 exercises are solved. Next: ")
    solved.note_solved("check_00_1")
    assert check_04_1(cut).passed
    assert __main__.main(["progress"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "00 Start  ✓",
        "04 Lines  ✓ – –",
        "",
        "2 of 4 exercises are solved. Next: notebook 04, exercise 2: half a line.",
    ]
    for number in (2, 3):
        solved.note_solved(f"check_04_{number}")
    assert solved.progress().endswith("4 of 4 exercises are solved.")
    assert __main__.main(["progress", "--reset"]) == 0
    assert capsys.readouterr().out.startswith("Forgotten: 4 solved exercises.\n00 Start  –\n")


def test_wrong_answers_and_the_solution_are_not_noted(project: Path) -> None:
    assert not check_04_1(None).passed
    assert not check_04_1(lambda rest, received: ([], b"")).passed
    assert the_solution(check_04_1)(cut).passed
    assert solved.solved() == set()


def test_nothing_is_noted_outside_of_a_notebook(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(project)
    assert check_04_1(cut).passed
    assert not (project / ".work").exists()


def test_many_kernels_note_side_by_side(project: Path) -> None:
    names = [f"check_04_{number}" for number in range(1, 51)]
    threads = [threading.Thread(target=solved.note_solved, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert solved.solved() == set(names)


def test_what_others_left_in_the_folder_does_no_harm(project: Path) -> None:
    solved.note_solved("check_04_1")
    (project / ".work" / "progress" / "check_99_9").write_bytes(b"\xff\0")
    assert "1 of 4 exercises are solved" in solved.progress()


def test_a_folder_that_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict stands, and says what it could not do."""
    (project / ".work").write_text("a file where the folder belongs")
    verdict = check_04_1(cut)
    assert verdict.passed
    assert "Your progress cannot be noted: " in verdict.message
    assert "0 of 4 exercises are solved" in solved.progress()


def test_there_is_no_workbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert solved.progress().startswith("There are no notebooks in ")


def test_an_exercise_has_the_name_of_its_check(project: Path) -> None:
    check = exercise(name="check_12_2")(lambda answer: "well done")
    assert check(1).passed
    assert solved.solved() == {"check_12_2"}


def test_each_exercise_of_the_workbook_has_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    headings = {one.check for lesson in solved._lessons() for one in lesson.exercises}
    assert headings == {name for name in vars(checks) if re.fullmatch(r"check_\d\d_\d", name)}
