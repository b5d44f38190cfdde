"""A driver to kill: it writes the lines of a folder to a `cpu_log`, one file in each batch.

Arguments: the two files of a spare driver, folder of the lines, log directory, checkpoint.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext

from tests.faults.spare_driver import started


def fail_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fail the first attempt of partition 0, after its last line."""
    yield from batches
    if TaskContext.get().partitionId() == 0 and TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("this attempt fails on purpose")


spark, words = started(**{"spark.master": "local[2,3]"})  # three attempts of each task
folder, out, checkpoint = words

lines = spark.readStream.option("maxFilesPerTrigger", 1).text(folder).repartition(2)
lines = lines.mapInArrow(fail_at_first, lines.schema)
writer = lines.writeStream.format("cpu_log").option("checkpointLocation", checkpoint)
writer.start(out).awaitTermination()
