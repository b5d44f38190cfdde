"""The JVM's class-data archive: Spark's classes, parsed once, so that sessions start faster.

Spark loads some 12,000 classes before the first row of a stream. A JVM that maps them from an
archive saves 4 s of CPU. The archive belongs to one Java and one Spark.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tutorial_pkg.core.waiting import wait_until
from tutorial_pkg.session.java import archive_path, find_java
from tutorial_pkg.session.start import start_spark, stop_spark


def make_archive() -> Path:
    """Run a small workload in a JVM that writes the archive when it ends (about 20 s).

    Do nothing if the archive exists.
    """
    archive = archive_path(find_java())
    if not archive.is_file():
        print("Preparing Spark to start faster (once, about 20 s) ...", flush=True)
        unfinished = archive.with_suffix(".part")
        unfinished.unlink(missing_ok=True)
        java = f'-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit="{unfinished}"'
        settings: dict[str, Any] = {"spark.driver.extraJavaOptions": java}
        with contextlib.redirect_stdout(None):
            spark = start_spark("class archive", **settings)
        _run_workload(spark)
        stop_spark(spark)
        unfinished.rename(archive)
    return archive


def _run_workload(spark: SparkSession) -> None:
    """Load the classes of streams, windows, Python workers and results."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
    windows = rows.withWatermark("timestamp", "1 second")
    counts = windows.groupBy(F.window("timestamp", "1 second")).count()
    query = counts.writeStream.format("memory").queryName("counts").outputMode("update").start()
    wait_until(spark.table("counts").count, 120, "a row")
    query.stop()
    batches = spark.range(10).mapInArrow(lambda batches: batches, "id long")
    batches.groupBy((F.col("id") % 3).alias("key")).count().orderBy("key").toPandas()
    spark.table("counts").limit(3).collect()
