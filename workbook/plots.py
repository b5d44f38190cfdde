"""Charts with one look, and plots of running queries that are drawn again and again.

Charts and diagrams stand on a white card: an output is stored once and shown on light and dark
pages alike, so it cannot follow the page's colors.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from itertools import accumulate
from typing import Any

from IPython.display import DisplayHandle, display
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.observe import BatchMetrics, QueryMetrics

REDRAW_SECONDS = 0.5

# Okabe and Ito's colors, which people with any kind of color blindness can tell apart.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY, GRAY, INK = "#cc79a7", "#56b4e9", "#8c8c8c", "#333333"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # it comes with matplotlib, so every machine has it
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


def chart(x: str, y: str, height: float = 2.8, panels: int = 1) -> tuple[Figure, Any]:
    """Return a figure and its axes, a list of them for several `panels`.

    `x` and `y` name what the axes show, with its unit.
    """
    plt.style.use(STYLE)
    figure, axes = plt.subplots(1, panels, figsize=(9, height), layout="constrained")
    for axis in axes if panels > 1 else [axes]:
        axis.set(xlabel=x, ylabel=y)
    return figure, axes


def picture(figure: Figure, alt: str, show: Callable[..., object] = display) -> None:
    """Show the figure as a PNG with an alternative text, and close it.

    `alt` says in a sentence or two what the figure shows, for readers who can't see it. Name
    nothing that differs between runs: the text is stored, and a test compares it.
    """
    plt.close(figure)  # otherwise the end of the cell would show it once more
    file = BytesIO()
    figure.savefig(file, format="png")
    bundle = {"image/png": b64encode(file.getvalue()).decode(), "text/plain": alt}
    show(bundle, raw=True, metadata={"image/png": {"alt": alt}})


def draw_arrivals(
    lines: Sequence[str],
    panels: Mapping[str, Sequence[StreamingQueryProgress]],
    names: tuple[str, str],
    alt: str,
) -> None:
    """Show lines of the CPU log, in order of arrival, by event time, and the watermark.

    `panels` has a query's batches by the panel's title. Lines with an even sequence number have the
    first of both `names`.
    """
    start, count = int(min(lines)[:13]) / 1000, len(lines)
    seconds = [int(line[:13]) / 1000 - start for line in lines]
    colors = [(BLUE, GREEN)[int(line.rstrip(")")[-1]) % 2] for line in lines]
    top, bottom = 1.1 * max(seconds), -0.3 * max(seconds)
    figure, axes = chart("lines, in order of arrival", "event time, seconds", 3.8, len(panels))
    axes = axes if len(panels) > 1 else [axes]
    for axis, (title, batches) in reversed([*zip(axes, panels.items(), strict=True)]):
        axis.scatter(range(count), seconds, s=2, c=colors)
        arrived = list(accumulate(batch.numInputRows for batch in batches))
        times = [datetime.fromisoformat(batch.eventTime["watermark"]) for batch in batches]
        marks = [time.timestamp() - start for time in times]
        axis.step(arrived, marks, color="black")
        axis.set(xlim=(0, count), ylim=(bottom, top), title=title)
    begin = max(x for x, mark in zip(arrived, marks, strict=True) if mark < bottom)
    axis.text(begin, 0.9 * bottom, " watermark", va="center")
    axis.text(0.33 * count, 0.75 * top, names[0], color=BLUE, ha="right")
    axis.text(0.62 * count, 0.1 * top, names[1], color=GREEN)
    picture(figure, alt)


def _panels(titles: Collection[str], height: float) -> tuple[Figure, Any]:
    """Return a figure with a panel for each title, and the panels; they show batches."""
    figure, axes = chart("batch", "", height=height, panels=len(titles))
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
        axis.grid(axis="x", visible=False)
        axis.xaxis.get_major_locator().set_params(integer=True)
    return figure, axes


# ---- One query -----------------------------------------------------------------------------------


def watch(query: StreamingQuery, rows: int, seconds: float = 100) -> None:
    """Draw the rows and the milliseconds of each batch until the query has read `rows` rows.

    Raises `RuntimeError` when the query fails, and `TimeoutError` after that many `seconds`.
    """
    alt = "Bars for each batch: its number of rows, and the milliseconds that it took."
    handle, count, end = DisplayHandle(), 0, time.monotonic() + seconds
    batches: dict[int, StreamingQueryProgress] = {}
    picture(batch_bars([]), alt, handle.display)
    while count < rows:
        if not query.isActive:
            raise RuntimeError(f"the query has stopped: {last_error(query) or 'no error'}")
        if time.monotonic() > end:
            raise TimeoutError(f"{count} of {rows} rows were read within {seconds:g} s")
        time.sleep(REDRAW_SECONDS)
        batches.update({batch.batchId: batch for batch in query.recentProgress})
        last, count = count, sum(batch.numInputRows for batch in batches.values())
        if count > last:  # drawing without news would only delay Spark's next report
            picture(batch_bars(list(batches.values())), alt, handle.update)


def batch_bars(batches: list[StreamingQueryProgress]) -> Figure:
    """Return the batches as bars, in one plot each for rows and time."""
    plots = {
        "rows in each batch": ([batch.numInputRows for batch in batches], BLUE),
        "milliseconds for each batch": ([batch.batchDuration for batch in batches], ORANGE),
    }
    figure, axes = _panels(plots, height=2.4)
    for axis, (heights, color) in zip(axes, plots.values(), strict=True):
        axis.bar([batch.batchId for batch in batches], heights, color=color)
        axis.set_ylim(bottom=0, top=None if any(heights) else 1)
        axis.yaxis.set_major_formatter("{x:,.6g}")  # 200,000
    return figure


# ---- A query that may be broken ------------------------------------------------------------------

PHASES = {  # of a batch, in their order
    "latestOffset": SKY,
    "walCommit": GREEN,
    "queryPlanning": PURPLE,
    "addBatch": ORANGE,
    "commitOffsets": BLUE,
}
BATCHES = 7  # the first one is not drawn
SMALLEST_NAMED = 0.04  # of the sum of all times: smaller parts have no room for a name


def dashboard(metrics: QueryMetrics, name: str) -> None:
    """Draw the query's batches, except the first one, until there are seven, or for 5 minutes."""
    handle, count, end = DisplayHandle(), 0, time.monotonic() + 300
    picture(query_panels([]), "No batches yet.", handle.display)
    while count < BATCHES and time.monotonic() < end:
        time.sleep(REDRAW_SECONDS)
        query = metrics.query(name)
        if query.batches_total > count:
            count = query.batches_total
            figure = query_panels(query.batches[1:BATCHES])
            alt = "Bars for each batch: " + " | ".join(axis.get_title() for axis in figure.axes)
            picture(figure, alt, handle.update)


