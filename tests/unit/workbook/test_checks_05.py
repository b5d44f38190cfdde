"""The checks of notebook 05: a right answer passes, typical wrong ones get the hint they need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tutorial_pkg.workbook.checks import check_05_1, check_05_2
from tutorial_pkg.workbook.checks.notebook_05 import seconds_behind


def largest() -> float:
    return max(seconds_behind())


def test_05_1_right() -> None:
    assert largest() != int(largest()), "the data should make rounding matter"
    assert check_05_1(int(largest()) + 1).passed
    assert check_05_1(np.int64(largest() + 1)).passed, "pandas gives NumPy's numbers"


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda: "a minute", "A number of seconds is wanted, this is str"),
        (lambda: True, "A number of seconds is wanted, this is bool"),
        (lambda: [82], "A number of seconds is wanted, this is list"),
        (lambda: pd.Timedelta(seconds=82), "this is Timedelta: try total_seconds()"),
        (lambda: float("nan"), "this is nan"),
        (lambda: np.int64(largest()), "lines come behind the watermark"),
        (lambda: -5, "lines come behind the watermark"),
        (lambda: 0, "lines come behind the watermark"),
        (largest, "math.ceil"),
        (lambda: int(largest()), "lines come behind the watermark"),
        (lambda: 60, "lines come behind the watermark"),
        (lambda: int(largest()) + 10, "every result would wait longer"),
        (lambda: round(largest() * 1000), "are these milliseconds?"),
    ],
)
def test_05_1_wrong(answer: Callable[[], object], hint: str) -> None:
    verdict = check_05_1(answer())
    assert not verdict.passed
    assert hint in verdict.message


def right_windows(second: int, length: int = 30, slide: int = 10) -> list[int]:
    return list(range(second // slide * slide, second - length, -slide))


def contains_its_end(second: int, length: int, slide: int) -> list[int]:
    return right_windows(second, length + 1, slide)


def not_before_zero(second: int, length: int, slide: int) -> list[int]:
    return [start for start in right_windows(second, length, slide) if start >= 0]


def by_division(second: int, length: int, slide: int) -> list[int]:
    return right_windows(second // slide * slide, length // slide * slide, slide)


def test_05_2_right() -> None:
    assert right_windows(25) == [20, 10, 0]
    assert check_05_2(right_windows).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ([20, 10, 0], "A function is wanted"),
        (lambda second, length, slide: [second // slide * slide], "there are 3 such windows"),
        (contains_its_end, "a window does not contain its end, so 0 is out"),
        (
            lambda second, length, slide: range(second, second - length, -slide),
            "is no multiple of 10",
        ),
        (
            lambda second, length, slide: [second - back for back in range(0, length + 1, slide)],
            "-5 is no multiple of 10, and windows start only there",
        ),
        (lambda second, length, slide: [100, *right_windows(second)], "are wanted, it gave"),
        (lambda second, length, slide: right_windows(second)[1:], "there are 3 such windows"),
        (not_before_zero, "a window may begin before second 0, and -20 does"),
        (by_division, "windows_of(21, 25, 10): there are 3 such windows, you have 2"),
        (lambda second, length, slide: [20, 20, 10, 0], "each window once"),
        (lambda second, length, slide: None, "raised TypeError"),
        (lambda second: right_windows(second), "raised TypeError"),
        (lambda second, length, slide: right_windows(second, 30, 10), "windows_of(65, 60, 20)"),
    ],
)
def test_05_2_wrong(answer: Callable, hint: str) -> None:
    verdict = check_05_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
