"""Record `cpu_log.csv`: this machine's CPU load, logged by our own sink.

    python data/record.py [--minutes 4]

Ten items a second go through Spark into the sink `cpu_log`, in one partition, so that the lines
of its one file are in the order in which they were written. Meanwhile the machine is idle and
busy by turns, so that there is something to see. Run it where nothing else runs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from tutorial_pkg import item_stream, last_error, start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.session.start import stop_spark

ITEMS_PER_SECOND = 10
TRIGGER = "500 milliseconds"  # as fast as it can, Spark alone would keep a core busy
# Seconds, and how many processes compute meanwhile; over again until the end.
TURNS = ((20, 0), (12, 1), (8, 0), (10, 2), (15, 0), (5, 2), (5, 0), (15, 1))
COMPUTE = "import sys, time; end = time.time() + float(sys.argv[1])\nwhile time.time() < end: pass"
RECORDED = Path(__file__).with_name("cpu_log.csv")


def record(minutes: float) -> int:
    """Log for so many minutes and keep the sink's file as `cpu_log.csv`; its number of lines.

    Raises `RuntimeError` when the query fails.
    """
    folder = work_dir("record")
    shutil.rmtree(folder)
    spark = start_spark("record")
    try:
        writer = item_stream(spark, ITEMS_PER_SECOND).coalesce(1).writeStream.format("cpu_log")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer = writer.trigger(processingTime=TRIGGER)
        query = writer.start(str(folder / "log"))
        busy_by_turns(query, time.monotonic() + minutes * 60)
        query.stop()
        if query.exception():
            raise RuntimeError(f"the query failed: {last_error(query)}")
    finally:
        stop_spark(spark)
    shutil.copyfile(folder / "log" / "data.0.csv", RECORDED)
    return len(RECORDED.read_text().splitlines())


def busy_by_turns(query: StreamingQuery, end: float) -> None:
    """Until `end` or the query's, whatever comes first."""
    for seconds, processes in itertools.cycle(TURNS):
        left = min(seconds, end - time.monotonic())
        if left <= 0 or not query.isActive:
            return
        command = [sys.executable, "-c", COMPUTE, str(left)]
        computing = [subprocess.Popen(command) for _ in range(processes)]
        query.awaitTermination(left)
        for process in computing:
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Record cpu_log.csv with the sink cpu_log.")
    parser.add_argument("--minutes", type=float, default=4)
    minutes = parser.parse_args().minutes
    started = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    print(f"{RECORDED.name}: {record(minutes)} lines, recorded from {started} on")


if __name__ == "__main__":
    main()
