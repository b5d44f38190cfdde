"""The sink against a real server: its functions, called as the builder calls them."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg.adapt import Transformer
from psycopg.pq import Format
from pyspark.sql import types as spark
from pyspark.sql.types import ArrayType, DataType, StructType

from tests.services.test_postgres_read import Stream
from tests.services.test_postgres_read import batch as read_batch
from tests.values import ODD_TEXT, comparable
from tests.values import VALUES as EXTREMES
from tutorial_pkg.builder import BatchContext, Options, RowPacker, SinkContext
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE
from tutorial_pkg.connectors.postgres.sink import (
    Stage,
    Staged,
    discard,
    publish,
    sink,
)

QUERY = "6d1f1f36-8a50-4b7e-9a0e-2b6c0d8f5a11"
Database = psycopg.Connection[Any]


def options(url: str, **texts: str) -> Any:
    return Options(FORMAT, WRITE).parse({"url": url, "table": "t", "waitSeconds": "5", **texts})


def stage(values: Any, rows: dict[str, Any] | pa.RecordBatch, index: int = 0) -> Staged | None:
    batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pydict(rows)
    with closing(Stage(SinkContext(QUERY, 0, index, values))) as task:
        task.receive_batch(batch)
        return task.flush()


def write(values: Any, batch: int, *tasks: dict[str, Any]) -> None:
    staged = [stage(values, rows, index) for index, rows in enumerate(tasks)]
    publish(BatchContext(QUERY, batch, values), staged)


def rows(database: Database, text: str = "SELECT * FROM t ORDER BY 1, 2") -> list[tuple[Any, ...]]:
    return database.execute(text.encode()).fetchall()


def stages(database: Database) -> list[Any]:
    return rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'spark_stage%'")


# ---- Exactly once --------------------------------------------------------------------------------


def test_repeated_batch_is_written_once(url: str, database: Database) -> None:
    """However the option spells the table."""
    database.execute("CREATE TABLE t (number int, name text)")
    for batch, table in ((0, "t"), (0, "public.t"), (1, '"t"'), (1, "t")):
        tasks = {"number": [batch], "name": ["a"]}, {"number": [7], "name": [""]}
        write(options(url, table=table), batch, *tasks)
    assert rows(database) == [(0, "a"), (1, "a"), (7, ""), (7, "")]
    assert stages(database) == []


def test_stages_of_killed_tasks_are_dropped(url: str, database: Database) -> None:
    """In a schema whose name has quotes and placeholders."""
    database.execute('CREATE SCHEMA "My %s"; CREATE TABLE "My %s"."T.""1""" (n int)')
    values = options(url, table='"My %s"."T.""1"""')
    path = psycopg.conninfo.make_conninfo(url, options=r'-csearch_path="My\ %s"')
    for each in (values, options(path, table='"T.""1"""')):
        for task in range(3):
            stage(each, {"n": [1]}, task)
        assert len(stages(database)) == 3
        discard(BatchContext(QUERY, 0, each), [])  # of a failed batch
        assert stages(database) == []
    stage(values, {"n": [1]})
    write(values, 0, {"n": [1]})
    assert rows(database, 'SELECT * FROM "My %s"."T.""1"""') == [(1,)]
    assert stages(database) == []


