"""Watermark policies: the arrivals of two exchanges, and where each policy puts the watermark.

An arrival is a pair of seconds: the clock's, and the event's own. A policy is a function of the
arrivals so far and of the clock: `policy(seen, now)` returns the watermark, or None.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from workbook.plots import BLUE, GRAY, GREEN, ORANGE, PURPLE, RED, chart

Arrival = tuple[float, float]
Policy = Callable[[Sequence[Arrival], float], float | None]
TICK = 0.25  # seconds of the clock from one look at a policy to the next
END = 60.0
LAG, DELAY, LULL, BEHIND = 2, 6, 5, 10  # seconds: what the policies are given
COLORS = (BLUE, ORANGE, GREEN, PURPLE)


def arrivals(exchange: int) -> list[Arrival]:
    """Exchange 0 pauses from second 30 to 42. Exchange 1 is 3 s late, and silent from 20 on.

    What happened is reported up to 2 s later, as the trades of this notebook are.
    """
    dice = random.Random(exchange)
    spoken = [n / 2 for n in range(1, 120) if exchange == 0 or n < 40]
    heard = [clock for clock in spoken if not (exchange == 0 and 30 < clock < 42)]
    return [(clock, clock - 3 * exchange - 2 * dice.random()) for clock in heard]


def followed(policy: Policy, seen: Sequence[Arrival]) -> list[float | None]:
    """Return the policy's watermark at each tick of the clock; it never goes back."""
    marks: list[float | None] = []
    best: float | None = None
    for tick in range(int(END / TICK) + 1):
        now = tick * TICK
        told = policy([arrival for arrival in seen if arrival[0] <= now], now)
        best = told if best is None or (told is not None and told > best) else best
        marks.append(best)
    return marks


def least(streams: Sequence[Sequence[float | None]]) -> list[float | None]:
    """Coalesce: return the least at each tick, or None as long as one stream has none."""
    return [
        None if any(m is None for m in marks) else min(m for m in marks if m is not None)
        for marks in zip(*streams, strict=True)
    ]


def by_frame(marks: Sequence[float | None], frame: float) -> list[float]:
    """Return only the watermarks that enter a new frame."""
    sent: list[float] = []
    for mark in marks:
        if mark is not None and (not sent or mark // frame > sent[-1] // frame):
            sent.append(mark)
    return sent


def behind(marks: Sequence[float | None], seen: Sequence[Arrival]) -> int:
    """Count the arrivals behind the watermark of the tick before them."""
    before = [marks[max(0, int((clock - 1e-9) / TICK))] for clock, _ in seen]
    return sum(m is not None and time < m for m, (_, time) in zip(before, seen, strict=True))


def draw_policies(policies: dict[str, Policy], exchanges: Sequence[Sequence[Arrival]]) -> Figure:
    """All arrivals as dots, and each policy's watermark, the least of all exchanges, as a line."""
    figure, axes = chart("clock (s)", "event time (s)", height=4.2)
    for number, (seen, color) in enumerate(zip(exchanges, (GRAY, RED), strict=False)):
        axes.plot(*zip(*seen, strict=True), ".", color=color, label=f"trades of exchange {number}")
    for (name, policy), color in zip(policies.items(), COLORS, strict=False):
        marks = least([followed(policy, seen) for seen in exchanges])
        clock = [tick * TICK for tick in range(len(marks))]
        heights = [float("nan") if mark is None else mark for mark in marks]
        axes.step(clock, heights, where="post", color=color, label=name)
    axes.set_xlim(0, END)
    axes.legend(loc="upper left")
    return figure
