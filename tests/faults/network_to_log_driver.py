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

from tests.faults.spare_driver import wait_for_go
from tests.network_queries import network_lines
from tutorial_pkg import start_spark


def run_query(spark: SparkSession, directory: Path, port: int, **trigger: object) -> None:
    """From the port to the log; ends with what ended the query."""
    lines = network_lines(spark, directory, port).repartition(2)
    writer = lines.writeStream.format("cpu_log").trigger(**trigger)
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer.start(str(directory / "out")).awaitTermination()


def run_for_ever(spark: SparkSession, directory: Path, port: int) -> None:
    """What ends the query is printed, and the query is started again."""
    while True:
        try:
            run_query(spark, directory, port, processingTime="100 milliseconds")
        except StreamingQueryException:
            traceback.print_exc()


def main(ready: str, go: str, directory: str, port: str, *settings: str) -> None:
    given = dict(setting.split("=", 1) for setting in settings)
    spark = start_spark("drill", **{"spark.ui.enabled": "false", **given})
    wait_for_go(ready, go)
    run_for_ever(spark, Path(directory), int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
