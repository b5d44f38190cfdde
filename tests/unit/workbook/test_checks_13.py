"""The checks of notebook 13: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

from typing import Any

import pytest

from tutorial_pkg.workbook.checks import check_13_1, check_13_2, check_13_3, check_13_4
from tutorial_pkg.workbook.trade_totals import Totals
from tutorial_pkg.workbook.watermarks import BEHIND, DELAY, LAG, LULL


def top(seen: Any) -> Any:
    return max(time for _, time in seen)


def by_lag(seen: Any, now: float) -> Any:
    return top(seen) - LAG if seen else None


def lag_and_delay(seen: Any, now: float) -> Any:
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return max([top(seen) - LAG, *waited]) if seen else None


def lag_and_lull(seen: Any, now: float) -> Any:
    if not seen:
        return None
    advanced = min(clock for clock, time in seen if time == top(seen))
    return top(seen) - LAG + max(0, now - advanced - LULL)


def wall_clock(seen: Any, now: float) -> Any:
    return max([now - BEHIND, *(time - LAG for _, time in seen)])


def waits_for_all(seen: Any, now: float) -> Any:
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return max(waited, default=None) if seen else None


def last_arrival(seen: Any, now: float) -> Any:
    return seen[-1][1] - LAG if seen else None


def oldest_waiting(seen: Any, now: float) -> Any:
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return (max(waited) if waited else top(seen) - LAG) if seen else None


def all_that_came(seen: Any, now: float) -> Any:
    return (top(seen) if now - seen[0][0] >= DELAY else top(seen) - LAG) if seen else None


def last_that_waited(seen: Any, now: float) -> Any:
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return max([top(seen) - LAG, *waited[-1:]]) if seen else None


def test_13_1_right() -> None:
    assert check_13_1(lag_and_delay).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        (4, "A function is wanted"),
        (lambda seen, now: top(seen) - LAG, "raised ValueError"),
        (by_lag, "event 9 came 6 s ago"),
        (last_arrival, "the *highest* event time counts"),
        (waits_for_all, "no event has waited long"),
        (oldest_waiting, "the *greater* of two limits"),
        (all_that_came, "event 7 did not"),
        (last_that_waited, "not that of the last one"),
    ],
)
def test_13_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_13_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def at_once(seen: Any, now: float) -> Any:
    advanced = min(clock for clock, time in seen if time == top(seen)) if seen else 0
    return top(seen) - LAG + now - advanced if seen else None


def whole_silence(seen: Any, now: float) -> Any:
    found = lag_and_lull(seen, now)
    return found if found is None or found <= top(seen) - LAG else found + LULL


def ended_by_any(seen: Any, now: float) -> Any:
    return top(seen) - LAG + max(0, now - seen[-1][0] - LULL) if seen else None


def from_the_first(seen: Any, now: float) -> Any:
    return top(seen) - LAG + max(0, now - seen[0][0] - LULL) if seen else None


def towards_the_clock(seen: Any, now: float) -> Any:
    found = lag_and_lull(seen, now)
    return found if found is None or found < now + 10 else now


def risen_again(seen: Any, now: float) -> Any:
    if not seen:
        return None
    advanced = max(clock for clock, time in seen if time == top(seen))
    return top(seen) - LAG + max(0, now - advanced - LULL)


def test_13_2_right() -> None:
    assert check_13_2(lag_and_lull).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        ("lull", "A function is wanted"),
        (lambda seen, now: top(seen) - LAG, "return None"),
        (by_lag, "goes on by 2 s"),
        (at_once, "no event has waited long"),
        (whole_silence, "goes on by 2 s"),
        (ended_by_any, "does not end the lull"),
        (from_the_first, "from the arrival of the *highest*"),
        (towards_the_clock, "may be in its future"),
        (risen_again, "when it came *first*"),
    ],
)
def test_13_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_13_2(answer)
    assert not verdict.passed
    assert hint in verdict.message


def test_13_3_right() -> None:
    assert check_13_3(wall_clock).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        (10, "A function is wanted"),
        (by_lag, "it needs no arrival"),
        (lambda seen, now: now - BEHIND, "the data count"),
        (lambda seen, now: top(seen) - LAG if seen else now - BEHIND, "behind the clock"),
        (lambda seen, now: max([now - BEHIND, *(time - LAG for _, time in seen[-1:])]), "highest"),
        (lambda seen, now: max(now - BEHIND, 0), "below zero"),
    ],
)
def test_13_3_wrong(answer: Any, hint: str) -> None:
    verdict = check_13_3(answer)
    assert not verdict.passed
    assert hint in verdict.message


class SharePrice(Totals):
    accumulator, result = "paid LONG, shares LONG", "cents DOUBLE"

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.price * row.quantity, accumulator[1] + row.quantity

    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0] / accumulator[1],)


class NoDeduct:
    accumulator, result = "a LONG", "b LONG"
    create = accumulate = combine = finish = SharePrice.create


class AverageOfTrades(SharePrice):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.price, accumulator[1] + 1


class DeductsWrongly(SharePrice):
    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1]


class AveragesOfAverages(SharePrice):
    accumulator = "average DOUBLE"

    def create(self) -> Any:
        return (0.0,)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return ((accumulator[0] + row.price) / 2,)

    def combine(self, left: Any, right: Any) -> Any:
        return ((left[0] + right[0]) / 2,)


class Lists(SharePrice):
    def create(self) -> Any:
        return [0, 0]


class OneColumn(SharePrice):
    accumulator = "paid LONG"


class NoTuple(SharePrice):
    def finish(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]


class Floors(SharePrice):
    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0] // accumulator[1],)


class OtherName(SharePrice):
    result = "price DOUBLE"


class PaidInAll(SharePrice):
    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0],)


class Raises(SharePrice):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.amount, 1


class Rounds(SharePrice):
    def finish(self, accumulator: Any) -> Any:
        return (round(accumulator[0] / accumulator[1], 2),)


class NoTypes(SharePrice):
    accumulator = "cents, shares"


class SmallTypes(SharePrice):
    accumulator = "cents INT, shares INT"


def test_13_4_right() -> None:
    assert check_13_4(SharePrice).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        (SharePrice(), "A class is wanted"),
        (NoDeduct, "has no `deduct`"),
        (OtherName, "must be 'cents DOUBLE', yours is 'price DOUBLE'"),
        (AverageOfTrades, "the average of the *trades*"),
        (Floors, "divide with `/`"),
        (PaidInAll, "yours returned (11030,). What was paid in all"),
        (DeductsWrongly, "deduct must undo combine"),
        (AveragesOfAverages, "combine(a, create()) must be a"),
        (Lists, "must return a tuple"),
        (OneColumn, "names 1 column(s), `create` returns 2"),
        (NoTuple, "must return (275.75,), yours returned 275.75. It is a tuple also for one"),
        (Raises, "raised AttributeError"),
        (Rounds, "do not round"),
        (NoTypes, "a name and a type for each column"),
        (SmallTypes, "`LONG` or `DOUBLE`"),
    ],
)
def test_13_4_wrong(answer: Any, hint: str) -> None:
    verdict = check_13_4(answer)
    assert not verdict.passed
    assert hint in verdict.message
