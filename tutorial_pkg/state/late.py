"""Find the rows of a batch that Spark's windows have dropped as too late.

Spark reports only a number, which counts partial sums. The watermark of each batch is in the
query's checkpoint, and with it you can find the rows themselves.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import Column
from pyspark.sql import functions as F

_NEVER = datetime.fromtimestamp(0, UTC)  # where Spark's watermark begins


def drop_mark(checkpoint: str | Path, batch: int) -> datetime:
    """Return the watermark of batch `batch`: windows that end at or before it are closed.

    It is the watermark with which the *previous* batch closed its windows, since a batch first
    takes its rows and then closes windows. Before that it is the start of the epoch.

    Source: `offsets/N` in the checkpoint, a folder on this machine, which has the last hundred
    batches. Raises `ValueError` if it lacks this one.
    """
    if batch == 0:
        return _NEVER
    file = Path(checkpoint) / "offsets" / str(batch - 1)
    try:
        metadata = json.loads(file.read_text().splitlines()[1])
    except FileNotFoundError:
        raise ValueError(
            f"checkpoint {str(checkpoint)!r} has no batch {batch - 1}: expected the query's "
            "`checkpointLocation`, a folder on this machine, and one of its last batches"
        ) from None
    return _NEVER + timedelta(milliseconds=metadata["batchWatermarkMs"])


def is_late(time: str, mark: datetime, window: str, slide: str | None = None) -> Column:
    """Return a column that is true if `mark` has closed all windows with a row's `time`.

        def write(batch, number):
            mark = drop_mark(checkpoint, number)
            late = batch.where(is_late("time", mark, "30 seconds", "10 seconds"))

    `window` and `slide` are those of `functions.window`. Like that function, the column removes
    rows that have no time from the DataFrame.
    """
    last = F.window(time, slide or window).start + F.expr(f"INTERVAL '{window}'")
    return last <= F.lit(mark)
