"""Checks of notebook 06."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Event = tuple[str, int]

# Port B is a minute behind; its 12 comes too late to be its newest.
EVENTS: list[Event] = [("A", 70), ("A", 75), ("B", 10), ("B", 20), ("B", 12), ("A", 90), ("B", 95)]
PORTS, DELAY = ("A", "B"), 5
MARKS = [None, None, 5, 15, 15, 15, 85]
OF_THE_FASTEST = [None, None, 70, 70, 70, 85, 90]

DELAY_SECONDS, FIRST_SECOND, LAST_SECOND = 25, 890, 900


@exercise
def check_06_1(
    answer: Callable[[list[Event], Sequence[str], int], list[int | None]],
) -> Verdict:
    """Does `answer` return the least of the ports' watermarks after each event?"""
    if not callable(answer):
        return not_yet("A function is wanted: def coalesced(events, ports, delay): ...")
    try:
        marks = answer(list(EVENTS), PORTS, DELAY)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return not_yet(
            f"With events such as {EVENTS[:2]} it raised {type(error).__name__}: {error}"
        )
    if not isinstance(marks, list) or len(marks) != len(EVENTS):
        return not_yet(f"A list with one watermark for each of {len(EVENTS)} events is wanted.")
    verdict = _compared(marks)
    return verdict if not verdict.passed else _elsewhere(answer) or verdict


def _elsewhere(answer: Callable[..., Any]) -> Verdict | None:
    """What is wrong with other times, delays and ports than the first ones; None if nothing is."""
    for events, ports, delay, wanted, hint in (
        ([("A", 0), ("B", 0)], PORTS, 5, [None, -5], _ANY_TIME),
        ([("A", -3), ("B", 0)], PORTS, 5, [None, -8], _ANY_TIME),
        ([("A", 70), ("B", 60)], PORTS, 7, [None, 53], "Subtract the `delay` that is handed over."),
        ([("A", 70), ("B", 60)], ("A", "B", "C"), 5, [None, None], _ALL_PORTS),
    ):
        found = _call(answer, events, ports, delay)
        if found != wanted:
            return not_yet(
                f"{hint} coalesced({events}, {ports}, {delay}) is {wanted}, not {found}."
            )
    return None


_ANY_TIME = "0 and -3 are times, too: a port that has sent one is not silent, nor later than it is."
_ALL_PORTS = "Port C has said nothing yet: count the `ports` that are handed over."


def _call(answer: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return answer(*arguments)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


def _compared(marks: list[int | None]) -> Verdict:
    if marks == MARKS:
        return right("The least of the newest: nothing that a slow port sends is late.")
    if any(mark is not None for mark in marks[:2]):
        return not_yet("Port B has said nothing yet and may be far behind: until then it is None.")
    if marks == [None if mark is None else mark + DELAY for mark in MARKS]:
        return not_yet("Subtract the delay: events may be out of order within a port, too.")
    if marks[2:] == OF_THE_FASTEST[2:]:
        return not_yet("This follows the fastest port, and B's events are late: take the minimum.")
    if marks[4] == 12 - DELAY:
        return not_yet("The watermark went back when B sent 12 after 20: keep the newest of each.")
    return not_yet(f"After the events {EVENTS} it must be {MARKS}, not {marks}.")


@exercise
def check_06_2(answer: str, begin: int) -> Verdict:
    """Does the line `answer` move the watermark to between 890 and 900 seconds after `begin`?

    `begin` is in epoch milliseconds.
    """
    if not isinstance(answer, str):
        return not_yet(f"A line is wanted, a string; this is {type(answer).__name__}.")
    if "\n" in answer:
        return not_yet("One line is wanted, and without its newline: send_lines adds that.")
    prefix = re.match(r"(\d{1,15}),", answer)
    if prefix is None:
        return not_yet(
            "The line has no epoch milliseconds before a comma, so its event time is null, and the "
            "watermark takes no notice of it."
        )
    return _placed((int(prefix[1]) - begin) / 1000 - DELAY_SECONDS)


def a_heartbeat(begin: int) -> str:
    """A line that passes `check_06_2`, for the notebook to go on with when the answer does not."""
    return f"{begin + (LAST_SECOND - 5 + DELAY_SECONDS) * 1000},0.0,heartbeat"


def _placed(second: float) -> Verdict:
    if FIRST_SECOND <= second <= LAST_SECOND:
        return right("One line in which nothing happened, and all results move on.")
    if second < 0:
        return not_yet("Its time is before the first event: give it in epoch milliseconds.")
    where = f"It moves the watermark to second {second:g} after the first event"
    if second + DELAY_SECONDS in (FIRST_SECOND, LAST_SECOND):
        return not_yet(f"{where}: the query waits {DELAY_SECONDS} seconds more; add them.")
    if second < FIRST_SECOND:
        return not_yet(f"{where}: too early, it is to reach {FIRST_SECOND}.")
    return not_yet(f"{where}: too late, whatever B sends from before that would be dropped.")
