"""`python -m workbook demo`: the whole pipeline in a terminal, from items to a chart."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import item_stream, start_spark, stop_spark
from tutorial_pkg.connectors.cpu_log import DATA_FILES
from tutorial_pkg.core.places import work_dir

ITEMS_PER_SECOND = 20
FIRST_BATCH_SECONDS = 120


def run_demo(seconds: int = 12) -> Path:
    """Log this machine's CPU load for some seconds; return the folder with the log and a chart."""
    folder = work_dir("demo")
    shutil.rmtree(folder)
    spark = start_spark("demo")
    try:
        items = item_stream(spark, ITEMS_PER_SECOND).repartition(2)
        writer = items.writeStream.format("cpu_log").trigger(processingTime="500 milliseconds")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        start = _log(writer.start(str(folder / "log")), seconds)
        lines = spark.read.text(str(folder / "log" / DATA_FILES))
        file = F.element_at(F.split(F.input_file_name(), "/"), -1).alias("file")
        lines.groupBy(file).count().orderBy("file").show()
        _draw(spark, folder, start)
    finally:
        stop_spark(spark)
    print(f"The log is in {os.path.relpath(folder / 'log')}: data.0.csv and data.1.csv.")
    print(f"The chart is {os.path.relpath(folder / 'cpu.png')}.")
    return folder


def _log(query: StreamingQuery, seconds: int) -> datetime:
    """Let the query run for `seconds` after its first batch; return the time of that batch.

    Items pile up while Spark warms up, and the first batch logs them all at once.
    """

    def done() -> bool:
        return not query.isActive or any(batch.numInputRows for batch in query.recentProgress)

    wait_until(done, FIRST_BATCH_SECONDS, "the first batch")
    start = datetime.now(UTC)
    print(f"Logging for {seconds} seconds …", flush=True)
    query.awaitTermination(seconds)  # raises the query's error if it fails
    query.stop()
    return start


def _draw(spark: SparkSession, folder: Path, start: datetime) -> None:
    matplotlib.use("Agg")
    from workbook.plots import BLUE, chart

    log = spark.read.format("cpu_log").load(str(folder / "log"))
    rows: Any = log.where(F.col("timestamp") >= F.lit(start)).orderBy("timestamp").toPandas()
    figure, axes = chart("time (UTC)", "CPU busy, %", height=3.5)
    axes.fill_between(rows["timestamp"], 100 * rows["cpu_usage"], alpha=0.25)
    axes.plot(rows["timestamp"], 100 * rows["cpu_usage"], color=BLUE)
    axes.set(title=f"{len(rows)} lines of cpu_log", ylim=(0, 105))
    figure.savefig(folder / "cpu.png", dpi=120)
