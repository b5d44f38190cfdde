"""The checks of notebook 18."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_18_1, check_18_2, check_18_3
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
test_18_1 = tried(
    check_18_1,
    (lag_and_delay, "✓ No event waits longer"),
    (delaying(UNCHECKED), "raised ValueError"),
    (BY_LAG, "Event 9 came 6 s ago"),
    (lambda seen, now: seen[-1][1] - LAG if seen else None, "The *highest* event time counts"),
    (delaying(("top(seen) - LAG, ", "")), "No event has waited long"),
    (delaying(("[top(seen) - LAG, *waited]", "waited or [top(seen) - LAG]")), "*greater*"),
    (delaying(("if clock <=", "if seen[0][0] <=")), "event 5 did not"),
    (delaying(("*waited", "*waited[-1:]")), "not that of the last one"),
    (lambda seen, now: int(lag_and_delay(seen, now)) if seen else None, "Times have fractions"),
    (delaying(("*waited", "*waited, 0")), "Event times may be below zero"),
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
test_18_2 = tried(
    check_18_2,
    (lag_and_lull, "✓ In a lull the watermark goes"),
    (lulling(UNCHECKED), "return None"),
    (BY_LAG, "goes on by 2 s"),
    (lulling((" - LULL", "")), "No event has waited long"),
    (lulling(("now - advanced - LULL)", "(now - advanced > LULL) * (now - advanced))")), "by 2 s"),
    (lulling((ADVANCED, "seen[-1][0]")), "does not end the lull"),
    (lulling((ADVANCED, "seen[0][0]")), "from the arrival of the *highest*"),
    (towards_the_clock, "may be in the future"),
    (lulling(("min(clock", "max(clock")), "when it came *first*"),
    (lambda seen, now: lag_and_lull(seen, now) and int(lag_and_lull(seen, now)), "fractions"),
    (lulling(("top(seen) - LAG", "max(0, top(seen) - LAG)")), "Event times may be below zero"),
)


def wall_clock(seen: Any, now: float) -> Any:
    return max([now - BEHIND, *(time - LAG for _, time in seen)])


test_18_3 = tried(
    check_18_3,
    (wall_clock, "✓ Never further behind"),
    (BY_LAG, "It needs no arrival"),
    (lambda seen, now: now - BEHIND, "the data count"),
    (lambda seen, now: top(seen) - LAG if seen else now - BEHIND, "behind the clock"),
    (lambda seen, now: max([now - BEHIND, *(time - LAG for _, time in seen[-1:])]), "highest"),
    (lambda seen, now: max(now - BEHIND, 0), "below zero"),
    (lambda seen, now: max([now - BEHIND, *(clock - LAG for clock, _ in seen)]), "they count"),
    (lambda seen, now: round(wall_clock(seen, now)), "Times have fractions"),
    (lambda seen, now: wall_clock([one for one in seen if one[0] < now], now), "very moment"),
)
