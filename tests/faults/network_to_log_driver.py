"""A driver made to be killed: lines from a port become a CPU log, until the end of the process.

A query that fails is started again, as whoever runs one for years would have it.
Arguments: the two files of a spare driver, directory of all that it writes, port; then settings,
`name=value`.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.spare_driver import started
from tests.network_queries import network_lines


def start_query(
    spark: SparkSession, directory: Path, port: int, **trigger: object
) -> StreamingQuery:
    """From the port to the log."""
    lines = network_lines(spark, directory, port).repartition(2)
    writer = lines.writeStream.format("cpu_log").trigger(**trigger)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return writer.start(str(directory / "out"))


def run_for_ever(spark: SparkSession, directory: Path, port: int) -> None:
    """What ends the query is printed, and the query is started again."""
    while True:
        try:
            query = start_query(spark, directory, port, processingTime="100 milliseconds")
            query.awaitTermination()
        except StreamingQueryException:
            traceback.print_exc()


if __name__ == "__main__":
    settings = [word.split("=", 1) for word in sys.argv[5:]]
    spark, (folder, listened_to, *_) = started(**dict(settings))
    run_for_ever(spark, Path(folder), int(listened_to))