def test_checkpoint_set_back_is_an_error(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    write(options(url), 4, {"number": [1, 2], "name": ["a", "b"]})
    for batch in (3, 4):
        with pytest.raises(ValueError, match=f"batches up to 4, and batch {batch} "):
            write(options(url), batch, {"number": [1], "name": ["a"]})
    assert len(rows(database)) == 2


@pytest.mark.parametrize("mode", [{}, {"mode": "merge", "key": "n", "merge": "x = old.x + 1"}])
def test_two_drivers_write_a_batch_once(url: str, database: Database, mode: dict[str, str]) -> None:
    """Both have staged their rows, and publish them at the same time."""
    database.execute("CREATE TABLE t (n int PRIMARY KEY, x int)")
    values = options(url, **mode)
    for batch in range(3):
        staged = [stage(values, {"n": [batch], "x": [0]}) for _ in range(2)]
        context, errors = BatchContext(QUERY, batch, values), list[Exception]()

        def one(staged: Any, context: Any = context, errors: Any = errors) -> None:
            try:
                publish(context, [staged])
            except psycopg.errors.UndefinedTable as error:  # the other driver dropped the stage
                errors.append(error)

        drivers = [threading.Thread(target=one, args=[stage]) for stage in staged]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        assert len(errors) < 2
    assert rows(database) == [(0, 0), (1, 0), (2, 0)]


def test_crash_of_the_server_loses_no_stage(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    staged = stage(options(url), {"n": [1]})
    assert staged
    database.execute(f"TRUNCATE {staged.table}".encode())  # as its recovery does
    with pytest.raises(RuntimeError, match="crashed"):
        publish(BatchContext(QUERY, 0, options(url)), [staged])
    write(options(url), 0, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


@pytest.mark.parametrize("lock", ["ACCESS EXCLUSIVE", "SHARE"])  # blocks the task; only `publish`
def test_locked_table_is_awaited_in_time(url: str, database: Database, lock: str) -> None:
    database.execute("CREATE TABLE t (n int)")
    with psycopg.connect(url) as other:
        other.execute(f"LOCK TABLE t IN {lock} MODE".encode())
        with pytest.raises(TimeoutError, match=r"`t` .*`waitSeconds`"):
            write(options(url, waitSeconds="1"), 0, {"n": [1]})
    write(options(url), 0, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


# ---- By key --------------------------------------------------------------------------------------


def test_upsert_replaces_by_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (host text, core int, load float, PRIMARY KEY (host, core))")
    upsert = options(url, mode="upsert", key="host, core")
    write(upsert, 0, {"host": ["a", "b"], "core": [0, 0], "load": [0.1, 0.2]})
    write(upsert, 1, {"load": [0.5], "core": [0], "host": ["a"]})
    write(upsert, 2, {"host": ["b"], "core": [0]})  # nothing but the key
    assert rows(database) == [("a", 0, 0.5), ("b", 0, 0.2)]
    with pytest.raises(ValueError, match=r"\['host'\]"):
        write(upsert, 3, {"host": [None, "c"], "core": [0, 0]})


def test_equal_keys_in_a_batch_are_refused(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY, name text)")
    with pytest.raises(ValueError, match=r"same key \(n\)"):
        write(options(url, mode="upsert", key="n"), 0, *[{"n": [1], "name": [x]} for x in "ab"])
    assert rows(database) == []


VARIANT = StructType().add("v", ArrayType(spark.VariantType()))


@pytest.mark.parametrize(
    ("texts", "schema", "overwrite", "words"),
    [
        ({"mode": "upsert"}, StructType(), False, "option `key` is missing"),
        ({"key": "n"}, StructType(), False, "option `key` is not for .* got mode=append"),
        ({"mode": "merge", "key": "n"}, StructType(), False, "option `merge` is missing"),
        ({"table": "a.b.c"}, StructType(), False, "option `table` must be .*, got 'a.b.c'"),
        ({}, VARIANT, False, "column `v`"),
        ({}, StructType(), True, "`complete` .* got mode=append"),
    ],
)
def test_wrong_options_fail_before_a_query(
    texts: dict[str, str], schema: StructType, overwrite: bool, words: str
) -> None:
    values = {"url": "postgresql://nowhere", "table": "t", **texts}
    with pytest.raises(ValueError, match=words):
        sink(values).streamWriter(schema, overwrite)


# ---- `df.write` ----------------------------------------------------------------------------------


def test_job_appends_or_overwrites_at_once(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    for overwrite, expected in ((False, 2), (False, 4), (True, 2)):
        context = BatchContext(QUERY, 0, options(url), streaming=False, overwrite=overwrite)
        tasks = [{"number": [1], "name": ["a"]}, {"number": [2], "name": ["b"]}]
        publish(context, [stage(options(url), rows, index) for index, rows in enumerate(tasks)])
        assert (len(rows(database)), stages(database)) == (expected, [])
    assert rows(database, "SELECT to_regclass('spark_batches')") == [(None,)]
    publish(BatchContext(QUERY, 0, options(url), streaming=False, overwrite=True), [None])
    assert rows(database) == []


def test_job_with_broken_commit_is_not_repeated(url: str, database: Database) -> None:
    """Its rows may be there, and nothing would notice that they are there twice."""
    database.execute("CREATE TABLE t (n int)")
    database.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
    )
    database.execute("CREATE TRIGGER die AFTER INSERT ON t EXECUTE FUNCTION die()")
    staged = stage(options(url), {"n": [1]})
    with pytest.raises(psycopg.OperationalError):  # which the builder repeats
        publish(BatchContext(QUERY, 0, options(url)), [staged])
    with pytest.raises(ConnectionError):
        publish(BatchContext(QUERY, 0, options(url), streaming=False), [staged])


# ---- Types ---------------------------------------------------------------------------------------

LONG_AGO = datetime(1874, 12, 7, 18, 40, tzinfo=UTC)  # when New York was 4:56:02 behind
SPAN, SPAN_TEXT = timedelta(days=-1, seconds=5), "-1 days 5.000000 seconds"
NESTED = pa.struct(
    {"m": pa.map_(pa.string(), pa.int64()), "s": pa.duration("us"), "v": pa.list_(pa.binary())}
)
VALUES: list[tuple[str, Any, Any]] = [
    ("timestamptz", pa.array([LONG_AGO, None], pa.timestamp("us", "America/New_York")),
     [LONG_AGO, None]),
    ("jsonb", pa.array(['{"a": [1, null]}', None]), [{"a": [1, None]}, None]),
    ("jsonb", pa.array([[{"m": [("a", None)], "s": SPAN, "v": [b"x"]}, None]], pa.list_(NESTED)),
     [[{"m": {"a": None}, "s": SPAN_TEXT, "v": ["\\x78"]}, None]]),
    ("jsonb[]", pa.array([[[("a", 1.5)], None]], pa.list_(pa.map_(pa.string(), pa.float64()))),
     [[{"a": 1.5}, None]]),
    ("json", pa.array([[[1, None], []]]), [[[1, None], []]]),
    ("int[]", pa.array([[[1, 2], [3, 4]], []]), [[[1, 2], [3, 4]], []]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "array", "expected"), VALUES, ids=lambda value: str(value)[:12])
def test_values_arrive_unchanged(
    url: str, database: Database, kind: str, array: pa.Array, expected: list[Any]
) -> None:
    database.execute(f"CREATE TABLE t (place int, value {kind})".encode())
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array))), array], ["place", "value"])
    publish(BatchContext(QUERY, 0, options(url)), [stage(options(url), batch)])
    database.execute("SET TimeZone = 'UTC'")
    values = [value for _, value in rows(database, "SELECT * FROM t ORDER BY place")]
    assert values == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("smallint", 40_000),
        ("numeric(3,1)", Decimal("123.4")),
        ("uuid", "no"),
        ("jsonb", "{"),
        ("text", "a\x00b"),
        ("text[]", ["a\x00b"]),
        ("jsonb", [{"a": float("nan")}]),
        ("int[]", [[1], [2, 3]]),
        ("int[]", [[], []]),  # the server would read an empty array
    ],
)
def test_unfit_value_names_its_column(url: str, database: Database, kind: str, value: Any) -> None:
    database.execute(f"CREATE TABLE t (fine int, price {kind})".encode())
    nested = pa.list_(pa.list_(pa.int32())) if kind == "int[]" else None
    with pytest.raises(ValueError, match=r"column `price`"):
        write(options(url), 0, {"fine": [1], "price": pa.array([value], nested)})
    assert rows(database) == []


