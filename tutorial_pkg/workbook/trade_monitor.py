"""The trade monitor's results: read back from the lines in its files, and drawn while they grow."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from tutorial_pkg.workbook.look import chart

Counts = dict[tuple[str, datetime], int]  # of a ticker, in the window with this end


def results(folder: Path) -> Counts:
    """What the items `ticker end count` of a CPU log say; `end` in seconds since the epoch.

    Only whole lines count: the log may be written to just now.
    """
    texts = [file.read_text() for file in folder.glob("data.*.csv")]
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    items = [line.split(",", 2)[2].split() for line in lines]
    return {
        (ticker, datetime.fromtimestamp(int(end), UTC)): int(count) for ticker, end, count in items
    }


def draw_counts(found: Counts) -> Figure:
    """A line for each ticker over the ends of its windows."""
    figure, axes = chart("end of the window (UTC)", "trades in 30 seconds")
    plt.close(figure)  # a handle shows it, not the cell's end
    for ticker in sorted({name for name, _ in found}):
        ends = sorted(end for name, end in found if name == ticker)
        axes.plot(ends, [found[ticker, end] for end in ends], "o-", label=ticker)
    if found:
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
