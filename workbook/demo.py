"""The whole pipeline in a terminal: items, CPU-log sink, files, chart."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import matplotlib
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from tqdm import tqdm

from tutorial_pkg.connectors.cpu_log import DATA_FILES
from tutorial_pkg.connectors.item_stream import item_stream
from tutorial_pkg.core.errors import last_error
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.start import start_spark, stop_spark

ITEMS_PER_SECOND = 20


def run_demo(seconds: int = 12) -> Path:
    """Log this machine's CPU load for some seconds; the folder with two CSV files and a chart."""
    folder = work_dir("demo")
    shutil.rmtree(folder)
    spark = start_spark("demo")
    try:
        query = _start(spark, folder)
        _watch(query, seconds)
        query.stop()
        _show_counts(spark, folder)
        _draw(spark, folder)
    finally:
        stop_spark(spark)
    print(f"The log is in {os.path.relpath(folder / 'log')}: data.0.csv and data.1.csv.")
    print(f"The chart is {os.path.relpath(folder / 'cpu.png')}.")
    return folder


def _start(spark: SparkSession, folder: Path) -> StreamingQuery:
    items = item_stream(spark, ITEMS_PER_SECOND).repartition(2)
    writer = items.writeStream.format("cpu_log")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime="500 milliseconds").start(str(folder / "log"))


def _watch(query: StreamingQuery, seconds: int) -> None:
    """Advance a bar with the rows logged, until there are enough or the query has failed."""
    wanted, seen = seconds * ITEMS_PER_SECOND, -1
    with tqdm(total=wanted, unit=" lines", desc="logging") as bar:
        while bar.n < wanted and query.isActive:
            for batch in query.recentProgress:
                if batch.batchId > seen:
                    seen = batch.batchId
                    bar.update(batch.numInputRows)
            time.sleep(0.2)
    if query.exception():
        raise RuntimeError(f"the query failed: {last_error(query)}")


def _show_counts(spark: SparkSession, folder: Path) -> None:
    lines = spark.read.text(str(folder / "log" / DATA_FILES))
    file = F.element_at(F.split(F.input_file_name(), "/"), -1).alias("file")
    lines.groupBy(file).count().orderBy("file").show()


def _draw(spark: SparkSession, folder: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    log: Any = (
        spark.read.format("cpu_log").load(str(folder / "log")).orderBy("timestamp").toPandas()
    )
    figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    axes.fill_between(log["timestamp"], 100 * log["cpu_usage"], alpha=0.25)
    axes.plot(log["timestamp"], 100 * log["cpu_usage"])
    axes.set(title=f"{len(log)} lines of cpu_log", ylabel="CPU busy, %", ylim=(0, 105))
    axes.set_xlabel("time (UTC)")
    figure.savefig(folder / "cpu.png", dpi=120)
    plt.close(figure)
