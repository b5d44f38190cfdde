"""Three broken queries for notebook 18: find the faults from their metrics.

Each function's docstring gives its fault away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg import SinkBuilder, item_stream, send_lines
from workbook.senders import HOST, free_ports, wait_for_listener

TRIGGER = "500 milliseconds"
PAUSE_SECONDS = 0.2
BEHIND_SECONDS = 90
ITEMS_PER_SECOND = 200


class BrokenQuery:
    """A running query, and the function that feeds its source, if it needs one."""

    def __init__(self, query: StreamingQuery, feed: Callable[[], object] | None = None) -> None:
        self.query = query
        self._feed = feed
        self._stopping = threading.Event()
        self._feeder = threading.Thread(target=self._run, daemon=True)
        self._feeder.start()

    def stop(self) -> None:
        self._stopping.set()
        self._feeder.join()
        self.query.stop()

    def _run(self) -> None:
        while self._feed and not self._stopping.wait(PAUSE_SECONDS):
            self._feed()


def scene(number: int, spark: SparkSession, folder: Path) -> BrokenQuery:
    """Start scene 1, 2 or 3; its query is named `scene 1` and so on."""
    name = f"scene {number}"
    return (_first, _second, _third)[number - 1](spark, folder / name, name)


def _started(df: DataFrame, folder: Path, name: str, format: str = "noop") -> StreamingQuery:
    writer = df.writeStream.format(format).queryName(name).trigger(processingTime=TRIGGER)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def _first(spark: SparkSession, folder: Path, name: str) -> BrokenQuery:
    """The sink takes 11 ms for each row, and a hundred rows arrive each second."""
    slow = SinkBuilder.stream("slow_sink", create=lambda context: None)
    spark.dataSource.register(slow.receive(lambda state, row: time.sleep(0.011)).build())
    items = item_stream(spark, 100).coalesce(1)
    return BrokenQuery(_started(items, folder, name, "slow_sink"))


def _second(spark: SparkSession, folder: Path, name: str) -> BrokenQuery:
    """Lines of the second port are a minute and a half old: older than the watermark allows."""
    port = free_ports(2)
    reader = spark.readStream.format("network_lines").options(port=port, parallelism=2)
    lines = reader.option("eventTime", "millis_prefix").load(str(folder / "log"))
    timed = lines.withWatermark("event_time", "10 seconds")
    query = _started(timed.groupBy(F.window("event_time", "10 seconds")).count(), folder, name)
    for each in (port, port + 1):
        wait_for_listener(each, query)
    return BrokenQuery(query, lambda: _send_to_both(port))


def _send_to_both(port: int) -> None:
    now = time.time()
    for behind in (0, 1):
        stamp = int((now - behind * BEHIND_SECONDS) * 1000)
        send_lines(HOST, port + behind, [f"{stamp},item" for _ in range(20)])


def _third(spark: SparkSession, folder: Path, name: str) -> BrokenQuery:
    """Nineteen of twenty items have one key, and all rows of a key go to one task.

    At 6 ms a row, that task needs more than a second for the rows of a second, on any machine.
    Two tasks that shared the rows would need 0.6 s.
    """
    number = F.regexp_extract("item", r"sequence=(\d+)", 1).cast("int")
    key = F.when(number % 20 > 0, 0).otherwise(number)
    items = item_stream(spark, ITEMS_PER_SECOND).select("item", key.alias("key"))
    work = items.repartition(2, "key").mapInArrow(_work, "item STRING")
    return BrokenQuery(_started(work, folder, name))


def _work(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """Something that takes 6 ms a row."""
    for batch in batches:
        time.sleep(0.006 * batch.num_rows)
        yield batch.select(["item"])
