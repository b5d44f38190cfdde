"""A plot of a running query that is drawn again and again in the same place."""

from __future__ import annotations

import json
import time
from typing import Any

from IPython.display import DisplayHandle
from matplotlib import pyplot as plt
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tutorial_pkg.errors import last_error

REDRAW_SECONDS = 0.5


def watch(query: StreamingQuery, rows: int, seconds: float = 60) -> int:
    """Draw the query's batches until it has read `rows` rows; the number of rows read.

    Three plots: the rows of each batch, the milliseconds it took, and the lag: how far the
    query's offset was behind the source's newest, in the source's own unit (often bytes).
    Raises `RuntimeError` when the query fails, and `TimeoutError` after so many `seconds`.
    """
    figure, axes = plt.subplots(1, 3, figsize=(10, 2.5), layout="constrained")
    plt.close(figure)  # shown by the handle below, not once more at the end of the cell
    handle = DisplayHandle()
    handle.display(figure)
    end = time.monotonic() + seconds
    batches: dict[int, StreamingQueryProgress] = {}
    while (seen := sum(batch.numInputRows for batch in batches.values())) < rows:
        if not query.isActive:
            raise RuntimeError(f"the query has stopped: {last_error(query) or 'no error'}")
        if time.monotonic() > end:
            raise TimeoutError(f"{seen} of {rows} rows were read within {seconds:g} s")
        time.sleep(REDRAW_SECONDS)
        batches.update({batch.batchId: batch for batch in query.recentProgress})
        _draw(axes, list(batches.values()))
        handle.update(figure)
    return seen


def lag(progress: StreamingQueryProgress) -> float | None:
    """How far the batch's end was behind the newest offsets that its sources reported.

    None when no source reports any. Offsets are JSON of the source's making: the numbers in it
    count, whatever holds them.
    """
    reporting = [s for s in progress.sources if s.latestOffset not in (None, "null", "")]
    if not reporting:
        return None
    return sum(max(0.0, _position(s.latestOffset) - _position(s.endOffset)) for s in reporting)


def _position(offset: str) -> float:
    return _sum_of_numbers(json.loads(offset))


def _sum_of_numbers(value: Any) -> float:
    if isinstance(value, dict):
        return sum(map(_sum_of_numbers, value.values()))
    if isinstance(value, list):
        return sum(map(_sum_of_numbers, value))
    return value if isinstance(value, int | float) else 0.0


def _draw(axes: Any, batches: list[StreamingQueryProgress]) -> None:
    numbers = [batch.batchId for batch in batches]
    lags = [lag(batch) for batch in batches]
    for axis, heights, title, color in (
        (axes[0], [batch.numInputRows for batch in batches], "rows in each batch", "tab:blue"),
        (axes[1], [batch.batchDuration for batch in batches], "milliseconds", "tab:orange"),
        (axes[2], [behind or 0 for behind in lags], "lag behind the source", "tab:red"),
    ):
        axis.clear()
        axis.bar(numbers, heights, color=color)
        axis.set(title=title, xlabel="batch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_ylim(bottom=0, top=None if any(heights) else 1)
    if all(behind is None for behind in lags):
        axes[2].text(0.5, 0.5, "not reported", transform=axes[2].transAxes, ha="center")
