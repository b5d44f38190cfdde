"""The checks of notebook 06."""

from __future__ import annotations

import math
from functools import partial
from itertools import accumulate, groupby
from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_06_1, check_06_2
from workbook.checks.notebook_06 import a_heartbeat

BEGIN = 1583309377078


def coalesced(events: list, ports: tuple, delay: int) -> list:
    newest, marks = {}, []
    for port, time in events:
        newest[port] = max(time, newest.get(port, time))
        marks.append(min(newest.values()) - delay if len(newest) == len(ports) else None)
    return marks


marks_with = partial(changed, coalesced)


def later(one: Any, other: Any) -> Any:
    return other if one is None else max(one, other)


def by_port(events: list, ports: tuple, delay: int) -> list:
    def mark(seen: list) -> Any:
        newest = [max((time for port, time in seen if port == one), default=None) for one in ports]
        return None if None in newest else min(newest) - delay

    return [mark(events[: number + 1]) for number in range(len(events))]


class Coalesced:
    def __call__(self, events: list, ports: tuple, delay: int) -> list:
        marks, ahead = [], dict.fromkeys(ports, -math.inf)
        for port, time in events:
            ahead[port] = max(ahead[port], time - delay)
            marks.append(None if min(ahead.values()) == -math.inf else min(ahead.values()))
        return marks


def unless_older_than_all(events: list, ports: tuple, delay: int) -> list:
    """An event counts if it is newer than all others, of whatever port."""
    newest, marks = {}, []
    for port, time in events:
        if port not in newest or time > max(newest.values()):
            newest[port] = time
        marks.append(min(newest.values()) - delay if len(newest) == len(ports) else None)
    return marks


def of_the_port_that_sends(events: list, ports: tuple, delay: int) -> list:
    newest, marks = {}, []
    for port, time in events:
        newest[port] = max(time, newest.get(port, time))
        marks.append(newest[port] - delay if len(newest) == len(ports) else None)
    return marks


def crosses_off(events: list, ports: list, delay: int) -> list:
    marks = coalesced(events, ports, delay)
    ports.clear()
    return marks


remembered: dict = {}
last_ones = marks_with(("max(time, newest.get(port, time))", "time"))
test_06_1 = tried(
    check_06_1,
    (coalesced, "✓ The smallest watermark counts"),
    (lambda events, ports, delay: coalesced(events, ports.copy(), delay), "✓ The smallest"),
    (lambda events: events, "raised TypeError"),
    (lambda events, ports, delay: 15, "A list with one watermark"),
    (lambda events, ports, delay: [15], "must be [None, None], yours is [15]"),
    (lambda events, ports, delay: [None] * len(events), "must be [None, 5], yours is"),
    (marks_with(("return marks", "return tuple(marks)")), "A list with one"),
    (marks_with((" - delay", "")), "Subtract the `delay`"),
    (marks_with((" - delay", " + delay")), "must be [None, 5], yours is [None, 15]"),
    (marks_with((" - delay", " - 5")), "Subtract the `delay` that is handed over"),
    (marks_with((" if len(newest) == len(ports) else None", "")), "until then it is None"),
    (marks_with(("len(ports)", "2")), "Port C has said nothing yet"),
    (marks_with(("min(newest", "max(newest")), "take the minimum"),
    (marks_with(("max(time, newest.get(port, time))", "time")), "keep the newest of each"),
    (lambda *given: list(accumulate(last_ones(*given), later)), "keep the newest of each"),
    (marks_with(("len(newest) ==", "sum(map(bool, newest.values())) ==")), "is not silent"),
    (marks_with(("newest.get(port, time)", "newest.get(port, 0)")), "0 and -3 are times, too"),
    (
        lambda *given: [mark for mark, _ in groupby(coalesced(*given))],
        "yours is [None]. Each event has a watermark",
    ),
    (lambda *given: [None, *coalesced(*given)[:-1]], "count an event before you look"),
    (of_the_port_that_sends, "This follows the port that has just sent"),
    (crosses_off, "or has changed its arguments"),
    (unless_older_than_all, "B's 25 is newer than B's 20, though A is further ahead: compare"),
    (by_port, "✓ The smallest watermark counts"),
    (lambda *given: coalesced(*given) or None, "not None"),
    (Coalesced(), "✓ The smallest watermark counts"),
    (lambda *given: [mark or None for mark in coalesced(*given)], "must be [None, 0], yours is"),
    (marks_with(("newest.values())", "newest[one] for one in ports[:2])")), "is [None, None, 55]"),
    (
        marks_with(("newest, marks = {}, []", "newest, marks = remembered, []")),
        "An earlier call is",
    ),
    (
        marks_with((") -> list", ", newest={}) -> list"), ("newest, marks = {},", "marks =")),
        "An earlier",
    ),
)


def line(second: int) -> str:
    return f"{BEGIN + second * 1000},0.0,heartbeat"


test_06_2 = tried(
    check_06_2,
    (line(915), "✓ One line in which nothing happened"),
    (line(920), "✓ One line"),
    (line(925), "✓ One line"),
    (a_heartbeat(BEGIN), "✓ One line"),
    (915, "a string; this is int"),
    ("heartbeat", "its event time is null"),
    (f"{BEGIN + 915_000}", "its event time is null"),
    (f"{line(915)}\n", "One line is wanted"),
    ("915,0.0,heartbeat", "give it in epoch milliseconds"),
    (f"{(BEGIN + 915_000) // 1000},0.0,heartbeat", "give it in epoch milliseconds"),
    (f"{BEGIN + 890},0.0,heartbeat", "a second has 1000 of them"),
    (f"{BEGIN + 915},0.0,heartbeat", "a second has 1000 of them"),
    (line(10), "to second -15: too early"),
    (line(890), "waits 25 seconds more; add them"),
    (line(700), "too early"),
    (line(5000), "too late"),
    (f"{BEGIN + 915_500},", "✓ One line"),
    (f"{BEGIN + 925_001},0.0,heartbeat", "too late"),
    (f"{BEGIN + 914_999},0.0,heartbeat", "too early"),
    (f'"{BEGIN + 915_000}",0.0,heartbeat', "its event time is null"),
    (f"{BEGIN + 915_000}.0,0.0,heartbeat", "its event time is null"),
    (line(895), "to second 870: the query waits 25 seconds more"),
    more=(BEGIN,),
)
