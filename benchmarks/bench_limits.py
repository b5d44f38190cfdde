"""What this machine can do at best: the loopback, the disk, and Arrow batches made into rows.

    python benchmarks/bench_limits.py [--lines 3000000] [--rounds 3] [--conf key=value ...]

Nobody reads lines here. The bytes of the other benchmarks' lines are received and thrown away,
written and synced, or handed to Spark as Arrow batches that were made before. No source can be
faster than the slowest step on its way. Spark's `rate` makes its rows in the JVM, without any
bytes to read: what a stream costs that has no way at all.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from lines import BLOCK, BLOCK_LINES, LINE, connect_and_send
from measure import Result, Watch, finish, in_turns, parse, series_of, timed
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir

RECEIVE_BYTES = 256 * 1024
TASKS = 2
WARM_UP_ROUNDS = 12  # the JVM's compiler needs some 30 million lines


class ReadyBatches(DataSource):
    """The same Arrow batch again and again, from two tasks: the way into Spark and nothing else."""

    @classmethod
    def name(cls) -> str:
        return "ready_batches"

    def schema(self) -> str:
        return "value STRING"

    def reader(self, schema: StructType) -> DataSourceReader:
        return ReadyBatchesReader(int(self.options["lines"]))


class ReadyBatchesReader(DataSourceReader):
    def __init__(self, lines: int) -> None:
        self._batches_of_a_task = lines // BLOCK_LINES // TASKS

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(task) for task in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        lines = [(LINE % number).decode().rstrip() for number in range(BLOCK_LINES)]
        batch = pa.RecordBatch.from_pydict({"value": pa.array(lines)})
        for _ in range(self._batches_of_a_task):
            yield batch


def arrow_to_rows(spark: SparkSession, lines: int) -> None:
    rows = spark.read.format("ready_batches").option("lines", lines).load()
    rows.write.format("noop").mode("overwrite").save()


def rate(spark: SparkSession, lines: int) -> float:
    """One micro-batch of the `rate` source that makes so many rows a batch, thrown away."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines)
    rows = source.option("numPartitions", TASKS).load()
    with tempfile.TemporaryDirectory(dir=work_dir("bench")) as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime="1 hour").start()
        wait_until(lambda: query.lastProgress, 60, "the batch")
        query.stop()
    return query.lastProgress["durationMs"]["triggerExecution"] / 1000


def loopback(lines: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=connect_and_send, args=(server.getsockname(), lines))
        sender.start()
        received = bytearray(RECEIVE_BYTES)
        with server.accept()[0] as client:
            while client.recv_into(received):
                pass
        sender.join()


def disk(folder: Path, lines: int) -> None:
    file = folder / "written"
    with file.open("wb") as written:
        for _ in range(lines // BLOCK_LINES):
            written.write(BLOCK)
        written.flush()
        os.fsync(written.fileno())


def main() -> None:
    given = parse(__doc__)
    with Watch("limits") as watch, tempfile.TemporaryDirectory(dir=work_dir("bench")) as folder:
        spark = start_spark("bench_limits", **given.conf)
        spark.dataSource.register(ReadyBatches)
        runs = {
            "loopback: send and receive": lambda: timed(lambda: loopback(given.lines)),
            "disk: write and sync": lambda: timed(lambda: disk(Path(folder), given.lines)),
            "Arrow batches to rows": lambda: timed(lambda: arrow_to_rows(spark, given.lines)),
            "Spark's `rate`, made in the JVM": lambda: rate(spark, given.lines),
        }
        seconds = in_turns(runs, given.rounds, WARM_UP_ROUNDS)
        spark.stop()
    series = series_of("the way of the bytes", given.lines, seconds)
    finish(given, Result("What the machine allows", series), watch)


if __name__ == "__main__":
    main()
