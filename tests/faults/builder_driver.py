"""A driver made to be killed: built sources to a built sink, until the end of the process.

Arguments: the two files of a spare driver, directory of all that it writes, port of a NATS server.
With a file `drain` in the directory, the query ends when it has read all that is in the logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.builder_sink import database_sink
from tests.faults.builder_sources import all_rows
from tests.faults.spare_driver import wait_for_go
from tutorial_pkg import start_spark

ATTEMPTS = {"spark.master": "local[2,3]", "spark.ui.enabled": "false"}  # of each task


def main(ready: str, go: str, directory: str, nats_port: str) -> None:
    spark = start_spark("drill", **ATTEMPTS)
    wait_for_go(ready, go)
    spark.dataSource.register(database_sink())
    rows = all_rows(spark, Path(directory), int(nats_port))
    writer = rows.writeStream.format("database").option("path", directory)
    writer = writer.option("checkpointLocation", str(Path(directory, "checkpoint")))
    if Path(directory, "drain").exists():
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
