"""Draw the trade monitor's growing counts, and windows of any kind as bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tutorial_pkg.connectors.cpu_log import DATA_FILES
from workbook.plots import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED, SKY, chart

# ---- The trade monitor ---------------------------------------------------------------------------

Counts = dict[tuple[str, datetime], int]  # of a ticker, in the window with this end
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GRAY)  # as many as there are tickers


def results(folder: Path) -> Counts:
    """Read the items `ticker end count` of a CPU log; `end` is in seconds since the epoch.

    Only whole lines count: the log may be written to just now.
    """
    texts = [file.read_text() for file in folder.glob(DATA_FILES)]
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    items = [line.split(",", 2)[2].split() for line in lines]
    return {
        (ticker, datetime.fromtimestamp(int(end), UTC)): int(count) for ticker, end, count in items
    }


def draw_counts(found: Counts) -> Figure:
    """A line for each ticker over the ends of its windows."""
    figure, axes = chart("end of the window (UTC)", "trades in 30 seconds")
    plt.close(figure)  # a handle shows it, not the cell's end
    axes.set_prop_cycle(color=COLORS)
    for ticker in sorted({name for name, _ in found}):
        ends = sorted(end for name, end in found if name == ticker)
        axes.plot(ends, [found[ticker, end] for end in ends], "o-", label=ticker)
    if found:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


# ---- Windows of any kind -------------------------------------------------------------------------

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
    """Deal the spans to as few rows as possible, without overlaps."""
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
