"""What a built source or sink costs beside one that is written by hand.

    python benchmarks/bench_builder.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

`stream`: a running query takes rows that two instances add, in record batches of 10,000 or row by
row; beside it the same lines come to two ports of `network_lines`. What counts is the time until
all rows have passed.

`replayable` reads a file's halves as two splits, in record batches, beside `file_lines`; and a
sink's `receive_batch` throws its batches away, beside a bare Arrow writer that does. There what
counts is the micro-batch, from the trigger to Spark's note that it is done.

Idle: the processor time of a query whose source has nothing, in Spark and in Python; beside it the
same for Spark's own `socket`, to which nobody sends.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from bench_file_lines import write_lines
from bench_network_lines import NetworkLines, a_sender, start
from lines import BLOCK_LINES, LINE
from measure import Result, Series, Watch, finish, in_turns, mean_over, parse, series_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import SinkBuilder, SourceBuilder, start_spark
from tutorial_pkg.builder import not_empty
from tutorial_pkg.core.lines import to_lines
from tutorial_pkg.core.places import work_dir

PORT = 21100
CHUNK_BYTES = 1 << 20
WARM_UP_ROUNDS = 2
RUN_SECONDS = 2.0  # a run is as many queries as take this long, and counts as their mean
IDLE_SECONDS = 10.0

# ---- Stream: rows that are added ---------------------------------------------------------------


class Blocks:
    """Adds blocks of lines when there is an order: a file with their number."""

    def __init__(self, context: Any) -> None:
        self.order = Path(context.options.orders, str(context.index))
        # Made here: a large global would travel with the functions, to every task.
        block = b"".join(LINE % number for number in range(BLOCK_LINES))
        self.batch = pa.RecordBatch.from_arrays([to_lines(block)], names=["value"])
        self.rows = [(line,) for line in self.batch.column(0).to_pylist()]
        self.left = 0

    def is_wanted(self) -> bool:
        """Whether there is a block to add. An order is deleted when all of it is in the log."""
        if not self.left and self.order.exists():
            self.left = 1 + int(self.order.read_text())
        if self.left == 1:  # the last block was added by the call before
            self.order.unlink()
        self.left = max(0, self.left - 1)
        return self.left > 0

    def add_batches(self, buffer: Any) -> None:
        if self.is_wanted():
            buffer.add_batch(self.batch)

    def add_rows(self, buffer: Any) -> None:
        if self.is_wanted():
            for row in self.rows:
                buffer.add(row)


class Built:
    """A query with two instances that add lines with the function `fill`."""

    def __init__(self, spark: SparkSession, folder: Path, fill: Callable[..., None]) -> None:
        name = fill.__name__
        self._orders = folder / name
        self._orders.mkdir()
        builder = SourceBuilder.stream(name, "value STRING", Blocks).fill(fill).distributed(2)
        spark.dataSource.register(builder.option("orders", not_empty, "", "a folder").build())
        source = spark.readStream.format(name).option("orders", str(self._orders))
        self._query = start(source.load(str(folder / f"{name}.log")), folder / f"{name}.checkpoint")
        self._query.processAllAvailable()

    def burst(self, lines: int) -> float:
        started = time.time()
        for index in range(2):
            draft = self._orders / f"{index}.new"
            draft.write_text(str(lines // BLOCK_LINES // 2))
            draft.rename(self._orders / str(index))
        wait_until(lambda: not list(self._orders.iterdir()), 300, "all rows in the log")
        self._query.processAllAvailable()
        return time.time() - started

    def close(self) -> None:
        self._query.stop()


def measure_stream(spark: SparkSession, folder: Path, lines: int, rounds: int) -> list[Series]:
    with a_sender() as sender:
        contestants: dict[str, Any] = {
            "network_lines": NetworkLines(spark, folder, sender, PORT, 2),
            "`add_batch`": Built(spark, folder, Blocks.add_batches),
            "`add`, row by row": Built(spark, folder, Blocks.add_rows),
        }
        runs = {name: partial(each.burst, lines) for name, each in contestants.items()}
        found = in_turns(runs, rounds, WARM_UP_ROUNDS)
        for each in contestants.values():
            each.close()
    return series_of("stream, two instances", lines, found, base="network_lines")


# ---- Replayable: a file in two halves ----------------------------------------------------------


def halves(context: Any) -> dict[str, tuple[int, int]]:
    """Return the bytes of each half; the cut is at a line, for all lines are of one length."""
    size = Path(context.options.file).stat().st_size
    line = len(LINE % 0)
    middle = size // line // 2 * line
    return {"first": (0, middle), "second": (middle, size)}


def read_lines(context: Any, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    with open(context.options.file, "rb") as file:
        file.seek(start)
        while start < end:
            chunk = file.read(min(CHUNK_BYTES, end - start))
            chunk += file.readline() if chunk[-1:] != b"\n" else b""
            start += len(chunk)
            yield pa.RecordBatch.from_arrays([to_lines(chunk)], names=["value"])


def drain(rows: DataFrame, sink: str) -> float:
    """Seconds of the micro-batch of a new query that ends by itself."""
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        writer = rows.writeStream.format(sink).option("path", f"{folder}/out")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return max(p["durationMs"]["triggerExecution"] for p in query.recentProgress) / 1000


def drained_in_turns(
    rows_and_sinks: dict[str, tuple[DataFrame, str]], rounds: int
) -> dict[str, list[float]]:
    runs = {
        name: partial(mean_over, RUN_SECONDS, partial(drain, rows, sink))
        for name, (rows, sink) in rows_and_sinks.items()
    }
    return in_turns(runs, rounds, WARM_UP_ROUNDS)


def measure_replayable(spark: SparkSession, folder: Path, lines: int, rounds: int) -> list[Series]:
    file = folder / "lines.csv"
    write_lines(file, lines)
    builder = SourceBuilder.replayable("halves", "value STRING", halves, read_lines)
    spark.dataSource.register(builder.option("file", not_empty, "", "a file").build())
    contestants = {
        "file_lines": (spark.readStream.format("file_lines").load(str(file)), "noop"),
        "replayable": (spark.readStream.format("halves").option("file", str(file)).load(), "noop"),
    }
    found = drained_in_turns(contestants, rounds)
    return series_of("a file's lines", lines, found, base="file_lines")


# ---- A sink ------------------------------------------------------------------------------------


class Discard(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()

    def commit(self, messages: list, batchId: int) -> None:
        pass

    def abort(self, messages: list, batchId: int) -> None:
        pass


class BareDiscard(DataSource):
    """As little as a sink can be."""

    @classmethod
    def name(cls) -> str:
        return "bare_discard"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Discard:
        return Discard()


def measure_sink(spark: SparkSession, lines: int, rounds: int) -> list[Series]:
    builder = SinkBuilder.stream("built_discard", lambda context: None)
    builder = builder.receive_batch(lambda state, batch: None)
    spark.dataSource.register(builder.option("path", not_empty, "", "not used").build())
    spark.dataSource.register(BareDiscard)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines)
    rows = source.option("numPartitions", 2).load().selectExpr("cast(value AS STRING) AS value")
    contestants = {
        "bare Arrow writer": (rows, "bare_discard"),
        "`receive_batch`": (rows, "built_discard"),
    }
    found = drained_in_turns(contestants, rounds)
    return series_of("a sink that discards", lines, found, base="bare Arrow writer")


# ---- Idle --------------------------------------------------------------------------------------


def idle_note(spark: SparkSession, folder: Path) -> str:
    """What idle queries cost, in a sentence."""
    told = [f"{n} {100 * share:.1f} %" for n, share in idle_shares(spark, folder).items()]
    return f"Idle for {IDLE_SECONDS:.0f} s, of a core: {', '.join(told)}."


def idle_shares(spark: SparkSession, folder: Path) -> dict[str, float]:
    builder = SourceBuilder.stream("silent", "value STRING", lambda context: None)
    spark.dataSource.register(builder.fill(lambda state, buffer: None).build())
    silent = spark.readStream.format("silent").load(str(folder / "silent.log"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        builtin = spark.readStream.format("socket").options(host="127.0.0.1", port=port).load()
        spark_alone = idle_share(builtin, folder / "socket.checkpoint")
    jvm, python = idle_share(silent, folder / "silent.checkpoint")
    return {"`stream`'s process": python, "its JVM": jvm, "the JVM with `socket`": spark_alone[0]}


def idle_share(rows: DataFrame, checkpoint: Path) -> tuple[float, float]:
    """The parts of a core that an idle query takes: in the JVM, and in Python."""
    query = start(rows, checkpoint)
    query.processAllAvailable()
    time.sleep(2.0)
    before = cpu_seconds()
    time.sleep(IDLE_SECONDS)
    after = cpu_seconds()
    query.stop()
    return (after[0] - before[0]) / IDLE_SECONDS, (after[1] - before[1]) / IDLE_SECONDS


def cpu_seconds() -> tuple[float, float]:
    """Of the JVM, and of all Python processes below it."""
    jvm = python = 0.0
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        if "java" in process.name():
            jvm += times.user + times.system
        else:
            python += times.user + times.system
    return jvm, python


def main() -> None:
    given = parse(__doc__)
    with Watch("builder") as watch, tempfile.TemporaryDirectory(dir=work_dir("bench")) as name:
        spark, folder = start_spark("bench_builder", **given.conf), Path(name)
        series = measure_stream(spark, folder, given.lines, given.rounds)
        series += measure_replayable(spark, folder, given.lines, given.rounds)
        series += measure_sink(spark, given.lines, given.rounds)
        notes = ["", idle_note(spark, folder)]
        spark.stop()
    title = "The builder beside connectors written by hand"
    finish(given, Result(title, series, notes=notes), watch)


if __name__ == "__main__":
    main()
