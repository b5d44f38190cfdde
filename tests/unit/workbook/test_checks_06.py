"""The checks of notebook 06: right answers pass, typical wrong ones get the message that helps."""

from __future__ import annotations

import pytest

from tutorial_pkg.workbook.checks import check_06_1, check_06_2
from tutorial_pkg.workbook.checks.notebook_06 import a_heartbeat

BEGIN = 1583309377078


def newest_by_port(events: list, ports: tuple) -> list[dict]:
    """The newest time of each port that has sent any, after each event."""
    newest, after = {}, []
    for port, event_time in events:
        newest[port] = max(event_time, newest.get(port, event_time))
        after.append(dict(newest))
    return after


def coalesced(events: list, ports: tuple, delay: int) -> list:
    return [
        min(newest.values()) - delay if len(newest) == len(ports) else None
        for newest in newest_by_port(events, ports)
    ]


def without_delay(events: list, ports: tuple, delay: int) -> list:
    return coalesced(events, ports, 0)


def of_those_heard(events: list, ports: tuple, delay: int) -> list:
    return [min(newest.values()) - delay for newest in newest_by_port(events, ports)]


def of_the_fastest(events: list, ports: tuple, delay: int) -> list:
    return [
        max(newest.values()) - delay if len(newest) == len(ports) else None
        for newest in newest_by_port(events, ports)
    ]


def of_the_last(events: list, ports: tuple, delay: int) -> list:
    last, marks = {}, []
    for port, event_time in events:
        last[port] = event_time
        marks.append(min(last.values()) - delay if len(last) == len(ports) else None)
    return marks


def zero_is_silence(events: list, ports: tuple, delay: int) -> list:
    newest, marks = dict.fromkeys(ports, 0), []
    for port, event_time in events:
        newest[port] = max(event_time, newest[port])
        marks.append(min(newest.values()) - delay if all(newest.values()) else None)
    return marks


def of_two_ports(events: list, ports: tuple, delay: int) -> list:
    return coalesced(events, ("A", "B"), delay)


def with_its_own_delay(events: list, ports: tuple, delay: int) -> list:
    return coalesced(events, ports, 5)


def never_below_zero(events: list, ports: tuple, delay: int) -> list:
    return coalesced([(port, max(event_time, 0)) for port, event_time in events], ports, delay)


def test_06_1_right() -> None:
    assert check_06_1(coalesced).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (lambda events: events, "it raised TypeError"),
        (lambda events, ports, delay: 15, "A list with one watermark"),
        (lambda events, ports, delay: [15], "A list with one watermark"),
        (without_delay, "Subtract the delay"),
        (of_those_heard, "until then it is None"),
        (of_the_fastest, "take the minimum"),
        (zero_is_silence, "a port that has sent one is not silent"),
        (never_below_zero, "0 and -3 are times, too"),
        (of_two_ports, "Port C has said nothing yet"),
        (with_its_own_delay, "Subtract the `delay` that is handed over"),
        (lambda events, ports, delay: coalesced(events, ports, -delay), "it must be [None, None"),
        (lambda events, ports, delay: tuple(coalesced(events, ports, delay)), "A list with one"),
        (of_the_last, "keep the newest of each"),
        (lambda events, ports, delay: [None] * len(events), "it must be [None, None, 5, 15"),
    ],
)
def test_06_1_wrong(answer: object, hint: str) -> None:
    verdict = check_06_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


@pytest.mark.parametrize("second", [915, 920, 925])
def test_06_2_right(second: int) -> None:
    assert check_06_2(f"{BEGIN + second * 1000},0.0,heartbeat", BEGIN).passed
    assert check_06_2(a_heartbeat(BEGIN), BEGIN).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (915, "a string; this is int"),
        ("heartbeat", "its event time is null"),
        (f"{BEGIN + 915_000}", "its event time is null"),
        (f"{BEGIN + 915_000},a\n", "One line is wanted"),
        ("915,0.0,heartbeat", "give it in epoch milliseconds"),
        (f"{(BEGIN + 915_000) // 1000},0.0,heartbeat", "give it in epoch milliseconds"),
        (f"{BEGIN + 890_000},0.0,heartbeat", "waits 25 seconds more; add them"),
        (f"{BEGIN + 700_000},0.0,heartbeat", "too early"),
        (f"{BEGIN + 5_000_000},0.0,heartbeat", "too late"),
    ],
)
def test_06_2_wrong(answer: object, hint: str) -> None:
    verdict = check_06_2(answer, BEGIN)
    assert not verdict.passed
    assert hint in verdict.message
