"""Built sources on real Spark; the kit examines built sinks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg import SourceBuilder, builder_status, last_error
from tutorial_pkg.builder import DEAD_LETTERS, Buffer

SECONDS = 180  # until something that must happen counts as not happening
BLOCKED = 600  # seconds that a `fill` blocks, far longer than the test takes

# ---- Sources -------------------------------------------------------------------------------------


def start(rows: DataFrame, directory: Path, **trigger: Any) -> StreamingQuery:
    writer = rows.writeStream.format("parquet").option("path", str(directory / "out"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    return writer.trigger(**(trigger or {"processingTime": "100 milliseconds"})).start()


def written(spark: SparkSession, directory: Path) -> list[Any]:
    return [row[0] for row in spark.read.parquet(str(directory / "out")).collect()]


def wait_for_rows(query: StreamingQuery, count: int) -> None:
    def enough() -> bool:
        return sum(progress["numInputRows"] for progress in query.recentProgress) >= count

    wait_until(enough, SECONDS, f"{count} rows")


def test_errors_are_one_readable_line(spark: SparkSession, tmp_path: Path) -> None:
    """Errors of a thread in the driver, of a task, and of an option."""

    def failing_fill(state: Any, buffer: Buffer) -> None:
        raise LookupError("the sensor\nis gone")

    def failing_read(context: Any, split: str, start: int, end: int) -> Iterator[int]:
        raise LookupError("the page caf\udce9 is gone")  # as Python tells a name in Latin-1

    stream = SourceBuilder.stream("failing_fill", "n LONG", lambda context: None)
    pages = SourceBuilder.replayable(
        "failing_read", "n LONG", look=lambda context: {"a": (0, 1)}, read=failing_read
    )
    spark.dataSource.register(stream.fill(failing_fill).build())
    spark.dataSource.register(pages.build())
    for name, text in (
        ("failing_fill", "`fill` of instance 0 failed: LookupError: the sensor is gone"),
        (
            "failing_read",
            "`read` of split `a` failed: LookupError: the page caf\\udce9 is gone",
        ),
    ):
        reader = spark.readStream.format(name)
        rows = reader.load(str(tmp_path / name)) if name == "failing_fill" else reader.load()
        query = rows.writeStream.format("noop").start()
        with pytest.raises(StreamingQueryException):
            query.awaitTermination(SECONDS)
        assert last_error(query) == f"FunctionError: format `{name}`: {text}"
    with pytest.raises(Exception, match="option `path` is missing; give a local directory"):
        spark.readStream.format("failing_fill").load()


def test_blocking_fill_does_not_delay_stop(spark: SparkSession, tmp_path: Path) -> None:
    blocking = SourceBuilder.stream("blocking", "n LONG", lambda context: None)
    spark.dataSource.register(blocking.fill(lambda state, buffer: time.sleep(BLOCKED)).build())
    rows = spark.readStream.format("blocking").load(str(tmp_path / "log"))
    query = rows.writeStream.format("noop").start()

    def inside() -> bool:
        status = builder_status(tmp_path / "log").instances
        return bool(status) and status[0].inside == "fill"

    wait_until(inside, SECONDS, "inside `fill`")
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began < BLOCKED / 2, "it waited for `fill`"
    wait_until(lambda: builder_status(tmp_path / "log").process is None, 60, "the process's end")
    assert "`fill`" in str(builder_status(tmp_path / "log"))


VALUES = """yes BOOLEAN, tiny TINYINT, small SMALLINT, int INT, long LONG, single FLOAT,
 double DOUBLE, money DECIMAL(10,2), text STRING, bytes BINARY, day DATE, at TIMESTAMP,
 local TIMESTAMP_NTZ, list ARRAY<INT>, map MAP<STRING, LONG>, pair STRUCT<n: LONG, at: TIMESTAMP>,
 deep ARRAY<STRUCT<m: MAP<STRING, ARRAY<DOUBLE>>>>, took INTERVAL DAY TO SECOND"""
AT = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
ROW = (
    *(True, 1, 2, 3, 4, 0.5, 0.25, Decimal("1.50"), "täxt", b"\0\1", date(2026, 1, 2), AT),
    *(datetime(2026, 1, 2, 3), [1, None], {"a": 1}, (7, AT), [{"m": {"x": [1.0]}}]),
    AT - datetime(2026, 7, 1, tzinfo=UTC),
)


def test_every_type_passes_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """What is not a row becomes a dead letter."""

    def fill(state: list[Any], buffer: Buffer) -> None:
        while state:
            buffer.add(state.pop())

    rows = [ROW, (None,) * len(ROW)]
    builder = SourceBuilder.stream("typed", VALUES, lambda context: ["no row", *rows]).fill(fill)
    spark.dataSource.register(builder.options(DEAD_LETTERS).build())
    letters = tmp_path / "letters"
    reader = spark.readStream.format("typed").option("deadLetters", str(letters))
    stream = reader.load(str(tmp_path / "log"))
    query = stream.writeStream.format("memory").queryName("typed_rows").start()
    wait_for_rows(query, 2)
    query.stop()
    expected = spark.createDataFrame(rows, VALUES)
    assert sorted(map(str, spark.table("typed_rows").collect())) == sorted(
        map(str, expected.collect())
    )
    [file] = letters.iterdir()
    assert json.loads(file.read_text())["row"] == "no row"
    assert builder_status(tmp_path / "log").instances[0].dead_letters == 1
