"""What all checks say of no answer, and of one of another kind than was asked for."""

from __future__ import annotations

from inspect import signature

import pytest

from tests.unit.workbook.answers import look
from tutorial_pkg.workbook import checks
from tutorial_pkg.workbook.checks import Verdict

ALL = [name.removeprefix("check_") for name in vars(checks) if name.startswith("check_")]
CLASSES = ["01_2", "02_1", "03_2", "09_1", "11_1", "11_2", "19_1"]
OTHERS = ["00_1", "02_2", "04_2", "05_1", "06_2", *(f"12_{n}" for n in range(1, 6)), "13_1"]
FUNCTIONS = sorted({*ALL} - {*CLASSES, *OTHERS})


def said_of(answer: object, number: str) -> Verdict:
    check = getattr(checks, f"check_{number}")
    return check(answer, *[object] * (len(signature(check).parameters) - 1))


@pytest.mark.parametrize("number", ALL)
def test_without_an_answer_nothing_is_judged(number: str) -> None:
    look(said_of(None, number), "– No answer yet: write yours in the cell above.")


@pytest.mark.parametrize("number", FUNCTIONS)
def test_a_function_is_wanted(number: str) -> None:
    look(said_of("text", number), "A function is wanted: def ")


@pytest.mark.parametrize("number", CLASSES)
def test_a_class_is_wanted(number: str) -> None:
    for answer in ("text", object()):
        look(said_of(answer, number), "A class is wanted: class ")
