"""Checks of notebook 18: watermark policies."""

from __future__ import annotations

from collections.abc import Callable

from workbook.checks.verdict import Case, compare, exercise
from workbook.watermarks import BEHIND, DELAY, LAG, LULL

Policy = Callable[..., float | None]
_HIGHEST = "The *highest* event time counts, not that of the last arrival."
_FRACTIONS = "Times have fractions: leave them as they are, without int() and round()."
_BELOW = "Event times may be below zero, and so may the watermark."
_ZERO = "0 is a time, too: compare with None."
_NEWEST = f"No event has waited long: the newest event time minus the lag of {LAG}."
_AS_LAG = [
    Case(([], 5), None, "Before the first arrival there is no event time: return None."),
    Case(([(1, 1), (2, 2)], 3), 2 - LAG, _NEWEST),
    Case(([(1, 9), (2, 3)], 2.5), 9 - LAG, _HIGHEST),
    Case(([(1, 9.5), (2, 3)], 2.5), 9.5 - LAG, _FRACTIONS),
    Case(([(1, 1)], 2), 1 - LAG, _BELOW),
    Case(([(1, -3)], 2), -3 - LAG, _BELOW),
    Case(([(1, LAG)], 2), 0, _ZERO),
    Case(([(1, 0), (2, -3)], 2.5), -LAG, _ZERO),
]

_AT = f"Event 9 came {DELAY} s ago: the watermark must be at it."
_WAITED = f"Event 4 came more than {DELAY} s ago, event 5 did not: the watermark is at 4."
_GREATER = "It is the *greater* of two limits, and here the lag gives more."
_OF_THOSE = "Of those that have waited the *highest* event time counts, not that of the last one."
_CLOCK = f"No event has waited long, and the clock is no event time: 3 minus the lag of {LAG}."
_LAG_AND_DELAY = [
    Case(([(2, 3)], 1.5 + DELAY), 3 - LAG, _CLOCK),
    *_AS_LAG,
    Case(([(1, 9), (2, 3)], 1 + DELAY), 9, _AT),
    Case(([(1, 4), (6, 5)], 2 + DELAY), 4, _WAITED),
    Case(([(1, 4), (6, 20)], 2 + DELAY), 20 - LAG, _GREATER),
    Case(([(1, 9), (2, 3)], 2 + DELAY), 9, _OF_THOSE),
    Case(([(1, 0)], 2 + DELAY), 0, _ZERO),
    Case(([(1, 4), (2, 9)], 2 + DELAY), 9, _OF_THOSE),
]

_NOT_YET = f"The lull begins {LULL} s after the last advance, not before."
_TWO = "Since the lull began 2 s have passed, so the watermark goes on by 2 s."
_NO_END = "An event that does not advance the watermark does not end the lull."
_FROM = "The lull is counted from the arrival of the *highest* event time."
_FIRST = "The highest event time rose when it came *first*; to come again is no advance."
_NO_CLOCK = "The clock tells it only how much time has passed: event times may be in the future."
_LAG_AND_LULL = [
    *_AS_LAG,
    Case(([(1, 9)], 1 + LULL), 9 - LAG, _NOT_YET),
    Case(([(1, 9)], 3 + LULL), 11 - LAG, _TWO),
    Case(([(1, 9), (4, 3)], 3 + LULL), 11 - LAG, _NO_END),
    Case(([(1, 9), (4, 9.5)], 3 + LULL), 9.5 - LAG, _FROM),
    Case(([(1, 9), (4, 9)], 3 + LULL), 11 - LAG, _FIRST),
    Case(([(1, 1000)], 3 + LULL), 1002 - LAG, _NO_CLOCK),
    Case(([(1, 9), (2, 3), (4, 5)], 3 + LULL), 11 - LAG, _NO_END),
    Case(([(1, 9)], 21 + LULL), 29 - LAG, "It goes on as long as the lull, past every event time."),
    Case(([(1, 9), (20, 30)], 21), 30 - LAG, "A lull that is over no longer counts."),
    Case(([(1, 9)], 3.5 + LULL), 11.5 - LAG, _FRACTIONS),
]

_NOT_BEHIND = f"The watermark must not be more than {BEHIND} s behind the clock."
_WALL_CLOCK = [
    Case(([], 15), 15 - BEHIND, "It needs no arrival: the clock alone gives the limit."),
    Case(([], 5), 5 - BEHIND, "Nothing came yet, the clock is young: the limit is below zero."),
    Case(([(1, 1)], 2), 1 - LAG, "The data give more than the clock, even below zero: they count."),
    Case(([(1, 1)], 30), 30 - BEHIND, _NOT_BEHIND),
    Case(([(22, 21.5)], 30), 30 - BEHIND, _NOT_BEHIND),
    Case(([(29, 27)], 30), 27 - LAG, "Where the data give more than the clock, they count."),
    Case(([(1, -3)], 2), -3 - LAG, _BELOW),
    Case(([(1, LAG)], 3), 0, _ZERO),
    Case(([(28, 29), (29, 3)], 30), 29 - LAG, _HIGHEST),
    Case(([(30, 29)], 30), 29 - LAG, "What arrives at this very moment counts."),
    Case(([], 15.5), 15.5 - BEHIND, _FRACTIONS),
    Case(([(1, 1000)], 30), 1000 - LAG, "Of the data the event time counts, old or in the future."),
]


@exercise("def lag_and_delay(seen, now)")
def check_18_1(answer: Policy) -> str:
    """Is `answer` the policy of lag and delay?"""
    compare(answer, _LAG_AND_DELAY)
    return "No event waits longer than the delay, even if nothing comes any more."


@exercise("def lag_and_lull(seen, now)")
def check_18_2(answer: Policy) -> str:
    """Is `answer` the policy of lag and lull?"""
    compare(answer, _LAG_AND_LULL)
    return "In a lull the watermark goes with the clock, at the distance that it had."


@exercise("def wall_clock(seen, now)")
def check_18_3(answer: Policy) -> str:
    """Is `answer` the policy that is limited by the wall clock?"""
    compare(answer, _WALL_CLOCK)
    return "Never further behind the clock than the limit, whoever is silent."
