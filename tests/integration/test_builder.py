"""Built sources and sinks on real Spark."""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession, functions
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tests.since import since_4_2
from tutorial_pkg import SinkBuilder, SourceBuilder, builder_status, last_error
from tutorial_pkg.builder import Buffer, boolean, integer
from tutorial_pkg.core.spark_versions import HAS_LIMITS

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
    def fill(state: list[Any], buffer: Buffer) -> None:
        while state:
            buffer.add(state.pop())

    rows = [ROW, (None,) * len(ROW)]
    typed = SourceBuilder.stream("typed", VALUES, lambda context: list(rows)).fill(fill).build()
    spark.dataSource.register(typed)
    stream = spark.readStream.format("typed").load(str(tmp_path / "log"))
    query = stream.writeStream.format("memory").queryName("typed_rows").start()
    wait_for_rows(query, 2)
    query.stop()
    expected = spark.createDataFrame(rows, VALUES)
    assert sorted(map(str, spark.table("typed_rows").collect())) == sorted(
        map(str, expected.collect())
    )


def sensors(heartbeat: float | None) -> Any:
    """Ten readings a second of now; none from one that is mute."""

    def fill(mute: bool, buffer: Buffer) -> None:
        time.sleep(0.1)
        if not mute:
            buffer.add((7, datetime.now(UTC)))

    name = "sensors_with_heartbeats" if heartbeat else "sensors"
    builder = SourceBuilder.stream(name, "value LONG, at TIMESTAMP", lambda c: c.options.mute)
    builder = builder.fill(fill).option("mute", boolean, False, "add nothing").timestamps("at")
    return (builder.heartbeat(heartbeat) if heartbeat else builder).build()


def windows(spark: SparkSession, directory: Path, heartbeat: float | None) -> StreamingQuery:
    """Count by second over a sensor and a mute one, each with its own watermark."""
    source = sensors(heartbeat)
    spark.dataSource.register(source)
    both = [
        spark.readStream.format(source.name())
        .load(str(directory / f"{source.name()} {mute}"), mute=mute)
        .withWatermark("at", "0 seconds")
        for mute in ("false", "true")
    ]
    seconds = both[0].union(both[1]).groupBy(functions.window("at", "1 second"))
    counts = seconds.agg(functions.count("value").alias("readings")).where("readings > 0")
    return counts.writeStream.format("memory").queryName(source.name()).start()


@pytest.mark.soak
def test_heartbeats_close_windows_of_a_mute_sensor(spark: SparkSession, tmp_path: Path) -> None:
    query = windows(spark, tmp_path, heartbeat=0.2)
    closed = spark.table(str(query.name))
    wait_until(lambda: closed.count() >= 2 or not query.isActive, SECONDS, "two windows")
    assert query.isActive, last_error(query)
    query.stop()
    counted = [row.readings for row in closed.collect()]
    assert max(counted) <= 10, "heartbeats were counted"
    query = windows(spark, tmp_path, heartbeat=None)
    wait_until(lambda: query.lastProgress and query.lastProgress["batchId"] >= 3, SECONDS, "rows")
    assert query.lastProgress["eventTime"]["watermark"] == "1970-01-01T00:00:00.000Z"
    query.stop()


def test_functions_that_capture_a_session_or_a_frame_are_refused(spark: SparkSession) -> None:
    rows = spark.range(1)
    for name, kind, function in (
        ("spark", "SparkSession", lambda state, buffer: spark.range(1)),
        ("rows", "DataFrame", lambda state, buffer: rows.collect()),
    ):
        builder = SourceBuilder.stream("numbers", "n LONG", lambda context: None).fill(function)
        text = f"^format `numbers`: `fill` cannot travel .* it captures `{name}`, a {kind} \\("
        with pytest.raises(ValueError, match=text):
            builder.build()


