"""A driver made to be killed: it copies the lines of files into Parquet files, exactly once.

Arguments: path of the lines, output directory, checkpoint, file to make when the query runs,
`forever` or `drain`.
"""

import sys
from pathlib import Path

from tutorial_pkg import start_spark

path, out, checkpoint, ready, until = sys.argv[1:]
spark = start_spark("drill", **{"spark.ui.enabled": "false"})
lines = spark.readStream.format("file_lines").option("maxRowsPerTrigger", 10_000).load(path)
writer = lines.writeStream.format("parquet").option("checkpointLocation", checkpoint)
if until == "drain":
    writer = writer.trigger(availableNow=True)
query = writer.start(out)
Path(ready).touch()
query.awaitTermination()
