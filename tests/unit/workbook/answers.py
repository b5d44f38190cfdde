"""Learners' answers: each is tried on its check, and the verdict must say what is expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from workbook.checks import Verdict


def tried(
    check: Callable[..., Verdict], *answers: tuple[Any, str], more: tuple[Any, ...] = ()
) -> Callable[..., None]:
    """A test for each answer, with a part of what its verdict says; a right answer's begins with ✓.

    `more` is what the check gets besides the answer.
    """

    @pytest.mark.parametrize(("answer", "expected"), answers)
    def test(answer: Any, expected: str) -> None:
        look(check(answer, *more), expected)

    return test


def look(verdict: Verdict, expected: str) -> None:
    assert expected in repr(verdict)
    assert verdict.passed == expected.startswith("✓")


def changed(right: Any, *edits: tuple[str, str]) -> Any:
    """The right answer with a mistake: in its source the first text of each edit is the second."""
    source = inspect.getsource(right)
    for old, new in edits:
        assert old in source, f"{right.__name__} has no {old!r}"
        source = source.replace(old, new)
    names = dict(vars(inspect.getmodule(right)))
    exec(source, names)
    return names[right.__name__]