@since_4_2
def test_batch_and_replayable(spark: SparkSession, tmp_path: Path) -> None:
    def fill(state: list[int], buffer: Buffer) -> None:
        buffer.add(state.pop())
        if not state:
            buffer.close()

    counted = SourceBuilder.batch("counted", "n LONG", lambda context: [context.index, 7])
    spark.dataSource.register(counted.fill(fill).distributed(2).build())
    assert sorted(row.n for row in spark.read.format("counted").load().collect()) == [0, 1, 7, 7]

    pages = SourceBuilder.replayable(
        "pages",
        "page STRING, n LONG",
        look=lambda context: {f"page {number}": (0, 100) for number in range(5)},
        read=lambda context, split, start, end: ((split, n) for n in range(start, end)),
    )
    spark.dataSource.register(pages.build())
    rows = spark.readStream.format("pages").option("maxRowsPerTrigger", 200).load()
    query = start(rows, tmp_path, availableNow=True)
    assert query.awaitTermination(SECONDS)
    assert Counter(written(spark, tmp_path)) == {f"page {number}": 100 for number in range(5)}
    assert [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]] == [200, 200, 100]


@pytest.mark.parametrize("without_log", [pytest.param(False, marks=since_4_2), True])
def test_pages_through_the_log_and_without_one(
    spark: SparkSession, tmp_path: Path, without_log: bool
) -> None:
    """Two splits, one of them grows; a query for each half, and the second is started twice."""
    asked, name = tmp_path / "asked", f"pages_{without_log}".lower()
    asked.touch()

    def read(context: Any, split: str, position: Any) -> tuple[list[int], int]:
        """As a service that is asked for what came since."""
        start, most = position or 0, context.options.most
        numbers = range(start, min(start + 100, most if split == "long" else 7))
        if numbers:
            with asked.open("a") as file:
                print(split, position, file=file)
        return [*numbers], numbers.stop if numbers else start

    builder = SourceBuilder.cursor(name, "number LONG", read).option("most", integer(0), 0, "rows")
    builder = builder.splits(lambda context: {"long": 0, "short": 0})
    spark.dataSource.register((builder.replayable() if without_log else builder).build())
    for most in (507, 1_013, 1_013):
        stream = spark.readStream.format(name).option("most", most)
        rows = stream.load() if without_log else stream.load(str(tmp_path / "log"))
        for _ in range(1 if HAS_LIMITS else 7):  # there a batch ends after a second with a page
            query = start(rows, tmp_path, availableNow=True)
            assert query.awaitTermination(SECONDS) and query.exception() is None
    assert sorted(written(spark, tmp_path)) == sorted([*range(1_013), *range(7)])
    pages = asked.read_text().splitlines()
    assert len(set(pages)) == len(pages) == 6 + 6 + 1, "no page twice"
    batch = spark.read.format(name).option("most", 250).load()
    assert sorted(row.number for row in batch.collect()) == sorted([*range(250), *range(7)])


def test_a_first_batch_is_repeated_from_where_it_began(spark: SparkSession, tmp_path: Path) -> None:
    """It fails; before the restart, the source's oldest rows are deleted."""
    first, asked = tmp_path / "first", tmp_path / "asked"
    first.write_text("10")

    def look(context: Any) -> dict[str, tuple[int, int]]:
        asked.touch()
        return {"a": (int(first.read_text()), 20)}

    def read(context: Any, split: str, start: int, end: int) -> range:
        if first.read_text() == "10":
            raise OSError("the disk is full")
        return range(start, end)

    source = SourceBuilder.replayable("moving", "n LONG", look, read).build()
    spark.dataSource.register(source)
    rows = spark.readStream.format("moving").load()
    with pytest.raises(StreamingQueryException):
        start(rows, tmp_path, availableNow=True).awaitTermination(SECONDS)
    asked.unlink()
    first.write_text("15")
    assert start(rows, tmp_path, availableNow=True).awaitTermination(SECONDS)
    assert asked.exists()  # where it begins, though a batch is planned
    assert sorted(written(spark, tmp_path)) == list(range(10, 20))


# ---- Sinks ---------------------------------------------------------------------------------------


def note(directory: Path, what: str) -> None:
    """Create a file for each event, in any process."""
    (directory / f"{time.time_ns()}-{os.getpid()}-{what}").touch()


