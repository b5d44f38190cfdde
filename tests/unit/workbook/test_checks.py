"""What all checks say of no answer, and of one of another kind than was asked for."""

from __future__ import annotations

from inspect import signature

import pytest

from tests.unit.workbook.answers import look
from workbook import checks

NAMES = [name for name in vars(checks) if name.startswith("check_")]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_solved_is_noted_under_the_name_of_the_check(name: str) -> None:
    assert getattr(checks, name).__name__ == name


@pytest.mark.parametrize("name", NAMES)
def test_no_answer_and_one_of_another_kind(name: str) -> None:
    check = getattr(checks, name)
    more = [object] * (len(signature(check).parameters) - 1)
    look(check(None, *more), "– No answer yet: write yours in the cell above.")
    if check.wanted:
        kind = "function" if check.wanted.startswith("def ") else "class"
        look(check(object(), *more), f"A {kind} is wanted: {check.wanted}: ...")
