"""A driver made to be killed: it writes the lines of a folder's files, one file a batch, as a log.

Arguments: folder of the lines, log directory, checkpoint, partitions, Spark master, file to make
when Spark is up, file to wait for before the query starts, `forever` or `drain`.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from tutorial_pkg import start_spark


def fail_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first attempt of partition 0 dies after it has handed on its lines."""
    yield from batches
    if TaskContext.get().partitionId() == 0 and TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("this attempt was told to fail")


folder, out, checkpoint, partitions, master, ready, go, until = sys.argv[1:]
spark = start_spark("drill", **{"spark.master": master, "spark.ui.enabled": "false"})
Path(ready).touch()
while not Path(go).exists():
    time.sleep(0.01)

lines = spark.readStream.option("maxFilesPerTrigger", 1).text(folder).repartition(int(partitions))
if master == "local[2,3]":
    lines = lines.mapInArrow(fail_at_first, lines.schema)
writer = lines.writeStream.format("cpu_log").option("checkpointLocation", checkpoint)
if until == "drain":
    writer = writer.trigger(availableNow=True)
writer.start(out).awaitTermination()