IN_POSTGRESQL: dict[DataType, str] = {
    spark.BooleanType(): "boolean",
    spark.ByteType(): "smallint",
    spark.ShortType(): "smallint",
    spark.IntegerType(): "int",
    spark.LongType(): "bigint",
    spark.FloatType(): "real",
    spark.DoubleType(): "float8",
    spark.DecimalType(38, 18): "numeric(38,18)",
    spark.DecimalType(10, 0): "numeric(10)",
    spark.DecimalType(5, 5): "numeric(5,5)",
    spark.StringType(): "text",
    spark.BinaryType(): "bytea",
    spark.DateType(): "date",
    spark.TimestampType(): "timestamptz",
    spark.TimestampNTZType(): "timestamp",
    spark.DayTimeIntervalType(): "interval",
}
INTERVAL = 1186  # its number in PostgreSQL


def test_extremes_survive_a_round_trip(url: str, database: Database) -> None:
    """Through a table, by a batch and by changes; an interval is read as PostgreSQL's text."""
    columns = {f"c {number}": kind for number, kind in enumerate(IN_POSTGRESQL)}
    texts = [f'"{column}" {IN_POSTGRESQL[kind]}[]' for column, kind in columns.items()]
    database.execute(f"CREATE TABLE t (id int PRIMARY KEY, {', '.join(texts)})".encode())
    schema = StructType().add("id", "integer")
    for column, kind in columns.items():
        schema.add(column, ArrayType(kind))
    values = {column: [*EXTREMES[kind], None] for column, kind in columns.items()}
    values["c 10"] = ["", ODD_TEXT.strip("\0"), None]  # PostgreSQL's text has no NUL
    written = [{"id": 1, **values}, {"id": 2, **dict.fromkeys(columns)}]
    changes = Stream(url, slot="extremes")
    job = BatchContext(QUERY, 0, options(url), streaming=False)
    publish(job, [stage(options(url), RowPacker(schema).pack(written))])
    load = Transformer().get_loader(INTERVAL, Format.TEXT).load
    for read in (read_batch(url)[0], [change["after"] for change in changes.rows()]):
        read[0]["c 15"] = [text and load(text.encode()) for text in read[0]["c 15"]]
        assert comparable(read) == comparable(written)
