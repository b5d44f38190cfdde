"""A plot of a running query that is drawn again and again in the same place."""

from __future__ import annotations

import time
from typing import Any

from IPython.display import display
from matplotlib import pyplot as plt
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.session import last_error

REDRAW_SECONDS = 0.5


def watch(query: StreamingQuery, rows: int, seconds: float = 60) -> int:
    """Draw the query's batches until it has read `rows` rows; the number of rows read.

    Raises `RuntimeError` when the query fails, and `TimeoutError` after so many `seconds`.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
    plt.close(figure)  # shown by the handle below, not once more at the end of the cell
    handle = display(figure, display_id=True)
    end = time.monotonic() + seconds
    batches: dict[int, Any] = {}
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


def _draw(axes: Any, batches: list[Any]) -> None:
    numbers = [batch.batchId for batch in batches]
    for axis, heights, title in (
        (axes[0], [batch.numInputRows for batch in batches], "rows in each batch"),
        (axes[1], [batch.batchDuration for batch in batches], "milliseconds for each batch"),
    ):
        axis.clear()
        axis.bar(numbers, heights, color="tab:blue" if axis is axes[0] else "tab:orange")
        axis.set(title=title, xlabel="batch")
        axis.xaxis.get_major_locator().set_params(integer=True)
