"""A driver made to be killed: built sources to a built sink, until the end of the process.

Arguments: the two files of a spare driver, directory of all that it writes, port of a NATS server.
With a file `drain` in the directory, the query ends when it has read all that is in the logs.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.builder_sink import database_sink
from tests.faults.builder_sources import all_rows
from tests.faults.spare_driver import started

spark, (directory, nats_port) = started(**{"spark.master": "local[2,3]"})  # attempts of each task
spark.dataSource.register(database_sink())
rows = all_rows(spark, Path(directory), int(nats_port))
writer = rows.writeStream.format("database").option("path", directory)
writer = writer.option("checkpointLocation", str(Path(directory, "checkpoint")))
if Path(directory, "drain").exists():
    writer = writer.trigger(availableNow=True)
writer.start().awaitTermination()
