"""How fast the `cpu_log` sink is beside Spark's `csv` sink, and where the time goes.

    python benchmarks/bench_cpu_log.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

All sinks take the same generated rows, with a checkpoint, in one session on two cores, in turns,
after a round that is not counted; what counts is the wall time of a stream's second and third
micro-batch, from the trigger to Spark's note that it is done. (The first one is cheaper for
`cpu_log`: it makes files, later ones extend them. It is measured as well.) Besides `csv` and
`cpu_log`: a Python sink that throws its Arrow batches away (the crossing alone), and one that
formats and writes each line once, where a crash may leave anything (no staging).

`no byte limit` is the same sink with `spark.sql.execution.arrow.maxBytesPerBatch` at its largest:
Spark then does not ask the size of an Arrow batch anew for each row that it adds.

Then one and four partitions.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pyarrow as pa
from measure import Result, Series, Watch, finish, in_turns, parse, series_of
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from tutorial_pkg import start_spark
from tutorial_pkg.connectors.cpu_log import format_lines
from tutorial_pkg.core.places import work_dir

NO_BYTE_LIMIT = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
SINKS: dict[str, tuple[str, dict[str, str]]] = {  # a format, and settings of its query
    "csv": ("csv", {}),
    "cpu_log": ("cpu_log", {}),
    "cpu_log, no byte limit": ("cpu_log", NO_BYTE_LIMIT),
    "arrow_discard": ("arrow_discard", {}),
    "arrow_once": ("arrow_once", {}),
}

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
        with self.open() as file:
            for batch in iterator:
                file.write(format_lines(batch, int(time.time() * 1000), psutil.cpu_percent() / 100))
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


# ---- Measuring ---------------------------------------------------------------------------------

ITEM = "concat('SimpleEvent(timestamp=10:09:37.000, sequence=', value, ')') AS item"


def start(
    spark: SparkSession, sink: str, rows: int, partitions: int, folder: Path, **trigger: object
) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    items = source.option("numPartitions", partitions).load().selectExpr(ITEM)
    sink_format, conf = SINKS[sink]
    writer = items.writeStream.format(sink_format).trigger(**trigger)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    with settings(spark, conf):
        return writer.start(str(folder / "out"))


@contextmanager
def settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """A query keeps the settings that the session has when it starts."""
    before = {name: spark.conf.get(name) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def micro_batches(
    spark: SparkSession, sink: str, rows: int, partitions: int = 2, count: int = 3
) -> list[float]:
    """Seconds of the first `count` micro-batches of a stream.

    The query starts anew for each one and ends by itself: stopping a busy one would kill its
    Python workers, and the next contestant would have to start new ones.
    """
    seconds = []
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        for _ in range(count):
            query = start(spark, sink, rows, partitions, Path(folder), availableNow=True)
            query.awaitTermination()
            (progress,) = query.recentProgress
            seconds.append(progress["durationMs"]["triggerExecution"] / 1000)
    return seconds


def measure_sinks(spark: SparkSession, rows: int, rounds: int) -> list[Series]:
    found = in_turns({sink: partial(micro_batches, spark, sink, rows) for sink in SINKS}, rounds)
    later = {sink: [statistics.mean(run[1:]) for run in runs] for sink, runs in found.items()}
    first = {sink: [run[0] for run in found[sink]] for sink in ("csv", "cpu_log")}
    # What no user would pick stands without a ratio.
    bases = {sink: "csv" for sink in SINKS if sink.startswith("cpu_log")}
    return [
        *(Series("sinks", sink, rows, runs, bases.get(sink)) for sink, runs in later.items()),
        *series_of("the first batch: new files", rows, first, base="csv"),
    ]


def measure_partitions(
    spark: SparkSession, rows: int, partitions: int, rounds: int
) -> list[Series]:
    def second_batch(sink: str) -> float:
        return micro_batches(spark, sink, rows, partitions, count=2)[1]

    runs = {sink: partial(second_batch, sink) for sink in ("csv", "cpu_log")}
    group = f"{partitions} partition{'s' if partitions > 1 else ''}"
    return series_of(group, rows, in_turns(runs, rounds), base="csv")


def main() -> None:
    given = parse(__doc__)
    with Watch("cpu_log") as watch:
        spark = start_spark("bench_cpu_log", cores=2, **given.conf)
        for source in (ArrowDiscard, ArrowOnce):
            spark.dataSource.register(source)
        series = measure_sinks(spark, given.lines, given.rounds)
        for partitions in (1, 4):
            series += measure_partitions(spark, given.lines, partitions, given.rounds)
        spark.stop()
    finish(given, Result("`cpu_log` beside Spark's `csv`", series), watch)


if __name__ == "__main__":
    main()
