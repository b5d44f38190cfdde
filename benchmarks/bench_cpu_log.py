"""How fast the `cpu_log` sink is beside Spark's `csv` sink, and where the time goes.

    python benchmarks/bench_cpu_log.py [--rows 3000000] [--rounds 5] [--conf key=value ...]

All sinks take the same generated rows, with a checkpoint, in one session on two cores, in turns,
after rounds that are not counted; what counts is the wall time of one micro-batch, from its
trigger to Spark's note that it is done. Besides `csv` and `cpu_log`: a Python sink that throws
its Arrow batches away (the crossing alone), one that formats and writes each line once, where a
crash may leave anything (no staging), and one that writes row by row.

Then the same for a quarter and for twice the rows, and a thousand tiny batches.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from matplotlib.figure import Figure
from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from tutorial_pkg import CpuMonitor, start_spark
from tutorial_pkg.core.cpu_log_lines import format_lines, text_bytes
from tutorial_pkg.core.places import work_dir

WARM_UP_ROUNDS = 2
ROW_BY_ROW_SHARE = 10  # that sink gets a tenth of the rows: it is slow, and linear
TINY_BATCHES = 1000
SINKS = ("csv", "cpu_log", "arrow_discard", "arrow_once", "row_by_row")

# ---- The sinks that stand for a limit ----------------------------------------------------------


class Unsafe(DataSourceStreamWriter):
    """Writes without staging: what a crash leaves is anyone's guess."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self):
        return (Path(self.path) / f"data.{TaskContext.get().partitionId()}.csv").open("ab")

    def commit(self, messages: list, batchId: int) -> None:
        pass

    def abort(self, messages: list, batchId: int) -> None:
        pass


class Discard(Unsafe, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Once(Unsafe, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        monitor = CpuMonitor()
        with self.open() as file:
            for batch in iterator:
                lines = format_lines(batch, int(time.time() * 1000), monitor.usage())
                file.write(text_bytes(lines))
        return WriterCommitMessage()


class RowByRow(Unsafe):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        usage = CpuMonitor().usage()  # once: a reading for every row would take most of the time
        with self.open() as file:
            for row in iterator:
                line = f"{int(time.time() * 1000)},{usage:.6f},{row[0]}\n"
                file.write(line.encode())
        return WriterCommitMessage()


class ArrowDiscard(DataSource):
    WRITER = Discard

    @classmethod
    def name(cls) -> str:
        return "arrow_discard"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        Path(self.options["path"]).mkdir(parents=True, exist_ok=True)
        return self.WRITER(self.options["path"])


class ArrowOnce(ArrowDiscard):
    WRITER = Once

    @classmethod
    def name(cls) -> str:
        return "arrow_once"


class RowByRowSource(ArrowDiscard):
    WRITER = RowByRow

    @classmethod
    def name(cls) -> str:
        return "row_by_row"


# ---- Measuring ---------------------------------------------------------------------------------


def start(spark: SparkSession, sink: str, rows: int, folder: Path, trigger: str) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    items = source.option("numPartitions", 2).load().selectExpr(ITEM)
    writer = items.writeStream.format(sink).trigger(processingTime=trigger)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(
        str(folder / "out")
    )


ITEM = "concat('SimpleEvent(timestamp=10:09:37.000, sequence=', value, ')') AS item"


def wait_for_batches(query: StreamingQuery, count: int) -> None:
    while not query.lastProgress or query.lastProgress["batchId"] < count - 1:
        if query.exception():
            raise query.exception()
        time.sleep(0.02)


def rate(spark: SparkSession, sink: str, rows: int) -> float:
    """Rows per second of one micro-batch, by a query of its own."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    query = start(spark, sink, rows, folder, "1 hour")
    wait_for_batches(query, 1)
    seconds = query.lastProgress["durationMs"]["triggerExecution"] / 1000
    query.stop()
    shutil.rmtree(folder)
    return rows / seconds


def rates(spark: SparkSession, sinks: list[str], rows: int, rounds: int) -> dict[str, float]:
    """The median of each sink, in rows per second."""
    measured: dict[str, list[float]] = {sink: [] for sink in sinks}
    for _ in range(WARM_UP_ROUNDS + rounds):
        for sink, results in measured.items():
            share = rows // ROW_BY_ROW_SHARE if sink == "row_by_row" else rows
            results.append(rate(spark, sink, share))
    return {sink: statistics.median(values[WARM_UP_ROUNDS:]) for sink, values in measured.items()}


def tiny_batches(spark: SparkSession) -> tuple[list[float], list[str]]:
    """The milliseconds of each of a thousand batches of 20 rows, and what files there are."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", TINY_BATCHES)
    query = start(spark, "cpu_log", 20, folder, "0 seconds")
    wait_for_batches(query, TINY_BATCHES)
    millis = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
    query.stop()
    files = sorted(file.name for file in (folder / "out").rglob("*") if file.is_file())
    shutil.rmtree(folder)
    return millis, files


# ---- Telling -----------------------------------------------------------------------------------


def print_rates(measured: dict[str, float]) -> None:
    print("\n| sink | million rows/s | of csv |\n|---|---|---|")
    for sink, value in measured.items():
        print(f"| {sink} | {value / 1e6:.2f} | {value / measured['csv']:.2f} |")


def plot(measured: dict[str, float], path: Path) -> None:
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(measured), [value / 1e6 for value in measured.values()])
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.invert_yaxis()
    axes.set_xlabel("million rows per second")
    figure.savefig(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sinks", nargs="+", default=SINKS, choices=SINKS, help="csv among them")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--sinks-only", action="store_true", help="only the first table")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    conf = dict(setting.split("=", 1) for setting in arguments.conf)
    spark = start_spark("bench-cpu-log", cores=2, **{"spark.ui.enabled": "false", **conf})
    for source in (ArrowDiscard, ArrowOnce, RowByRowSource):
        spark.dataSource.register(source)
    measured = rates(spark, arguments.sinks, arguments.rows, arguments.rounds)
    print_rates(measured)
    plot(measured, work_dir("bench") / "cpu_log.png")
    if not arguments.sinks_only:
        print_growth(spark, arguments.rows)


def print_growth(spark: SparkSession, most: int) -> None:
    """Time in proportion to rows, and tiny batches that cost the same from first to last."""
    for rows in (most // 4, most, most * 2):
        value = statistics.median(rate(spark, "cpu_log", rows) for _ in range(3))
        print(f"{rows:>9,} rows: {value / 1e6:.2f} million rows/s, {rows / value:.2f} s")
    millis, files = tiny_batches(spark)
    early, late = statistics.median(millis[50:150]), statistics.median(millis[-100:])
    print(
        f"{TINY_BATCHES} tiny batches: {early:.0f} ms each at the start, {late:.0f} ms at the end"
    )
    print(f"files left: {', '.join(files)}")


if __name__ == "__main__":
    main()
