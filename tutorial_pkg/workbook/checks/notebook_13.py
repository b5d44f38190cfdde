"""Checks of notebook 13: watermark policies, and an aggregate operation."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tutorial_pkg.state import broken_law
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right
from tutorial_pkg.workbook.watermarks import BEHIND, DELAY, LAG, LULL, Arrival

Answer = Callable[..., Any]
Case = tuple[list[Arrival], float, float | None, str]  # seen, now, wanted, hint

# ---- Exercises 1 to 3: policies ------------------------------------------------------------------

_HIGHEST = "the *highest* event time counts, not that of the last arrival."
_AS_LAG: list[Case] = [
    ([], 5, None, "before the first arrival there is no event time: return None."),
    (
        [(1, 1), (2, 2)],
        3,
        2 - LAG,
        f"no event has waited long: the newest event time minus the lag of {LAG}.",
    ),
    ([(1, 9), (2, 3)], 2.5, 9 - LAG, _HIGHEST),
]

_LAG_AND_DELAY: list[Case] = [
    *_AS_LAG,
    ([(1, 9), (2, 3)], 1 + DELAY, 9, f"event 9 came {DELAY} s ago: the watermark must be at it."),
    (
        [(1, 4), (6, 7)],
        2 + DELAY,
        4,
        f"event 4 came more than {DELAY} s ago, event 7 did not: the watermark is at 4.",
    ),
    (
        [(1, 4), (6, 20)],
        2 + DELAY,
        20 - LAG,
        "it is the *greater* of two limits, and here the lag gives more.",
    ),
    (
        [(1, 9), (2, 3)],
        2 + DELAY,
        9,
        "of those that have waited the *highest* event time counts, not that of the last one.",
    ),
]

_LAG_AND_LULL: list[Case] = [
    *_AS_LAG,
    ([(1, 9)], 1 + LULL, 9 - LAG, f"the lull begins {LULL} s after the last advance, not before."),
    (
        [(1, 9)],
        3 + LULL,
        11 - LAG,
        "since the lull began 2 s have passed, so the watermark goes on by 2 s.",
    ),
    (
        [(1, 9), (4, 3)],
        3 + LULL,
        11 - LAG,
        "an event that does not advance the watermark does not end the lull.",
    ),
    (
        [(1, 9), (4, 9.5)],
        3 + LULL,
        9.5 - LAG,
        "the lull is counted from the arrival of the *highest* event time.",
    ),
    (
        [(1, 9), (4, 9)],
        3 + LULL,
        11 - LAG,
        "the highest event time rose when it came *first*; to come again is no advance.",
    ),
    (
        [(1, 1000)],
        3 + LULL,
        1002 - LAG,
        "it knows nothing of the clock but how much time passes: event times may be in its future.",
    ),
]

_WALL_CLOCK: list[Case] = [
    ([], 15, 15 - BEHIND, "it needs no arrival: the clock alone tells the limit."),
    ([], 5, 5 - BEHIND, "nothing came yet, and the clock is young: the limit is below zero."),
    ([(1, 1)], 2, 1 - LAG, "also below zero the data count where they give more."),
    ([(1, 1)], 30, 30 - BEHIND, f"it must not be more than {BEHIND} s behind the clock."),
    ([(29, 29)], 30, 29 - LAG, "where the data give more than the clock, the data count."),
    ([(28, 29), (29, 3)], 30, 29 - LAG, _HIGHEST),
]


@exercise
def check_13_1(answer: Answer) -> Verdict:
    """Is `answer` the policy of lag and delay?"""
    praise = "No event waits longer than the delay, even if nothing comes any more."
    return _compare(answer, "lag_and_delay", _LAG_AND_DELAY) or right(praise)


@exercise
def check_13_2(answer: Answer) -> Verdict:
    """Is `answer` the policy of lag and lull?"""
    praise = "In a lull the watermark goes with the clock, at the distance that it had."
    return _compare(answer, "lag_and_lull", _LAG_AND_LULL) or right(praise)


@exercise
def check_13_3(answer: Answer) -> Verdict:
    """Is `answer` the policy that is limited by the wall clock?"""
    praise = "Never further behind the clock than the limit, whoever is silent."
    return _compare(answer, "wall_clock", _WALL_CLOCK) or right(praise)


def _compare(answer: Answer, name: str, cases: list[Case]) -> Verdict | None:
    if not callable(answer):
        return not_yet(f"A function is wanted: def {name}(seen, now): ...")
    for seen, now, wanted, hint in cases:
        call = f"{name}({seen}, {now:g})"
        try:
            found = answer(list(seen), now)
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(f"{call} raised {type(error).__name__}: {str(error)[:80]}; {hint}")
        if found != wanted:
            return not_yet(f"{call} must be {wanted}, yours is {found}: {hint}")
    return None


# ---- Exercise 4: an operation of one's own -------------------------------------------------------

_ROWS = [
    SimpleNamespace(price=price, quantity=quantity)
    for price, quantity in ((200, 10), (301, 30), (250, 1), (100, 7))
]
_SUMS = ("long", "bigint", "double")
_PARTS = ("accumulator", "result", "create", "accumulate", "combine", "deduct", "finish")


@exercise
def check_13_4(answer: Any) -> Verdict:
    """Is `answer` a class that computes the average price of a share?"""
    if not isinstance(answer, type):
        return not_yet("A class is wanted: class SharePrice: ...")
    missing = [name for name in _PARTS if not hasattr(answer, name)]
    if missing:
        return not_yet(f"`{answer.__name__}` has no `{missing[0]}`: `Average` above has it.")
    try:
        return _judged(answer())
    except Exception as error:  # whatever the learner's methods raise is a wrong answer
        return not_yet(f"It raised {type(error).__name__}: {str(error)[:100]}.")


def _judged(operation: Any) -> Verdict:
    accumulator = operation.create()
    if not isinstance(accumulator, tuple):
        return not_yet("`create` must return a tuple, one value for each column of `accumulator`.")
    columns = [part.replace(":", " ").lower().split() for part in operation.accumulator.split(",")]
    if len(accumulator) != len(columns):
        return not_yet(
            f"`accumulator` names {len(columns)} column(s), `create` returns {len(accumulator)} "
            "value(s)"
        )
    if not all(len(column) == 2 and column[1] in _SUMS for column in columns):
        return not_yet(
            "`accumulator` is a name and a type for each column, and sums grow: `LONG` or `DOUBLE`;"
            f" yours is {operation.accumulator!r}."
        )
    if operation.result.replace(":", " ").lower().split() != ["cents", "double"]:
        return not_yet(f"`result` must be 'cents DOUBLE', yours is {operation.result!r}.")
    if law := broken_law(operation, _ROWS):
        return not_yet(f"A law is broken: {law}.")
    return _result(operation)


def _result(operation: Any) -> Verdict:
    found = _of(operation, _ROWS[:2])
    if found != (275.75,):
        wanted = "10 shares at 200 and 30 at 301: `finish` must return (275.75,)"
        return not_yet(f"{wanted}, yours returned {found!r}. {_hint(found)}")
    found = _of(operation, _ROWS)
    if found != (11980 / 48,):
        return not_yet(
            f"`finish` must return ({11980 / 48},) for 48 shares and 11,980 cents in all, "
            f"yours returned {found!r}: do not round, whoever shows the price does."
        )
    return right("All laws hold: Spark may cut, combine and deduct it as it likes.")


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
    return "What was paid in all, by the number of shares?"
