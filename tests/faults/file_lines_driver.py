"""A driver made to be killed: it copies the lines of files into Parquet files, exactly once.

Arguments: the two files of a spare driver, the folder of the files, the copy and the checkpoint.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.spare_driver import wait_for_go
from tutorial_pkg import start_spark


def started(spark: SparkSession, folder: Path, **trigger: bool) -> StreamingQuery:
    lines = spark.readStream.format("file_lines").option("maxRowsPerTrigger", 10_000)
    writer = lines.load(str(folder / "logs")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start(str(folder / "out"))


if __name__ == "__main__":
    spark = start_spark("drill", **{"spark.ui.enabled": "false"})
    wait_for_go(*sys.argv[1:3])
    started(spark, Path(sys.argv[3])).awaitTermination()
