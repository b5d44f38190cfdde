"""A driver made to be killed: built sources to a built sink, until the end of the process.

Arguments: the two files of a spare driver, and the directory of all that it writes.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.faults.builder_sink import database_sink
from tests.faults.builder_sources import all_rows
from tests.faults.spare_driver import started


def run_query(spark: SparkSession, directory: Path, **trigger: bool) -> StreamingQuery:
    spark.dataSource.register(database_sink())
    rows = all_rows(spark, directory)
    writer = rows.writeStream.format("database").option("path", str(directory))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return (writer.trigger(**trigger) if trigger else writer).start()


if __name__ == "__main__":
    spark, (directory,) = started(**{"spark.master": "local[2,3]"})  # attempts of a task
    run_query(spark, Path(directory)).awaitTermination()
