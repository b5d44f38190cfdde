"""The checks of notebook 18."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_18_1, check_18_2, check_18_3
from workbook.watermarks import BEHIND, DELAY, LAG, LULL


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


def one_by_one(seen: Any, now: float) -> Any:
    limits = (time - (LAG if now - clock < DELAY else 0) for clock, time in seen)
    return max(limits, default=None)


def top_or_0(seen: Any) -> Any:
    return max([0, *(time for _, time in seen)])


def used_up(seen: Any, now: float) -> Any:
    found = lag_and_delay(list(seen), now)
    while seen and seen[0][0] <= now - DELAY:
        seen.pop(0)
    return found


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
    (delaying(("*waited", "*waited[:1]")), "not that of the last one"),
    (delaying(("clock <=", "clock <")), "Event 9 came 6 s ago"),
    (delaying(("if clock", "if time")), "Event 9 came 6 s ago"),
    (delaying(("*waited", "*(time - LAG for time in waited)")), "Event 9 came 6 s ago"),
    (delaying(("top(seen)", "top_or_0(seen)")), "Event times may be below zero"),
    (
        delaying(
            (
                "max([top(seen) - LAG, *waited])",
                "max([top(seen) - LAG, *(time for time in waited if time)])",
            )
        ),
        "0 is a time, too",
    ),
    (delaying(("*waited", "now - DELAY")), "the clock is no event time: 3 minus the lag of 2"),
    (used_up, "yours is 1. An earlier call is remembered, or has changed its arguments"),
    (one_by_one, "✓ No event waits longer"),
    (lambda seen, now: one_by_one(tuple(seen), now), "✓ No event waits longer"),
)


def lag_and_lull(seen: Any, now: float) -> Any:
    if not seen:
        return None
    advanced = min(clock for clock, time in seen if time == top(seen))
    return top(seen) - LAG + max(0, now - advanced - LULL)


lulling = partial(changed, lag_and_lull)


def risen_from_0(seen: Any, now: float) -> Any:
    highest = since = 0
    for clock, time in seen:
        if time > highest:
            highest, since = time, clock
    return highest - LAG + max(0, now - since - LULL) if seen else None


def unless_highest(seen: Any, now: float) -> Any:
    highest = since = None
    for clock, time in seen:
        if not highest or time > highest:
            highest, since = time, clock
    return None if since is None else highest - LAG + max(0, now - since - LULL)


def towards_the_clock(seen: Any, now: float) -> Any:
    found = lag_and_lull(seen, now)
    return found if found is None or found < now + 10 else now


def capped_at_the_highest(seen: Any, now: float) -> Any:
    return min(top(seen), lag_and_lull(seen, now)) if seen else None


def since_the_last_rise(seen: Any, now: float) -> Any:
    rises = [two for one, two in pairwise([(0, -99), *seen]) if two[1] > one[1]]
    return top(seen) - LAG + max(0, now - rises[-1][0] - LULL) if seen else None


def all_lulls(seen: Any, now: float) -> Any:
    pauses = [two - one for (one, _), (two, _) in pairwise([*seen, (now, 0)])]
    earlier = sum(max(0, pause - LULL) for pause in pauses[:-1])
    return lag_and_lull(seen, now) + earlier if seen else None


def by_the_first_highest(seen: Any, now: float) -> Any:
    clock, time = max(seen, key=lambda one: one[1], default=(0, None))
    return None if time is None else max(time - LAG, time - LAG + now - clock - LULL)


ADVANCED = "min(clock for clock, time in seen if time == top(seen))"
test_18_2 = tried(
    check_18_2,
    (lag_and_lull, "✓ In a lull the watermark goes"),
    (lulling(UNCHECKED), "return None"),
    (BY_LAG, "goes on by 2 s"),
    (lulling((" - LULL", "")), "No event has waited long"),
    (lulling(("now - advanced - LULL)", "(now - advanced > LULL) * (now - advanced))")), "by 2 s"),
    (unless_highest, "0 is a time, too"),
    (lulling((ADVANCED, "seen[-1][0]")), "does not end the lull"),
    (lulling((ADVANCED, "seen[0][0]")), "from the arrival of the *highest*"),
    (towards_the_clock, "may be in the future"),
    (lulling(("min(clock", "max(clock")), "when it came *first*"),
    (lambda seen, now: lag_and_lull(seen, now) and int(lag_and_lull(seen, now)), "fractions"),
    (lulling(("top(seen) - LAG", "max(0, top(seen) - LAG)")), "Event times may be below zero"),
    (
        lulling(("max(0, now - advanced - LULL)", "min(LULL, max(0, now - advanced - LULL))")),
        "past",
    ),
    (risen_from_0, "must be -5, yours is -2. Event times may be below zero"),
    (capped_at_the_highest, "It goes on as long as the lull"),
    (since_the_last_rise, "does not end the lull"),
    (all_lulls, "A lull that is over no longer counts"),
    (lulling(("now - advanced - LULL", "int(now - advanced) - LULL")), "Times have fractions"),
    (lulling(("now - advanced", "now - top(seen)")), "goes on by 2 s"),
    (by_the_first_highest, "✓ In a lull the watermark goes"),
    (lulling(("max(0, now - advanced - LULL)", "sorted([0, now - advanced - LULL])[1]")), "✓ In"),
)


def wall_clock(seen: Any, now: float) -> Any:
    return max([now - BEHIND, *(time - LAG for _, time in seen)])


test_18_3 = tried(
    check_18_3,
    (wall_clock, "✓ Never further behind"),
    (lambda seen, now: wall_clock(seen, now) or now - BEHIND, "0 is a time, too"),
    (BY_LAG, "It needs no arrival"),
    (lambda seen, now: now - BEHIND, "even below zero"),
    (lambda seen, now: top(seen) - LAG if seen else now - BEHIND, "behind the clock"),
    (lambda seen, now: max([now - BEHIND, *(time - LAG for _, time in seen[-1:])]), "highest"),
    (lambda seen, now: max(now - BEHIND, 0), "below zero"),
    (lambda seen, now: max([now - BEHIND, *(clock - LAG for clock, _ in seen)]), "they count"),
    (lambda seen, now: round(wall_clock(seen, now)), "Times have fractions"),
    (lambda seen, now: wall_clock([one for one in seen if one[0] < now], now), "very moment"),
    (
        lambda seen, now: max(now - BEHIND, top_or_0(seen) - LAG) if seen else now - BEHIND,
        "Event times may be below zero",
    ),
    (
        lambda seen, now: top(seen) - LAG if seen and now - top(seen) <= BEHIND else now - BEHIND,
        "must not be more than 10 s behind",
    ),
    (lambda seen, now: min(now, wall_clock(seen, now)), "the event time counts, old or in the"),
    (
        lambda seen, now: wall_clock([one for one in seen if one[0] > now - BEHIND], now),
        "old or in",
    ),
    (lambda seen, now: min([now - BEHIND, *(time - LAG for _, time in seen)]), "even below zero"),
    (lambda seen, now: wall_clock(seen, now - LAG), "the clock alone gives the limit"),
    (lambda seen, now: wall_clock(seen, now) if seen else None, "It needs no arrival"),
    (lambda seen, now: max(now - BEHIND, top([*seen, (0, -1e9)]) - LAG), "✓ Never further behind"),
    (lambda seen, now: sorted([now - BEHIND, *(one[1] - LAG for one in seen)])[-1], "✓ Never"),
)
