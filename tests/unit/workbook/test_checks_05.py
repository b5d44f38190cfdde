"""The checks of notebook 05."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from tests.unit.workbook.answers import tried
from workbook.checks import check_05_1, check_05_2
from workbook.checks.notebook_05 import seconds_behind

LARGEST = max(seconds_behind())
assert int(LARGEST) != LARGEST, "the data should make rounding matter"

test_05_1 = tried(
    check_05_1,
    (int(LARGEST) + 1, "✓ Nothing is late"),
    (np.int64(LARGEST + 1), "✓ Nothing is late"),  # pandas gives NumPy's numbers
    ("a minute", "A number of seconds is wanted, this is str"),
    (True, "A number of seconds is wanted, this is bool"),
    ([82], "A number of seconds is wanted, this is list"),
    (pd.Timedelta(seconds=82), "this is Timedelta: try total_seconds()"),
    (float("nan"), "this is nan"),
    (np.int64(LARGEST), "lines come behind the watermark"),
    (-5, "lines come behind the watermark"),
    (0, "lines come behind the watermark"),
    (60, "lines come behind the watermark"),
    (LARGEST, "math.ceil"),
    (int(LARGEST) + 10, "every result would wait longer"),
    (round(LARGEST * 1000), "are these milliseconds?"),
)


def windows(second: int, length: int = 30, slide: int = 10) -> list[int]:
    return list(range(second // slide * slide, second - length, -slide))


def contains_its_end(second: int, length: int, slide: int) -> list[int]:
    return windows(second, length + 1, slide)


def not_before_zero(second: int, length: int, slide: int) -> list[int]:
    return [start for start in windows(second, length, slide) if start >= 0]


def by_division(second: int, length: int, slide: int) -> list[int]:
    return windows(second // slide * slide, length // slide * slide, slide)


def ten_for_the_last(second: int, length: int = 30, slide: int = 10) -> list[int]:
    return [*range(second // 10 * 10, second - length, -slide)]


def toward_zero(second: int, length: int = 30, slide: int = 10) -> list[int]:
    return [*range(int(second / slide) * slide, second - length, -slide)]


def as_many_as_fit(second: int, length: int = 30, slide: int = 10) -> list[int]:
    last = second // slide * slide
    return [last - slide * back for back in range(math.ceil(length / slide))]


def as_many_unless_in_a_gap(second: int, length: int = 30, slide: int = 10) -> list[int]:
    return as_many_as_fit(second, length, slide) if second % slide < length else []


def one_length_before_zero(second: int, length: int = 30, slide: int = 10) -> list[int]:
    first = -(length // slide) * slide
    return [start for start in range(first, second + 1, slide) if start + length > second]


def one_by_one(second: int, length: int = 30, slide: int = 10) -> Iterator[int]:
    yield from windows(second, length, slide)


def numpy_windows(second: int, length: int = 30, slide: int = 10) -> Any:
    return np.array(windows(second, length, slide))[::-1]


test_05_2 = tried(
    check_05_2,
    (windows, "✓ All windows that contain it"),
    (lambda second, length, slide: [second // slide * slide], "as long as they reach the event"),
    (contains_its_end, "A window contains its start, and not its end: 0 is out"),
    (lambda second, length, slide: range(second, second - length, -slide), "at multiples of"),
    (lambda s, length, slide: [s - b for b in range(0, length + 1, slide)], "at multiples of"),
    (lambda second, length, slide: [100, *windows(second)], "yours is [0, 10, 20, 100]"),
    (lambda second, length, slide: windows(second)[1:], "must be [0, 10, 20], yours is [0, 10]"),
    (not_before_zero, "A window may begin before second 0, and -20 does"),
    (by_division, "by_division(21, 25, 10) must be [0, 10, 20], yours is [10, 20]"),
    (lambda second, length, slide: [20, 20, 10, 0], "yours is [0, 10, 20, 20]"),
    (lambda second, length, slide: None, "A list of starts is wanted, not None"),
    (lambda second, length, slide: 3, "A list of starts is wanted, not 3"),
    (lambda second: windows(second), "raised TypeError"),
    (lambda second, length, slide: windows(second, 30, 10), "answer(75, 60, 20)"),
    (ten_for_the_last, "(75, 60, 20) must be [20, 40, 60], yours is [30, 50, 70]"),
    (numpy_windows, "✓ All windows that contain it"),
    (lambda second, length=30, slide=10: {*windows(second, length, slide)}, "✓ All windows"),
    (toward_zero, "-35, 30, 10) must be [-60, -50, -40], yours is [-60, -50, -40, -30]"),
    (as_many_as_fit, "as_many_as_fit(17, 5, 10) must be [], yours is [10]"),
    (
        lambda s, length, slide: windows(s, length, slide) if slide <= length else [],
        "(12, 5, 10) must be [10], yours is []. Windows of 5 seconds every 10 leave gaps, but",
    ),
    (as_many_unless_in_a_gap, "(29, 25, 10) must be [10, 20], yours is [0, 10, 20]"),
    (one_length_before_zero, "(-35, 30, 10) must be [-60, -50, -40], yours is []"),
    (lambda second, length, slide: windows(second, length, slide), "answer(25) raised TypeError"),
    (lambda second, length=60, slide=20: windows(second, length, slide), "answer(25) must be"),
    (lambda second, length, slide: "0, 10, 20", "A list of starts is wanted, not '0, 10, 20'"),
    (lambda *given: {start: start + given[1] for start in windows(*given)}, "A list of starts is"),
    (one_by_one, "The starts are a generator: return a list of them"),
)
