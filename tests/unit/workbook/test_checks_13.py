"""The checks of notebook 13."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_13_1, check_13_2, check_13_3, check_13_4
from tutorial_pkg.workbook.trade_totals import Totals
from tutorial_pkg.workbook.watermarks import BEHIND, DELAY, LAG, LULL


def top(seen: Any) -> Any:
    return max(time for _, time in seen)


def lag_and_delay(seen: Any, now: float) -> Any:
    if not seen:
        return None
    waited = [time for clock, time in seen if clock <= now - DELAY]
    return max([top(seen) - LAG, *waited])


delaying = partial(changed, lag_and_delay)


BY_LAG = delaying((", *waited", ""))
UNCHECKED = ("if not seen", "if seen is None")
test_13_1 = tried(
    check_13_1,
    (lag_and_delay, "✓ No event waits longer"),
    (delaying(UNCHECKED), "raised ValueError"),
    (BY_LAG, "Event 9 came 6 s ago"),
    (lambda seen, now: seen[-1][1] - LAG if seen else None, "The *highest* event time counts"),
    (delaying(("top(seen) - LAG, ", "")), "No event has waited long"),
    (delaying(("[top(seen) - LAG, *waited]", "waited or [top(seen) - LAG]")), "*greater*"),
    (delaying(("if clock <=", "if seen[0][0] <=")), "event 7 did not"),
    (delaying(("*waited", "*waited[-1:]")), "not that of the last one"),
    (lambda seen, now: int(lag_and_delay(seen, now)) if seen else None, "Times have fractions"),
)


def lag_and_lull(seen: Any, now: float) -> Any:
    if not seen:
        return None
    advanced = min(clock for clock, time in seen if time == top(seen))
    return top(seen) - LAG + max(0, now - advanced - LULL)


lulling = partial(changed, lag_and_lull)


def towards_the_clock(seen: Any, now: float) -> Any:
    found = lag_and_lull(seen, now)
    return found if found is None or found < now + 10 else now


ADVANCED = "min(clock for clock, time in seen if time == top(seen))"
test_13_2 = tried(
    check_13_2,
    (lag_and_lull, "✓ In a lull the watermark goes"),
    (lulling(UNCHECKED), "return None"),
    (BY_LAG, "goes on by 2 s"),
    (lulling((" - LULL", "")), "No event has waited long"),
    (lulling(("now - advanced - LULL)", "(now - advanced > LULL) * (now - advanced))")), "by 2 s"),
    (lulling((ADVANCED, "seen[-1][0]")), "does not end the lull"),
    (lulling((ADVANCED, "seen[0][0]")), "from the arrival of the *highest*"),
    (towards_the_clock, "may be in its future"),
    (lulling(("min(clock", "max(clock")), "when it came *first*"),
    (lambda seen, now: lag_and_lull(seen, now) and int(lag_and_lull(seen, now)), "fractions"),
)


def wall_clock(seen: Any, now: float) -> Any:
    return max([now - BEHIND, *(time - LAG for _, time in seen)])


test_13_3 = tried(
    check_13_3,
    (wall_clock, "✓ Never further behind"),
    (BY_LAG, "It needs no arrival"),
    (lambda seen, now: now - BEHIND, "the data count"),
    (lambda seen, now: top(seen) - LAG if seen else now - BEHIND, "behind the clock"),
    (lambda seen, now: max([now - BEHIND, *(time - LAG for _, time in seen[-1:])]), "highest"),
    (lambda seen, now: max(now - BEHIND, 0), "below zero"),
    (lambda seen, now: max([now - BEHIND, *(clock - LAG for clock, _ in seen)]), "they count"),
    (lambda seen, now: round(wall_clock(seen, now)), "Times have fractions"),
)


class SharePrice(Totals):
    accumulator, result = "paid LONG, shares LONG", "cents DOUBLE"

    def create(self) -> Any:
        return 0, 0

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.price * row.quantity, accumulator[1] + row.quantity

    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0] / accumulator[1],)


price = partial(changed, SharePrice)


class NoDeduct:
    accumulator, result = "a LONG", "b LONG"
    create = accumulate = combine = finish = SharePrice.create


class AveragesOfAverages(SharePrice):
    accumulator = "average DOUBLE"

    def create(self) -> Any:
        return (0.0,)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return ((accumulator[0] + row.price) / 2,)

    def combine(self, left: Any, right: Any) -> Any:
        return ((left[0] + right[0]) / 2,)


AVERAGE, TYPES = "(accumulator[0] / accumulator[1],)", "paid LONG, shares LONG"
test_13_4 = tried(
    check_13_4,
    (SharePrice, "✓ All laws hold"),
    (NoDeduct, "has no `deduct`"),
    (price(("cents DOUBLE", "price DOUBLE")), "must be 'cents DOUBLE', yours is 'price DOUBLE'"),
    (
        price((" * row.quantity", ""), ("accumulator[1] + row.quantity", "accumulator[1] + 1")),
        "the average of the *trades*",
    ),
    (price(("[0] / accumulator[1]", "[0] // accumulator[1]")), "divide with `/`"),
    (price((AVERAGE, "(accumulator[0],)")), "yours returned (11030,). What was paid in all"),
    (price(("left[1] - right[1]", "left[1]")), "deduct must undo combine"),
    (AveragesOfAverages, "combine(a, create()) must be a"),
    (price(("return 0, 0", "return [0, 0]")), "must return a tuple"),
    (price((TYPES, "paid LONG")), "names 1 column(s), `create` returns 2"),
    (
        price((AVERAGE, "accumulator[0] / accumulator[1]")),
        "must return (275.75,), yours returned 275.75. It is a tuple also for one",
    ),
    (price((AVERAGE, "accumulator")), "names one column, so one value is wanted, not 2"),
    (price(("row.price", "row.amount")), "raised AttributeError"),
    (price((AVERAGE, "(round(accumulator[0] / accumulator[1], 2),)")), "do not round"),
    (price((TYPES, "cents, shares")), "a name and a type for each column"),
    (price((TYPES, "cents INT, shares INT")), "`LONG` or `DOUBLE`"),
)
