"""Late rows kept aside: which rows of a batch Spark's windows have dropped.

Spark drops late rows and reports only a number, which counts partial sums. What is needed to find
the rows themselves is in the query's checkpoint: the watermark of each batch.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

_NEVER = datetime.fromtimestamp(0, UTC)  # where Spark's watermark begins


def drop_mark(checkpoint: str | Path, batch: int) -> datetime:
    """The watermark by which batch `batch` drops: windows that end at or before it are closed.

    It is the one with which the batch *before* closed its windows: a batch takes its rows first,
    and then closes windows. As long as no window is closed, it is the beginning of the epoch.

    Source: `offsets/N` in the checkpoint, a folder on this machine; Spark keeps the notes of the
    last hundred batches. Raises `ValueError` if there is no such note.
    """
    if batch == 0:
        return _NEVER
    note = Path(checkpoint) / "offsets" / str(batch - 1)
    try:
        metadata = json.loads(note.read_text().splitlines()[1])
    except FileNotFoundError:
        raise ValueError(
            f"checkpoint {str(checkpoint)!r} has no note of batch {batch - 1}: give the "
            "`checkpointLocation` of the query, a folder on this machine, and a batch that is "
            "just being written"
        ) from None
    return _NEVER + timedelta(milliseconds=metadata["batchWatermarkMs"])


def is_late(time: str, mark: datetime, window: str, slide: str | None = None) -> Column:
    """Whether all windows that hold a row's `time` are closed by `mark`.

        def write(batch, number):
            mark = drop_mark(checkpoint, number)
            late = batch.where(is_late("time", mark, "30 seconds", "10 seconds"))

    `window` and `slide` are those of `functions.window`.
    """
    last = F.window(time, slide or window).start + F.expr(f"INTERVAL '{window}'")
    return last <= F.lit(mark)
