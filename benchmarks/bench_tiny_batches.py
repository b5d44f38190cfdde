"""Whether the last of many tiny batches costs `cpu_log` what the first ones cost.

    python benchmarks/bench_tiny_batches.py [--batches 1000]

Two partitions, 20 rows a batch. What is printed: the files, and milliseconds of a batch. It is not
part of `run.py`, since it has nobody beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from bench_cpu_log import start
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir

ROWS, PARTITIONS = 20, 2
MOST_SECONDS_OF_A_BATCH = 1.0


def has_done(query: StreamingQuery, count: int) -> bool:
    """Whether so many micro-batches are done. Raises the query's own error, if it has one."""
    if query.exception():
        raise query.exception()
    return bool(query.lastProgress) and query.lastProgress["batchId"] >= count - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=1_000)
    count = parser.parse_args().batches
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        spark = start_spark("bench_tiny_batches", cores=2)
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", count)
        trigger = {"processingTime": "0 seconds"}
        query = start(spark, "cpu_log", ROWS, PARTITIONS, Path(folder), **trigger)
        wait_until(lambda: has_done(query, count), count * MOST_SECONDS_OF_A_BATCH, "the batches")
        millis = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
        query.stop()
        files = len(list(Path(folder, "out").glob("data.*.csv")))
        spark.stop()
    fifth = count // 5  # the first fifth warms up
    early, late = statistics.median(millis[fifth : 2 * fifth]), statistics.median(millis[-fifth:])
    print(f"{count:,} batches: {files} files; a batch {early:.0f} ms at first, {late:.0f} at last")


if __name__ == "__main__":
    main()
