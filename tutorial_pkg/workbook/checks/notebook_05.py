"""Checks of notebook 05."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate
from numbers import Real

from tutorial_pkg.core.places import project_dir
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

DISORDERED = "cpu_log_disordered.csv"


@exercise
def check_05_1(answer: object) -> Verdict:
    """Is `answer` the smallest delay, in whole seconds, behind which no line arrives?

    NumPy's numbers count as numbers, since pandas gives them.
    """
    if isinstance(answer, bool) or not isinstance(answer, Real):
        kind = type(answer).__name__
        return not_yet(f"A number of seconds is wanted, this is {kind}: try total_seconds().")
    seconds = float(answer)
    if not math.isfinite(seconds):
        return not_yet(
            f"A number of seconds is wanted, this is {seconds}: look for an empty value."
        )
    return _judged(seconds, seconds_behind())


def _judged(answer: float, behind: list[float]) -> Verdict:
    enough = math.ceil(max(behind))
    if answer != int(answer):
        return not_yet("Whole seconds, please: math.ceil rounds up, so that nothing is cut off.")
    if answer > 100 * enough:
        return not_yet(f"{answer:g} seconds is very long: are these milliseconds?")
    if answer < enough:
        late = sum(seconds > answer for seconds in behind)
        return not_yet(
            f"With {answer:g} seconds {late} lines come behind the watermark: take the largest "
            "distance between a line and the highest event time before it, rounded up."
        )
    if answer > enough:
        return not_yet("Nothing would be late, but every result would wait longer than it need.")
    return right(f"{enough} seconds: nothing is late, and each result comes that much later.")


def seconds_behind() -> list[float]:
    """How far each line is behind the highest event time up to it."""
    with open(project_dir() / "data" / DISORDERED) as file:
        millis = [int(line.partition(",")[0]) for line in file]
    newest = accumulate(millis, max)
    return [(high - own) / 1000 for high, own in zip(newest, millis, strict=True)]


@exercise
def check_05_2(answer: Callable[..., list[int]]) -> Verdict:
    """Does `answer` name the starts of all sliding windows that contain an event?"""
    if not callable(answer):
        return not_yet("A function is wanted: def windows_of(second, length=30, slide=10): ...")
    for arguments in (
        (25, 30, 10),
        (30, 30, 10),
        (39, 30, 10),
        (65, 60, 20),
        (25, 10, 10),
        (5, 30, 10),  # the first of them begin before second 0
        (21, 25, 10),  # three windows, though 25 // 10 is 2
    ):
        verdict = _windows_verdict(answer, *arguments)
        if verdict:
            return verdict
    return right("All that contain it: of windows of 30 seconds, one every 10, these are three.")


def _windows_verdict(
    windows_of: Callable[..., list[int]], second: int, length: int, slide: int
) -> Verdict | None:
    """What is wrong with the answer for these arguments; None if nothing is."""
    wanted = {start for start in range(second - length + 1, second + 1) if start % slide == 0}
    call = f"windows_of({second}, {length}, {slide})"
    try:
        starts = list(windows_of(second, length, slide))
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return not_yet(f"{call} raised {type(error).__name__}: {error}")
    found = set(starts)
    if len(starts) > len(found):
        return not_yet(f"{call}: each window once, please; it gave {starts}.")
    if found == wanted:
        return None
    if any(start % slide for start in found):
        odd = sorted(start for start in found if start % slide)
        return not_yet(
            f"{call}: {odd[0]} is no multiple of {slide}, and windows start only there: the last "
            f"one starts at {second} // {slide} * {slide}."
        )
    if second - length in found - wanted:
        return not_yet(f"{call}: a window does not contain its end, so {second - length} is out.")
    if found == {start for start in wanted if start >= 0}:
        return not_yet(f"{call}: a window may begin before second 0, and {min(wanted)} does.")
    if found < wanted:
        return not_yet(f"{call}: there are {len(wanted)} such windows, you have {len(found)}.")
    return not_yet(f"{call}: {sorted(wanted)} are wanted, it gave {sorted(found)}.")
