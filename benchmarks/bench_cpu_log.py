"""How fast the `cpu_log` sink is beside Spark's `csv` sink, and where the time goes.

    python benchmarks/bench_cpu_log.py [--lines 3000000] [--rounds 7] [--conf key=value ...]

All sinks take the same generated rows, with a checkpoint, in one session on two cores, in turns,
after a round that is not counted; what counts is the wall time of a query's second and third
micro-batch, from the trigger to Spark's note that it is done. (The first one is cheaper for
`cpu_log`: it makes files, later ones extend them. It is measured as well.) Besides `csv` and
`cpu_log`: a Python sink that throws its Arrow batches away (the crossing alone), one that formats
and writes each line once, where a crash may leave anything (no staging), and one that writes row
by row.

`no byte limit` is the same sink with `spark.sql.execution.arrow.maxBytesPerBatch` at its largest:
Spark then does not ask the size of an Arrow batch anew for each row that it adds.

Then one and four partitions, and `cpu_log` for 500 tiny batches.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
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

from tutorial_pkg import start_spark
from tutorial_pkg.core.cpu_log_lines import format_lines
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.workbook.drills import wait_until

FIRST_BATCH, LATER_BATCHES = (0,), (1, 2)
ROW_BY_ROW_SHARE = 10  # that sink gets a tenth of the rows: it is slow, and linear
TINY_BATCHES = 500
TINY_BATCHES_COMPARED = 100  # of the first and of the last ones, after as many to warm up
NO_BYTE_LIMIT = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
SINKS: dict[str, tuple[str, dict[str, str]]] = {  # a format, and settings of its query
    "csv": ("csv", {}),
    "cpu_log": ("cpu_log", {}),
    "cpu_log, no byte limit": ("cpu_log", NO_BYTE_LIMIT),
    "arrow_discard": ("arrow_discard", {}),
    "arrow_once": ("arrow_once", {}),
    "row_by_row": ("row_by_row", {}),
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


class RowByRow(Unsafe):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        usage = psutil.cpu_percent() / 100  # once: a reading for every row would take most of it
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
    spark: SparkSession, sink: str, rows: int, partitions: int, folder: Path
) -> StreamingQuery:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    items = source.option("numPartitions", partitions).load().selectExpr(ITEM)
    sink_format, conf = SINKS[sink]
    checkpoint = str(folder / "checkpoint")
    writer = items.writeStream.format(sink_format).option("checkpointLocation", checkpoint)
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


@contextmanager
def a_folder() -> Iterator[Path]:
    """A temporary one; tasks of a further batch, cancelled, may write there for a moment."""
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    try:
        yield folder
    finally:
        wait_until(lambda: _removed(folder), 30, f"the removal of {folder}")


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def wait_for_batches(query: StreamingQuery, count: int) -> None:
    """Raises the query's own error if it ends before."""

    def done() -> bool:
        if query.exception():
            raise query.exception()
        return bool(query.lastProgress) and query.lastProgress["batchId"] >= count - 1

    wait_until(done, 300, f"{count} micro-batches")


def seconds(
    spark: SparkSession,
    sink: str,
    rows: int,
    partitions: int = 2,
    batches: Sequence[int] = LATER_BATCHES,
) -> float:
    """What a micro-batch takes, by a query of its own: the mean of those with these numbers."""
    with a_folder() as folder:
        query = start(spark, sink, rows, partitions, folder)
        wait_for_batches(query, max(batches) + 1)
        progress = [each for each in query.recentProgress if each["batchId"] in batches]
        query.stop()
    return statistics.mean(each["durationMs"]["triggerExecution"] for each in progress) / 1000


def measure_sinks(spark: SparkSession, rows: int, rounds: int) -> list[Series]:
    lines = {sink: rows // (ROW_BY_ROW_SHARE if sink == "row_by_row" else 1) for sink in SINKS}
    runs = {sink: partial(seconds, spark, sink, count) for sink, count in lines.items()}
    found = in_turns(runs, rounds)
    return [
        Series("sinks", sink, lines[sink], found[sink], None if sink == "csv" else "csv")
        for sink in SINKS
    ]


def measure_others(spark: SparkSession, rows: int, rounds: int) -> list[Series]:
    cases = {
        "the first batch: new files": {"batches": FIRST_BATCH},
        "1 partition": {"partitions": 1},
        "4 partitions": {"partitions": 4},
    }
    series = []
    for name, case in cases.items():
        runs = {sink: partial(seconds, spark, sink, rows, **case) for sink in ("csv", "cpu_log")}
        series += series_of(name, rows, in_turns(runs, rounds), base="csv")
    return series


def tiny_batches(spark: SparkSession, count: int) -> str:
    """Says whether the last of many batches of 20 rows costs what the first ones cost."""
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", count)
    with a_folder() as folder:
        query = start(spark, "cpu_log", 20, 2, folder)
        wait_for_batches(query, count)
        millis = [progress["durationMs"]["addBatch"] for progress in query.recentProgress]
        query.stop()
        files = len(list((folder / "out").glob("data.*.csv")))
    some = min(TINY_BATCHES_COMPARED, count // 5)
    early, late = statistics.median(millis[some : 2 * some]), statistics.median(millis[-some:])
    return (
        f"`cpu_log`, {count:,} tiny batches on 2 partitions: {files} files; {early:.0f} ms a batch "
        f"at first, {late:.0f} ms at last."
    )


def main() -> None:
    given = parse(__doc__)
    with Watch("cpu_log") as watch:
        spark = start_spark("bench_cpu_log", cores=2, **given.conf)
        for source in (ArrowDiscard, ArrowOnce, RowByRowSource):
            spark.dataSource.register(source)
        series = measure_sinks(spark, given.lines, given.rounds)
        series += measure_others(spark, given.lines, given.rounds)
        notes = [tiny_batches(spark, min(TINY_BATCHES, given.lines // 1_000))]
        spark.stop()
    finish(given, Result("`cpu_log` beside Spark's `csv`", series, notes=notes), watch)


if __name__ == "__main__":
    main()
