"""Checks of notebook 13: watermark policies, and an aggregate operation."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.state import broken_law
from tutorial_pkg.workbook.checks.verdict import Case, Wrong, compare, exercise
from tutorial_pkg.workbook.watermarks import BEHIND, DELAY, LAG, LULL

# ---- Exercises 1 to 3: policies ------------------------------------------------------------------

Policy = Callable[..., float | None]
_HIGHEST = "The *highest* event time counts, not that of the last arrival."
_FRACTIONS = "Times have fractions: leave them as they are, without int() and round()."
_NEWEST = f"No event has waited long: the newest event time minus the lag of {LAG}."
_AS_LAG = [
    Case(([], 5), None, "Before the first arrival there is no event time: return None."),
    Case(([(1, 1), (2, 2)], 3), 2 - LAG, _NEWEST),
    Case(([(1, 9), (2, 3)], 2.5), 9 - LAG, _HIGHEST),
    Case(([(1, 9.5), (2, 3)], 2.5), 9.5 - LAG, _FRACTIONS),
]

_AT = f"Event 9 came {DELAY} s ago: the watermark must be at it."
_WAITED = f"Event 4 came more than {DELAY} s ago, event 7 did not: the watermark is at 4."
_GREATER = "It is the *greater* of two limits, and here the lag gives more."
_OF_THOSE = "Of those that have waited the *highest* event time counts, not that of the last one."
_LAG_AND_DELAY = [
    *_AS_LAG,
    Case(([(1, 9), (2, 3)], 1 + DELAY), 9, _AT),
    Case(([(1, 4), (6, 7)], 2 + DELAY), 4, _WAITED),
    Case(([(1, 4), (6, 20)], 2 + DELAY), 20 - LAG, _GREATER),
    Case(([(1, 9), (2, 3)], 2 + DELAY), 9, _OF_THOSE),
]

_NOT_YET = f"The lull begins {LULL} s after the last advance, not before."
_TWO = "Since the lull began 2 s have passed, so the watermark goes on by 2 s."
_NO_END = "An event that does not advance the watermark does not end the lull."
_FROM = "The lull is counted from the arrival of the *highest* event time."
_FIRST = "The highest event time rose when it came *first*; to come again is no advance."
_NO_CLOCK = "It knows of the clock only how much time passes: event times may be in its future."
_LAG_AND_LULL = [
    *_AS_LAG,
    Case(([(1, 9)], 1 + LULL), 9 - LAG, _NOT_YET),
    Case(([(1, 9)], 3 + LULL), 11 - LAG, _TWO),
    Case(([(1, 9), (4, 3)], 3 + LULL), 11 - LAG, _NO_END),
    Case(([(1, 9), (4, 9.5)], 3 + LULL), 9.5 - LAG, _FROM),
    Case(([(1, 9), (4, 9)], 3 + LULL), 11 - LAG, _FIRST),
    Case(([(1, 1000)], 3 + LULL), 1002 - LAG, _NO_CLOCK),
]

_WALL_CLOCK = [
    Case(([], 15), 15 - BEHIND, "It needs no arrival: the clock alone tells the limit."),
    Case(([], 5), 5 - BEHIND, "Nothing came yet, the clock is young: the limit is below zero."),
    Case(([(1, 1)], 2), 1 - LAG, "Also below zero the data count where they give more."),
    Case(([(1, 1)], 30), 30 - BEHIND, f"It must not be more than {BEHIND} s behind the clock."),
    Case(([(29, 27)], 30), 27 - LAG, "Where the data give more than the clock, they count."),
    Case(([(28, 29), (29, 3)], 30), 29 - LAG, _HIGHEST),
    Case(([], 15.5), 15.5 - BEHIND, _FRACTIONS),
]


@exercise("def lag_and_delay(seen, now)")
def check_13_1(answer: Policy) -> str:
    """Is `answer` the policy of lag and delay?"""
    compare(answer, _LAG_AND_DELAY)
    return "No event waits longer than the delay, even if nothing comes any more."


@exercise("def lag_and_lull(seen, now)")
def check_13_2(answer: Policy) -> str:
    """Is `answer` the policy of lag and lull?"""
    compare(answer, _LAG_AND_LULL)
    return "In a lull the watermark goes with the clock, at the distance that it had."


@exercise("def wall_clock(seen, now)")
def check_13_3(answer: Policy) -> str:
    """Is `answer` the policy that is limited by the wall clock?"""
    compare(answer, _WALL_CLOCK)
    return "Never further behind the clock than the limit, whoever is silent."


# ---- Exercise 4: an operation of one's own -------------------------------------------------------

_ROWS = [
    SimpleNamespace(price=price, quantity=quantity)
    for price, quantity in ((200, 10), (301, 30), (250, 1), (100, 7))
]
_SUMS = ("long", "bigint", "double")
_PARTS = ("accumulator", "result", "create", "accumulate", "combine", "deduct", "finish")


@exercise("class SharePrice")
def check_13_4(answer: Any) -> str:
    """Is `answer` a class that computes the average price of a share?"""
    missing = [name for name in _PARTS if not hasattr(answer, name)]
    if missing:
        raise Wrong(f"`{answer.__name__}` has no `{missing[0]}`: `Average` above has it.")
    operation = answer()
    _look_at_columns(operation)
    if law := broken_law(operation, _ROWS):
        raise Wrong(f"A law is broken: {law}.")
    _look_at_result(operation)
    return "All laws hold: Spark may cut, combine and deduct it as it likes."


def _look_at_columns(operation: Any) -> None:
    accumulator = operation.create()
    if not isinstance(accumulator, tuple):
        raise Wrong("`create` must return a tuple, one value for each column of `accumulator`.")
    columns = [part.replace(":", " ").lower().split() for part in operation.accumulator.split(",")]
    if len(accumulator) != len(columns):
        raise Wrong(
            f"`accumulator` names {len(columns)} column(s), `create` returns {len(accumulator)} "
            "value(s)"
        )
    if not all(len(column) == 2 and column[1] in _SUMS for column in columns):
        raise Wrong(
            "`accumulator` is a name and a type for each column, and sums grow: `LONG` or `DOUBLE`;"
            f" yours is {operation.accumulator!r}."
        )
    if operation.result.replace(":", " ").lower().split() != ["cents", "double"]:
        raise Wrong(f"`result` must be 'cents DOUBLE', yours is {operation.result!r}.")


def _look_at_result(operation: Any) -> None:
    found = _of(operation, _ROWS[:2])
    if found != (275.75,):
        wanted = "10 shares at 200 and 30 at 301: `finish` must return (275.75,)"
        raise Wrong(f"{wanted}, yours returned {found!r}. {_hint(found)}")
    found = _of(operation, _ROWS)
    if found != (11980 / 48,):
        raise Wrong(
            f"`finish` must return ({11980 / 48},) for 48 shares and 11,980 cents in all, "
            f"yours returned {found!r}: do not round, whoever shows the price does."
        )


def _of(operation: Any, rows: list[SimpleNamespace]) -> Any:
    accumulator = operation.create()
    for row in rows:
        accumulator = operation.accumulate(accumulator, row)
    return operation.finish(accumulator)


def _hint(found: Any) -> str:
    if found == (250.5,):
        return "That is the average of the *trades*: a trade of 30 shares must count 30 times."
    if found == (275,):
        return "`//` drops what is behind the point: divide with `/`."
    if not isinstance(found, tuple):
        return "It is a tuple also for one column: return (value,)."
    if len(found) != 1:
        return f"`result` names one column, so one value is wanted, not {len(found)}."
    return "What was paid in all, by the number of shares?"
