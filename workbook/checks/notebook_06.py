"""Checks of notebook 06."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from workbook.checks.verdict import Case, Wrong, compare, exercise

# ---- Exercise 1: coalesce ------------------------------------------------------------------------

Event = tuple[str, int]
PORTS = ["A", "B"]

_ANY_TIME = "0 and -3 are times, too: a port that has sent 0 is not silent, and -3 is older than 0."
_DELAY = "Subtract the `delay` that is handed over: events may be out of order within a port, too."
_FASTEST = "This follows the fastest port, and B's events are late: take the minimum."
_AFTER = "Here both ports have sent something: count an event before you look at the watermark."
_SENDER = "This follows the port that has just sent: take the minimum of all ports."
_COALESCED = [
    Case(
        ([("A", 70), ("A", 75)], PORTS, 5),
        [None, None],
        "Port B has said nothing yet and may be far behind: until then it is None.",
        [([None], "Each event has a watermark, even one that changes nothing.")],
    ),
    Case(
        ([("A", 70), ("B", 10)], PORTS, 5),
        [None, 5],
        "It is the least of the ports' newest times, minus the delay.",
        [([None, 10], _DELAY), ([None, 65], _FASTEST), ([None, None], _AFTER)],
    ),
    Case(
        ([("A", 30), ("B", 40), ("B", 20), ("A", 50)], PORTS, 5),
        [None, 25, 25, 35],
        "B sends 20 after 40, which changes nothing: keep the newest of each port.",
        [([None, 35, 35, 45], _SENDER)],
    ),
    Case(([("A", 70), ("B", 20), ("A", 90), ("B", 95)], PORTS, 5), [None, 15, 15, 85], _FASTEST),
    Case(
        ([("A", 70), ("B", 20), ("A", 60), ("B", 25), ("B", 65)], PORTS, 5),
        [None, 15, 15, 20, 60],
        "B's 25 is newer than B's 20, though A is further ahead: compare within a port.",
    ),
    Case(([("A", 0), ("B", 0)], PORTS, 5), [None, -5], _ANY_TIME),
    Case(([("A", -3), ("B", 0)], PORTS, 5), [None, -8], _ANY_TIME),
    Case(([("A", 5), ("B", 9)], PORTS, 5), [None, 0], "0 is a watermark, too: compare with None."),
    Case(([("A", 70), ("B", 60)], PORTS, 7), [None, 53], _DELAY),
    Case(
        ([("A", 70), ("B", 60)], ["A", "B", "C"], 5),
        [None, None],
        "Port C has said nothing yet: count the `ports` that are handed over.",
    ),
    Case(
        ([("A", 70), ("B", 60), ("C", 50)], ["A", "B", "C"], 5),
        [None, None, 45],
        "All three `ports` have sent something.",
    ),
    Case(([], PORTS, 5), [], "Without an event the list is empty."),
]


@exercise("def coalesced(events, ports, delay)")
def check_06_1(answer: Callable[[list[Event], Sequence[str], int], list[int | None]]) -> str:
    """Does `answer` return the least of the ports' watermarks after each event?"""
    compare(answer, _COALESCED, key=_list)
    return "The smallest watermark counts, so no port is late because another is ahead."


def _list(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise Wrong(f"A list with one watermark for each event is wanted, not {found!r}.")
    return found


# ---- Exercise 2: a heartbeat ---------------------------------------------------------------------

DELAY_SECONDS, FIRST_SECOND, LAST_SECOND = 25, 890, 900


@exercise()
def check_06_2(answer: str, begin: int) -> str:
    """Does the line `answer` move the watermark to between 890 and 900 seconds after `begin`?

    `begin` is in epoch milliseconds.
    """
    if not isinstance(answer, str):
        raise Wrong(f"A line is wanted, a string; this is {type(answer).__name__}.")
    if "\n" in answer:
        raise Wrong("One line is wanted, and without its newline: send_lines adds that.")
    prefix = re.match(r"(\d{1,15}),", answer)
    if prefix is None:
        raise Wrong("Without epoch milliseconds before a comma its event time is null.")
    millis = int(prefix[1]) - begin
    second = millis / 1000 - DELAY_SECONDS
    where = f"It moves the watermark to second {second:g}"
    if millis < 0:
        raise Wrong("Its time is before the first event: give it in epoch milliseconds.")
    if FIRST_SECOND <= millis <= LAST_SECOND + DELAY_SECONDS:
        raise Wrong("`begin` is in milliseconds, and a second has 1000 of them.")
    if FIRST_SECOND <= second + DELAY_SECONDS <= LAST_SECOND:
        raise Wrong(f"{where}: the query waits {DELAY_SECONDS} seconds more; add them.")
    if second < FIRST_SECOND:
        raise Wrong(f"{where}: too early, it must reach {FIRST_SECOND}.")
    if second > LAST_SECOND:
        raise Wrong(f"{where}: too late, whatever B sends from before that would be dropped.")
    return "One line in which nothing happened, and all results move on."


def a_heartbeat(begin: int) -> str:
    """A line that passes `check_06_2`, for the notebook to go on with when the answer does not."""
    return f"{begin + (LAST_SECOND - 5 + DELAY_SECONDS) * 1000},0.0,heartbeat"
