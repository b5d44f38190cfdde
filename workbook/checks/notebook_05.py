"""Checks of notebook 05."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from numbers import Real
from typing import Any

from tutorial_pkg.core.places import project_dir
from workbook.checks.verdict import Case, Wrong, compare, exercise

DISORDERED = "cpu_log_disordered.csv"


@exercise()
def check_05_1(answer: Any) -> str:
    """Is `answer` the smallest delay, in whole seconds, behind which no line arrives?

    NumPy's numbers count as numbers, since pandas gives them.
    """
    if isinstance(answer, bool) or not isinstance(answer, Real):
        kind = type(answer).__name__
        raise Wrong(f"A number of seconds is wanted, this is {kind}: try total_seconds().")
    seconds, behind = float(answer), seconds_behind()
    enough = math.ceil(max(behind))
    if not math.isfinite(seconds):
        raise Wrong(f"A number of seconds is wanted, this is {seconds}: look for an empty value.")
    if seconds != int(seconds):
        raise Wrong("Whole seconds, please: math.ceil rounds up, so that nothing is cut off.")
    if seconds > 100 * enough:
        raise Wrong(f"{seconds:g} seconds is very long: are these milliseconds?")
    if seconds < enough:
        late = sum(each > seconds for each in behind)
        raise Wrong(
            f"With {seconds:g} seconds {late} lines come behind the watermark: take the largest "
            "distance between a line and the highest event time before it, rounded up."
        )
    if seconds > enough:
        raise Wrong("Nothing would be late, but every result would wait longer than it has to.")
    return "Nothing is late, and no result comes later than it has to."


def seconds_behind() -> list[float]:
    """How far each line is behind the highest event time up to it."""
    with open(project_dir() / "data" / DISORDERED) as file:
        millis = [int(line.partition(",")[0]) for line in file]
    newest = accumulate(millis, max)
    return [(high - own) / 1000 for high, own in zip(newest, millis, strict=True)]


_STARTS = (
    "Windows start at multiples of `slide` only: the last one at second // slide * slide, and the "
    "others before it, as long as they reach the event."
)
_WINDOWS = [
    Case((25, 30, 10), [0, 10, 20], _STARTS),
    Case((30, 30, 10), [10, 20, 30], "A window contains its start, and not its end: 0 is out."),
    Case((39, 30, 10), [10, 20, 30], _STARTS),
    Case((75, 60, 20), [20, 40, 60], _STARTS),
    Case((25, 10, 10), [20], _STARTS),
    Case((5, 30, 10), [-20, -10, 0], "A window may begin before second 0, and -20 does."),
    Case((21, 25, 10), [0, 10, 20], "There are three such windows, though 25 // 10 is 2."),
    Case((17, 5, 10), [], "Windows of 5 seconds every 10 leave gaps, and 17 is in one."),
    Case((12, 5, 10), [10], "Windows of 5 seconds every 10 leave gaps, but 12 is in none."),
    Case((29, 25, 10), [10, 20], "Only two: the window from 0 has ended at 25."),
    Case((-35, 30, 10), [-60, -50, -40], "Before second 0, too, round down: -35 // 10 is -4."),
    Case((25,), [0, 10, 20], "Unless told, the length is 30 and the slide is 10."),
]


def _starts(found: Any) -> list[Any]:
    if not isinstance(found, Iterable) or isinstance(found, str | dict):
        raise Wrong(f"A list of starts is wanted, not {found!r}.")
    if isinstance(found, Iterator):
        raise Wrong(f"The starts are a {type(found).__name__}: return a list of them.")
    return sorted(found)


@exercise("def windows_of(second, length=30, slide=10)")
def check_05_2(answer: Callable[..., list[int]]) -> str:
    """Does `answer` name the starts of all sliding windows that contain an event?"""
    compare(answer, _WINDOWS, key=_starts)
    return "All windows that contain it: three, with a length of 30 seconds and a slide of 10."
