"""Windows seen: a bar for each, above the events that are in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tutorial_pkg.workbook.look import BLUE, GREEN, INK, ORANGE, chart

Span = tuple[float, float, int]  # from, to, number of events
ROW, BAR = 0.42, 0.34


def spans_of(counted: DataFrame, start: datetime) -> list[Span]:
    """Rows of `window` and `count`, in seconds since `start`, in order of time."""
    edges = [F.col(f"window.{edge}").cast("double") for edge in ("start", "end")]
    begin, rows = start.timestamp(), counted.select(*edges, "count").collect()
    return sorted((row[0] - begin, row[1] - begin, row[2]) for row in rows)


def draw_windows(seconds: Sequence[float], kinds: dict[str, Sequence[Span]]) -> Figure:
    """The events as ticks at the bottom; above them, for each kind, its windows with their counts.

    Windows that overlap are drawn one above the other.
    """
    figure, axes = chart("event time (s)", "", height=3.6)
    height, places, names = 0.6, [0.0], ["trades"]
    axes.plot(seconds, [0.0] * len(seconds), "|", color=INK, markersize=14, markeredgewidth=2)
    for (kind, spans), color in zip(kinds.items(), (BLUE, ORANGE, GREEN), strict=False):
        lanes = _lanes(spans)
        for lane, row in enumerate(lanes):
            _draw(axes, row, height + lane * ROW, color)
        places.append(height + (len(lanes) - 1) * ROW / 2)
        names.append(kind)
        height += len(lanes) * ROW + 0.3
    axes.set_yticks(places, names)
    axes.grid(axis="y", visible=False)
    axes.set_ylim(-0.4, height)
    return figure


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """The spans dealt to as few rows as they fit into without touching one another."""
    lanes: list[list[Span]] = []
    for span in sorted(spans):
        free = next((lane for lane in lanes if lane[-1][1] <= span[0]), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


def _draw(axes: Axes, spans: Iterable[Span], height: float, color: str) -> None:
    for begin, end, events in spans:
        axes.barh(height, end - begin, BAR, left=begin, color=color, edgecolor="white", alpha=0.75)
        axes.text((begin + end) / 2, height, str(events), ha="center", va="center", color=INK)
