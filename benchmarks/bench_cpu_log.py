"""How fast the `cpu_log` sink is beside Spark's `csv` sink, and where the time goes.

    python benchmarks/bench_cpu_log.py [--lines 3000000] [--rounds 5] [--conf key=value ...]

All sinks take the same generated rows, with a checkpoint, in one session on two cores, in turns,
after rounds that are not counted; what counts is the wall time of one micro-batch, from its
trigger to Spark's note that it is done. Besides `csv` and `cpu_log`: a Python sink that throws
its Arrow batches away (the crossing alone), one that formats and writes each line once, where a
crash may leave anything (no staging), and one that writes row by row.

Then both for one, two and four partitions, and `cpu_log` for 300 tiny batches.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from measure import Result, Series, Watch, finish, in_turns, parse, series_of
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
from tutorial_pkg.core.cpu_log_lines import format_lines
from tutorial_pkg.core.places import work_dir

WARM_UP_ROUNDS = 2
ROW_BY_ROW_SHARE = 10  # that sink gets a tenth of the rows: it is slow, and linear
TINY_BATCHES = 300
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
                file.write(format_lines(batch, int(time.time() * 1000), monitor.usage()))
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

ITEM = "concat('SimpleEvent(timestamp=10:09:37.000, sequence=', value, ')') AS item"


def start(
    spark: SparkSession, sink: str, rows: int, partitions: int, folder: Path, trigger: str
) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    items = source.option("numPartitions", partitions).load().selectExpr(ITEM)
    writer = items.writeStream.format(sink).trigger(processingTime=trigger)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(
        str(folder / "out")
    )


def wait_for_batches(query: StreamingQuery, count: int) -> None:
    while not query.lastProgress or query.lastProgress["batchId"] < count - 1:
        if query.exception():
            raise query.exception()
        time.sleep(0.02)


def seconds(spark: SparkSession, sink: str, rows: int, partitions: int = 2) -> float:
    """What one micro-batch takes, by a query of its own."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    query = start(spark, sink, rows, partitions, folder, "1 hour")
    wait_for_batches(query, 1)
    took = query.lastProgress["durationMs"]["triggerExecution"] / 1000
    query.stop()
    shutil.rmtree(folder)
    return took


def measure_sinks(spark: SparkSession, rows: int, rounds: int) -> list[Series]:
    lines = {sink: rows // (ROW_BY_ROW_SHARE if sink == "row_by_row" else 1) for sink in SINKS}
    runs = {sink: partial(seconds, spark, sink, count) for sink, count in lines.items()}
    found = in_turns(runs, rounds, WARM_UP_ROUNDS)
    return [
        Series("sinks", sink, lines[sink], found[sink], None if sink == "csv" else "csv")
        for sink in SINKS
    ]


def measure_partitions(
    spark: SparkSession, rows: int, rounds: int, partitions: int
) -> list[Series]:
    runs = {sink: partial(seconds, spark, sink, rows, partitions) for sink in ("csv", "cpu_log")}
    name = f"{partitions} partition" + ("s" if partitions > 1 else "")
    return series_of(name, rows, in_turns(runs, rounds, 1), base="csv")


def tiny_batches(spark: SparkSession) -> str:
    """Says whether the last of many batches of 20 rows costs what the first ones cost."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", TINY_BATCHES)
    query = start(spark, "cpu_log", 20, 2, folder, "0 seconds")
    wait_for_batches(query, TINY_BATCHES)
    millis = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
    query.stop()
    shutil.rmtree(folder)
    early, late = statistics.median(millis[50:150]), statistics.median(millis[-100:])
    return (
        f"`cpu_log`, {TINY_BATCHES} tiny batches: {early:.0f} ms each at first, {late:.0f} at last."
    )


def main() -> None:
    given = parse(__doc__)
    with Watch("cpu_log") as watch:
        spark = start_spark("bench_cpu_log", cores=2, **given.conf)
        for source in (ArrowDiscard, ArrowOnce, RowByRowSource):
            spark.dataSource.register(source)
        series = measure_sinks(spark, given.lines, given.rounds)
        for partitions in (1, 2, 4):
            series += measure_partitions(spark, given.lines, given.rounds, partitions)
        notes = [tiny_batches(spark)]
        spark.stop()
    finish(given, Result("`cpu_log` beside Spark's `csv`", series, notes=notes), watch)


if __name__ == "__main__":
    main()