def notes(directory: Path) -> Counter[str]:
    return Counter(file.name.split("-", 2)[2] for file in directory.iterdir())


@pytest.fixture
def events(tmp_path: Path) -> Path:
    (tmp_path / "events").mkdir()
    return tmp_path / "events"


def sink_of(events: Path, **functions: Callable[..., Any]) -> Any:
    """Return a sink that records calls; `functions` replace some of its functions."""

    def receive(state: list[Any], row: Row) -> None:
        state.append(row.value)

    def destroy(state: list[Any]) -> None:
        note(events, "destroy")

    def create(context: Any) -> list[Any]:
        note(events, "create")
        return []

    given = {"receive": receive, "destroy": destroy, **functions}
    builder = SinkBuilder.stream("noting", given.pop("create", create))
    for name, function in given.items():
        getattr(builder, name)(function)
    return builder.build()


def write(spark: SparkSession, sink: Any, directory: Path, batches: int = 1) -> StreamingQuery:
    """Micro-batches of ten numbers in two partitions each."""
    spark.dataSource.register(sink)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10)
    rows = source.option("numPartitions", 2).load().select("value")
    writer = rows.writeStream.format(sink.name())
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    query = writer.start()

    def enough() -> bool:
        done = query.lastProgress
        return not query.isActive or (done is not None and done["batchId"] >= batches - 1)

    wait_until(enough, SECONDS, f"{batches} batches")
    query.stop()
    return query


def in_database(path: Path) -> list[int]:
    with sqlite3.connect(path) as database:
        return [value for (value,) in database.execute("SELECT value FROM rows ORDER BY value")]


def two_phases(database: Path) -> dict[str, Callable[..., Any]]:
    """Tasks pass on their rows; the commit writes them and the batch's number, once."""

    def commit(context: Any, handles: list[list[int]]) -> None:
        with sqlite3.connect(database) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS done (query, batch, UNIQUE(query, batch))"
            )
            connection.execute("CREATE TABLE IF NOT EXISTS rows (value)")
            done = connection.execute(
                "INSERT OR IGNORE INTO done VALUES (?, ?)", (context.query, context.batch)
            )
            if done.rowcount:
                values = [(value,) for handle in handles for value in handle]
                connection.executemany("INSERT INTO rows VALUES (?)", values)

    return {"flush": lambda state: state, "commit": commit}


def test_commit_that_fails_is_repeated_once(
    spark: SparkSession, tmp_path: Path, events: Path
) -> None:
    database = tmp_path / "rows.db"
    functions = two_phases(database)
    commit = functions["commit"]

    def dying(context: Any, handles: list[list[int]]) -> None:
        before, after = (tmp_path / f"{word} {context.batch}" for word in ("before", "after"))
        if not before.exists():
            before.touch()
            raise OSError("before")
        commit(context, handles)
        if not after.exists():
            after.touch()
            raise OSError("after")

    def abort(context: Any, handles: list[list[int]]) -> None:
        note(events, f"abort {context.batch} {len(handles)}")

    sink = sink_of(events, **{**functions, "commit": dying, "abort": abort})
    for text in ("before", "after"):
        query = write(spark, sink, tmp_path, batches=10)
        assert str(last_error(query)).endswith(f" failed: OSError: {text}")
    write(spark, sink_of(events, **functions), tmp_path, batches=3)
    found = in_database(database)
    assert found == list(range(len(found)))
    assert len(found) >= 30
    assert notes(events)["abort 0 2"] == 2


def test_receive_batch_gets_arrow_and_options(
    spark: SparkSession, tmp_path: Path, events: Path
) -> None:
    def receive(state: Any, batch: pa.RecordBatch) -> None:
        note(events, f"{type(batch).__name__} {batch.num_rows} {state.options.step}")

    sink = (
        SinkBuilder.stream("batches", lambda context: context)
        .receive_batch(receive)
        .option("step", integer(1), 3, "how far")
        .build()
    )
    query = write(spark, sink, tmp_path)
    assert query.exception() is None
    assert notes(events)["RecordBatch 5 3"] >= 2
