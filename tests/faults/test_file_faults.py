"""file_lines under kill -9, rotation while stopped, and files that vanish from a planned batch."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_connector_tests.query_process import wait_until
from tests.faults.file_lines_driver import copied
from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.soak import few_or_many

DRIVER = Path(__file__).with_name("file_lines_driver.py")


class Writer(threading.Thread):
    """Appends numbered lines, in two writes that part within a line, and rotates now and then."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log
        self._stopped = threading.Event()
        self.written = 0
        self.rotations = 0

    def run(self) -> None:
        chance = random.Random(3)
        while not self._stopped.wait(0.02):
            self._append(chance.randrange(1, 100))
            if chance.random() < 0.03:
                self.rotations += 1
                self._log.rename(f"{self._log}.{self.rotations}")

    def _append(self, count: int) -> None:
        lines = "".join(f"{number}\n" for number in range(self.written, self.written + count))
        with self._log.open("a") as file:
            file.write(lines[: len(lines) // 2])
            file.flush()
            file.write(lines[len(lines) // 2 :])
        self.written += count

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@contextmanager
def writing(log: Path) -> Iterator[Writer]:
    writer = Writer(log)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


@few_or_many("kills", 1, 8)
def test_kill_9_while_a_writer_appends_and_rotates(spark, tmp_path, kills: int):
    """All names match, so that what came and went while the query was down is read too."""
    (tmp_path / "logs").mkdir()
    out = tmp_path / "out"
    chance = random.Random(9)
    with writing(tmp_path / "logs" / "data.csv") as writer:
        for round_ in range(kills):
            before = committed_files(out)
            with SpareDriver(DRIVER, tmp_path / f"driver-{round_}", tmp_path) as driver:
                driver.go()
                wait_until(lambda n=before: committed_files(out) > n, SECONDS, "a batch")
                wait_until(lambda c=chance: c.random() < 0.1, SECONDS, "the random moment")
                driver.kill()
        wait_until(lambda: writer.rotations, SECONDS, "a rotation")
    copied(spark, tmp_path, availableNow=True).awaitTermination()
    read = Counter(row.value for row in spark.read.parquet(str(out)).collect())
    assert read == Counter(map(str, range(writer.written)))


def committed_files(out: Path) -> int:
    """How many batches the Parquet sink has committed."""
    return len(list((out / "_spark_metadata").glob("[0-9]*")))


# ---- A batch that failed and is read again ---------------------------------------------------


class Sink:
    """Keeps a batch's rows, or fails when told to."""

    def __init__(self) -> None:
        self.failing = False
        self.batches: list[list[str]] = []

    def __call__(self, batch: DataFrame, _: int) -> None:
        self.batches.append(sorted(row.value for row in batch.collect()))
        if self.failing:
            raise RuntimeError("this batch was told to fail")


def run(spark: SparkSession, path: Path, checkpoint: Path, sink: Sink) -> None:
    """One run over what is available."""
    query = (
        spark.readStream.format("file_lines")
        .load(str(path))
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_failed_batch_comes_again_though_its_file_was_rotated(spark, tmp_path):
    """Lines 3 and 4 are in a batch that was planned, and failed in the sink."""
    log, checkpoint, sink = tmp_path / "data.csv", tmp_path / "checkpoint", Sink()
    log.write_text("1\n2\n")
    run(spark, log, checkpoint, sink)
    with log.open("a") as file:
        file.write("3\n4\nhalf")
    sink.failing = True
    with pytest.raises(StreamingQueryException, match="this batch was told to fail"):
        run(spark, log, checkpoint, sink)
    sink.failing = False
    with log.open("a") as file:
        file.write(" five\n")
    log.rename(f"{log}.1")
    log.write_text("6\n")
    run(spark, log, checkpoint, sink)
    assert sink.batches == [["1", "2"], ["3", "4"], ["3", "4"], ["6", "half five"]]
