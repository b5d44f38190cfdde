"""All queries of a session, drawn again and again in the same place while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from IPython.display import DisplayHandle
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from tutorial_pkg.observe import BatchMetrics, QueryMetrics, QueryRecord
from workbook.look import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    use_look,
    with_commas,
)

REDRAW_SECONDS = 0.5
PHASES = {  # in the order in which they come, each with its colour
    "latestOffset": SKY,
    "walCommit": GREEN,
    "queryPlanning": PURPLE,
    "addBatch": ORANGE,
    "commitOffsets": BLUE,
}
PANELS = 4


def dashboard(metrics: QueryMetrics, until: Callable[[], Any], seconds: float = 300) -> None:
    """Draw the queries that run, until `until()` is true.

    For each query: rows a second that came and that were dealt with, the seconds of each batch by
    phase, how far it is behind its source and how old its watermark is, and what it keeps and
    drops. Raises `TimeoutError` after that many `seconds`.
    """
    handle = DisplayHandle()
    handle.display(picture(metrics.queries()))
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise TimeoutError(f"what the dashboard waits for did not happen within {seconds:g} s")
        time.sleep(REDRAW_SECONDS)
        handle.update(picture(metrics.queries()))
    handle.update(picture(metrics.queries()))


def picture(queries: Sequence[QueryRecord], now: datetime | None = None) -> Figure:
    """A row of plots for each query that runs."""
    running = [query for query in queries if query.state == "running"]
    use_look()
    height = 2.3 * max(1, len(running))
    figure, axes = plt.subplots(
        max(1, len(running)), PANELS, figsize=(13, height), layout="constrained", squeeze=False
    )
    plt.close(figure)  # shown by a handle, not once more at the end of the cell
    for row, query in zip(axes, running, strict=False):
        _draw(row, query.batches, now or datetime.now(UTC))
        row[0].set_title(f"{query.name}: rows a second")
    return figure


def _draw(axes: Sequence[Any], batches: list[BatchMetrics], now: datetime) -> None:
    numbers = [batch.batch for batch in batches]
    for axis in axes:
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("batch")
    _rates(axes[0], numbers, batches)
    _phases(axes[1], numbers, batches)
    _behind(axes[2], numbers, batches, now)
    _kept(axes[3], numbers, batches)
    for axis in axes:
        axis.set_ylim(bottom=0, top=max(1.0, axis.get_ylim()[1]))  # nothing but zeros lies flat
        axis.yaxis.get_major_locator().set_params(integer=True)
        with_commas(axis.yaxis)


def _rates(axis: Any, numbers: list[int], batches: list[BatchMetrics]) -> None:
    axis.plot(numbers, [batch.in_per_second for batch in batches], color=GRAY, label="came")
    axis.plot(numbers, [batch.done_per_second for batch in batches], color=BLUE, label="done")
    axis.legend(fontsize="small")


def _phases(axis: Any, numbers: list[int], batches: list[BatchMetrics]) -> None:
    axis.set_title("seconds of a batch, by phase")
    bottom = [0.0] * len(batches)
    for phase, color in PHASES.items():
        seconds = [batch.seconds.get(phase, 0.0) for batch in batches]
        axis.bar(numbers, seconds, bottom=bottom, color=color, label=phase)
        bottom = [below + height for below, height in zip(bottom, seconds, strict=True)]
    axis.set_ylim(top=1.7 * max(bottom, default=1.0))  # the names stand above the bars
    axis.legend(fontsize="x-small", ncols=2, loc="upper center")


def _behind(axis: Any, numbers: list[int], batches: list[BatchMetrics], now: datetime) -> None:
    """The lag of each batch, if the source tells it; below, how old the watermark is by now."""
    lags = {batch.batch: batch.lag for batch in batches if batch.lag is not None}
    axis.set_title("lag behind the source, its units" if lags else "lag: the source tells none")
    axis.plot(list(lags.keys()), list(lags.values()), color=PURPLE)
    if not lags:
        axis.tick_params(labelbottom=False, labelleft=False)
    age = batches[-1].watermark_behind(now) if batches else None
    if age is not None:
        axis.set_xlabel(f"batch; the watermark is {age:,.0f} s old")


def _kept(axis: Any, numbers: list[int], batches: list[BatchMetrics]) -> None:
    axis.set_title("rows kept, rows dropped as late")
    axis.plot(numbers, [batch.state_rows for batch in batches], color=GREEN, lw=5, label="kept")
    axis.plot(numbers, [batch.late_rows for batch in batches], color=RED, lw=1.5, label="late")
    axis.legend(fontsize="small")
