"""How long a micro-batch takes, as Spark itself notes it."""

from __future__ import annotations

import tempfile

from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from tutorial_pkg import last_error
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.workbook.drills import wait_until

MOST_SECONDS = 300


def seconds_of_a_batch(writer: DataStreamWriter, **options: object) -> float:
    """Of the second one: the first begins with Spark's own preparations."""
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as checkpoint:
        given = {"checkpointLocation": checkpoint, **options}
        query = writer.options(**given).trigger(processingTime="0 seconds").start()
        wait_until(lambda: _ended(query, 2), MOST_SECONDS, "two batches")
        query.stop()
    progress = next(each for each in query.recentProgress if each.batchId == 1)
    return progress.durationMs["triggerExecution"] / 1000


def _ended(query: StreamingQuery, batches: int) -> bool:
    if query.exception():
        raise RuntimeError(last_error(query))
    return bool(query.lastProgress) and query.lastProgress.batchId >= batches - 1