def query_panels(batches: Sequence[BatchMetrics]) -> Figure:
    """Return a panel for the seconds by phase, and those for lag and rows that say something."""
    draw = {"seconds for each batch, by phase": _draw_phases}
    if batches and batches[-1].lag:
        draw["rows that wait in the source"] = _draw_lag
    if len(draw) == 1 or any(batch.late_rows for batch in batches):
        draw["rows in each batch"] = _draw_rows
    figure, axes = _panels(draw, height=2.6)
    for axis, panel in zip(axes, draw.values(), strict=True):
        if batches:
            panel(axis, batches)
    return figure


def _draw_lag(axis: Any, batches: Sequence[BatchMetrics]) -> None:
    axis.bar([batch.batch for batch in batches], [batch.lag or 0 for batch in batches], color=RED)


def _draw_rows(axis: Any, batches: Sequence[BatchMetrics]) -> None:
    numbers, late = [batch.batch for batch in batches], [batch.late_rows for batch in batches]
    axis.bar(numbers, [batch.rows_in for batch in batches], color=GRAY)
    if any(late):
        axis.bar(numbers, late, color=RED)
        _name(axis, batches, "dropped\nas late", late[-1] / 2, RED)


def _draw_phases(axis: Any, batches: Sequence[BatchMetrics]) -> None:
    bottom = [0.0] * len(batches)
    for phase, color in PHASES.items():
        heights = [batch.seconds.get(phase, 0.0) for batch in batches]
        axis.bar([batch.batch for batch in batches], heights, bottom=bottom, color=color)
        if heights[-1] > SMALLEST_NAMED * sum(batches[-1].seconds.values()):
            _name(axis, batches, phase, bottom[-1] + heights[-1] / 2, color)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]


def _name(axis: Any, batches: Sequence[BatchMetrics], name: str, height: float, color: str) -> None:
    """Write the name of a part of the last bar to its right."""
    place = batches[-1].batch + 0.5, height
    axis.annotate(name, place, color=color, va="center", annotation_clip=False)


# ---- Reports of the conformance kit ------------------------------------------------------------


def draw_reports(reports: Mapping[str, Any]) -> None:
    """Plot which promise each `Report` found kept or broken; gray cells were not tried."""
    verdicts = [one for report in reports.values() for one in report.verdicts]
    promises = list(dict.fromkeys(verdict.name for verdict in verdicts))
    figure, axes = chart("", "", height=3)
    for row, report in enumerate(reports.values()):
        marks = {verdict.name: verdict.mark for verdict in report.verdicts}
        for column, promise in enumerate(promises):
            color = {"✓": GREEN, "✗": RED}.get(marks.get(promise, ""), "#eeeeee")
            axes.add_patch(plt.Rectangle((column - 0.48, row - 0.45), 0.96, 0.9, color=color))
            axes.text(column, row, marks.get(promise, ""), color="white", ha="center", va="center")
    axes.set(xlim=(-0.5, len(promises) - 0.5), ylim=(len(reports) - 0.5, -0.5))
    axes.set_yticks(range(len(reports)), reports)
    axes.set_xticks(range(len(promises)), promises)
    axes.xaxis.tick_top()
    axes.grid(False)
    axes.tick_params(length=0)
    broken = [f"{name}: {', '.join(report.broken)}" for name, report in reports.items()]
    picture(figure, alt=f"A table of connectors and promises. Broken are: {'; '.join(broken)}.")
