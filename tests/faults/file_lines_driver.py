"""A driver made to be killed: it copies the lines of files into Parquet files, exactly once.

Arguments: the two files of a spare driver, the folder of the files, the copy and the checkpoint.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.spare_driver import started


def copied(spark: SparkSession, folder: Path, **trigger: bool) -> StreamingQuery:
    lines = spark.readStream.format("file_lines").option("maxRowsPerTrigger", 10_000)
    writer = lines.load(str(folder / "logs")).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start(str(folder / "out"))


if __name__ == "__main__":
    spark, (folder,) = started()
    copied(spark, Path(folder)).awaitTermination()
