"""One look for all charts of the workbook: `chart` makes one, with its units on the axes.

Charts and diagrams stand on a white card. An output is stored once and shown on light and dark
pages alike, in JupyterLab and in the book, so it cannot follow the page's colours.
"""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

# Okabe and Ito's colours, which people with any kind of colour blindness tell apart.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY, GRAY, INK = "#cc79a7", "#56b4e9", "#8c8c8c", "#333333"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # it comes with matplotlib, so it is there on every machine
    "font.size": 10,
    "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN, RED, PURPLE, SKY]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "figure.dpi": 100,
    "savefig.facecolor": "white",
    "axes.formatter.limits": (-4, 12),  # 200000, not 2 and "1e5" in a corner
    "axes.formatter.useoffset": False,
    **{f"date.autoformatter.{unit}": "%H:%M:%S" for unit in ("hour", "minute", "second")},
    "date.autoformatter.microsecond": "%H:%M:%S",
}


def use_look() -> None:
    """Draw from now on as the workbook does; `chart` calls it."""
    plt.style.use(STYLE)


def chart(x: str, y: str, height: float = 2.8, panels: int = 1) -> tuple[Figure, Any]:
    """A figure and its axes, a list of them for several `panels`; `x`, `y` name axes and units."""
    use_look()
    figure, axes = plt.subplots(1, panels, figsize=(9, height), layout="constrained")
    for axis in axes if panels > 1 else [axes]:
        axis.set(xlabel=x, ylabel=y)
    return figure, axes


def with_commas(axis: Axis) -> None:
    """Write the numbers of `axes.xaxis` or `axes.yaxis` in full (200,000), also on log axes."""
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_minor_formatter(NullFormatter())
