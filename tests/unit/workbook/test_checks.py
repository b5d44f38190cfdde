"""Each check of an exercise: a right answer passes, typical wrong ones get the hint they need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tutorial_pkg.workbook.checks import Verdict, check_01_1, check_01_2, the_solution


def right_escape(item: str) -> str:
    return item.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def test_a_verdict_is_one_line() -> None:
    assert repr(Verdict(True, "right.")) == "✓ right."
    assert repr(Verdict(False, "not yet.")) == "✗ not yet."


def test_a_tick_is_for_the_learner_s_own_answer() -> None:
    assert repr(check_01_1(None)) == "– No answer yet: write yours in the cell above."
    assert repr(the_solution(check_01_1(right_escape))).startswith("✓ the solution: One item")
    assert not the_solution(check_01_1(str.upper)).passed


def test_01_1_right() -> None:
    assert check_01_1(right_escape).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (lambda item: None, "must return a string"),
        (lambda item: item[99], "must return a string"),
        (lambda item: item, "still spans two lines"),
        (lambda item: item.replace("\n", "\\n"), "still spans two lines"),
        (lambda item: item.replace("\n", "\\n").replace("\r", "\\r"), "come out alike"),
        (
            # The backslash last doubles those that the newline has just brought in.
            lambda i: i.replace("\n", "\\n").replace("\r", "\\r").replace("\\", "\\\\"),
            "come out alike",
        ),
        (lambda item: right_escape(item).replace(",", "\\,"), "A comma needs no escape"),
        (lambda item: repr(item).replace("'", ""), None),
        (repr, "repr() puts quotes around a text"),
        (lambda item: f" {right_escape(item)}", "must stay as it is"),
        (lambda item: right_escape(item).encode(), "must return a string"),
        (lambda i: i.replace("%", "%%").replace("\n", "%n").replace("\r", "%r"), "Use exactly"),
    ],
)
def test_01_1_wrong(answer: object, hint: str | None) -> None:
    verdict = check_01_1(answer)
    if hint is None:  # repr() happens to escape just like that
        assert verdict.passed
    else:
        assert not verdict.passed
        assert hint in verdict.message


LINE = "1583309377078,0.502024,SimpleEvent(timestamp=10:09:37.000, sequence=2900)\n"


def folder_with(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"data.{name[1:]}.csv").write_text(text)
    return folder


def test_01_2_right(tmp_path: Path) -> None:
    assert check_01_2(folder_with(tmp_path, p0=LINE * 20, p1=LINE * 20, p2=LINE * 20)).passed


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({}, "There is no data.*.csv"),
        ({"p0": LINE}, "repartition(3)"),
        ({"p0": LINE, "p1": LINE, "p2": LINE, "p3": LINE}, "repartition(3)"),
        ({"p0": LINE, "p1": "item only\n", "p2": LINE}, "not of a CPU log: 'item only'"),
        ({"p0": "", "p1": "", "p2": ""}, "The files are empty"),
    ],
)
def test_01_2_wrong(tmp_path: Path, files: dict[str, str], hint: str) -> None:
    verdict = check_01_2(folder_with(tmp_path, **files))
    assert not verdict.passed
    assert hint in verdict.message
