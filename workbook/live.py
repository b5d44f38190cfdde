"""A plot of a running query that is drawn again and again in the same place."""

from __future__ import annotations

import time
from collections.abc import Sequence

from IPython.display import DisplayHandle
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.observe.records import lag
from workbook.look import BLUE, ORANGE, RED, chart, with_commas

REDRAW_SECONDS = 0.5


def watch(query: StreamingQuery, rows: int, seconds: float = 100, unit: str = "") -> int:
    """Draw the query's batches until it has read `rows` rows; the number of rows read.

    Two plots: the rows of each batch, and the milliseconds it took. With the `unit` of the
    source's offsets (bytes, say) a third one: the lag, which is how far each batch's end was
    behind the newest offset that the source reported. (A source may report one and never lag, as
    Spark's `rate` does, so that whoever draws it has to say whether lag means something.)
    Raises `RuntimeError` when the query fails, and `TimeoutError` after that many `seconds`.
    """
    handle = DisplayHandle()
    handle.display(picture([], unit))
    end = time.monotonic() + seconds
    batches: dict[int, StreamingQueryProgress] = {}
    while (seen := sum(batch.numInputRows for batch in batches.values())) < rows:
        if not query.isActive:
            raise RuntimeError(f"the query has stopped: {last_error(query) or 'no error'}")
        if time.monotonic() > end:
            raise TimeoutError(f"{seen} of {rows} rows were read within {seconds:g} s")
        time.sleep(REDRAW_SECONDS)
        batches.update({batch.batchId: batch for batch in query.recentProgress})
        handle.update(picture(list(batches.values()), unit))
    return seen


def picture(batches: list[StreamingQueryProgress], unit: str = "") -> Figure:
    """The batches as bars, in a plot each for rows, time and, in its `unit`, lag."""
    plots: list[tuple[str, Sequence[float], str]] = [
        ("rows in each batch", [batch.numInputRows for batch in batches], BLUE),
        ("milliseconds for each batch", [batch.batchDuration for batch in batches], ORANGE),
    ]
    if unit:
        lags = [lag(batch) or 0 for batch in batches]
        plots.append((f"lag behind the source, {unit}", lags, RED))
    figure, axes = chart("batch", "", height=2.4, panels=len(plots))
    plt.close(figure)  # shown by a handle, not once more at the end of the cell
    for axis, (title, heights, color) in zip(axes, plots, strict=True):
        axis.bar([batch.batchId for batch in batches], heights, color=color)
        axis.set_title(title)
        axis.grid(axis="x", visible=False)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(bottom=0, top=None if any(heights) else 1)
        with_commas(axis.yaxis)
    return figure
