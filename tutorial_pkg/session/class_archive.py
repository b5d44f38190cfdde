"""The JVM's class-data archive: Spark's classes, parsed once, so that sessions start faster.

Spark loads some twelve thousand classes before the first row of a stream; a JVM that maps them
from an archive skips parsing and checking them. The archive belongs to one Java and one Spark;
the JVM ignores it, with a line in the log, when either has changed.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tutorial_pkg.session.java import archive_path, find_java
from tutorial_pkg.session.start import start_spark, stop_spark


def make_archive() -> Path:
    """Run a small workload in a JVM that writes the archive when it ends (about 20 s).

    Does nothing if the archive exists already.
    """
    archive = archive_path(find_java())
    if archive.is_file():
        return archive
    print("Preparing Spark to start faster (once, about 20 s) ...", flush=True)
    unfinished = archive.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    first_compiler = "-XX:TieredStopAtLevel=1"  # this JVM does not live for what the second earns
    archiving = f'-XX:+UseSerialGC {first_compiler} -XX:ArchiveClassesAtExit="{unfinished}"'
    settings: dict[str, Any] = {"spark.driver.extraJavaOptions": archiving}
    with contextlib.redirect_stdout(None):
        spark = start_spark("class archive", **settings)
    _use_what_notebooks_use(spark)
    stop_spark(spark)
    unfinished.rename(archive)
    return archive


def _use_what_notebooks_use(spark: SparkSession) -> None:
    """Make the JVM load the classes of streams, windows, Python workers and results."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    windows = ticks.withWatermark("timestamp", "1 second").groupBy(
        F.window("timestamp", "1 second")
    )
    for name, rows, mode in (("rows", ticks, "append"), ("windows", windows.count(), "update")):
        writer = rows.writeStream.format("memory").queryName(name).outputMode(mode)
        query = writer.trigger(processingTime="200 milliseconds").start()
        while not any(progress["numInputRows"] for progress in query.recentProgress):
            time.sleep(0.1)
        query.stop()
    doubled = spark.range(10).mapInArrow(lambda batches: batches, "id long")
    doubled.groupBy((F.col("id") % 3).alias("key")).count().orderBy("key").toPandas()
    spark.table("rows").limit(3).collect()
