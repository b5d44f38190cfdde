"""The sink against a real server: its functions called as the builder calls them."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from tutorial_pkg.builder import BatchContext, Options, SinkContext
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


def options(url: str, **given: str) -> Any:
    return Options(FORMAT, WRITE).parse({"url": url, "table": "t", "waitSeconds": "5", **given})


def stage(values: Any, rows: dict[str, Any] | pa.RecordBatch, index: int = 0) -> Staged | None:
    batch = rows if isinstance(rows, pa.RecordBatch) else pa.RecordBatch.from_pydict(rows)
    with closing(Stage(SinkContext(QUERY, 0, index, values))) as task:
        task.receive_batch(batch)
        return task.flush()


def write(values: Any, batch: int, *tasks: dict[str, Any]) -> None:
    staged = [stage(values, rows, index) for index, rows in enumerate(tasks)]
    publish(BatchContext(QUERY, batch, values), staged)


def rows(database: Database, text: Any = "SELECT * FROM t ORDER BY 1, 2") -> list[tuple[Any, ...]]:
    return database.execute(text).fetchall()


def stages(database: Database) -> list[Any]:
    return rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'spark_stage%'")


# ---- Exactly once --------------------------------------------------------------------------------


def test_a_batch_is_appended_once_however_often_it_comes(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    for batch in (0, 0, 1, 1):
        write(
            options(url), batch, {"number": [batch], "name": ["a"]}, {"number": [7], "name": [""]}
        )
    assert rows(database) == [(0, "a"), (1, "a"), (7, ""), (7, "")]
    assert stages(database) == []


def test_a_batch_without_rows_changes_nothing(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    write(options(url), 0, {"number": pa.array([], pa.int32()), "name": pa.array([], pa.string())})
    assert rows(database) == []


def test_a_batch_that_the_table_refuses_leaves_nothing(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text CHECK (name <> 'no'))")
    with pytest.raises(psycopg.errors.CheckViolation):
        write(options(url), 0, {"number": [1], "name": ["yes"]}, {"number": [2], "name": ["no"]})
    assert rows(database) == []
    discard(BatchContext(QUERY, 0, options(url)), [])
    assert stages(database) == []
    write(options(url), 0, {"number": [1], "name": ["yes"]})  # the same number is free again
    assert rows(database) == [(1, "yes")]


def test_a_checkpoint_that_was_set_back_is_an_error(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    write(options(url), 4, {"number": [1, 2], "name": ["a", "b"]})
    for batch in (3, 4):
        with pytest.raises(RuntimeError, match=r"batch 4 of this query with 2 rows, and batch \d"):
            write(options(url), batch, {"number": [1], "name": ["a"]})
    assert len(rows(database)) == 2


def test_a_task_whose_target_is_in_a_schema_needs_no_other(url: str, database: Database) -> None:
    database.execute('CREATE SCHEMA "My.Schema"; CREATE TABLE "My.Schema"."T ""1""" (n int)')
    name = '"My.Schema"."T ""1"""'
    write(options(url, table=name), 0, {"n": [1]})
    write(options(url, table=name), 0, {"n": [1]})
    assert rows(database, 'SELECT * FROM "My.Schema"."T ""1"""') == [(1,)]
    assert rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'spark%stage%'") == []


def test_rows_that_a_crash_of_the_server_took_are_noticed(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    staged = stage(options(url), {"n": [1]})
    assert staged
    database.execute(f"TRUNCATE {staged.table}".encode())  # as recovery does
    with pytest.raises(RuntimeError, match="crashed after rows were staged"):
        publish(BatchContext(QUERY, 0, options(url)), [staged])
    write(options(url), 0, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


# ---- By key --------------------------------------------------------------------------------------


def test_upsert_replaces_by_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (host text, core int, load float, PRIMARY KEY (host, core))")
    upsert = options(url, mode="upsert", key="host, core")
    write(upsert, 0, {"host": ["a", "b"], "core": [0, 0], "load": [0.1, 0.2]})
    write(upsert, 1, {"load": [0.5], "core": [0], "host": ["a"]})
    assert rows(database) == [("a", 0, 0.5), ("b", 0, 0.2)]


def test_upsert_of_nothing_but_the_key(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY)")
    for batch in (0, 1):
        write(options(url, mode="upsert", key="n"), batch, {"n": [1]})
    assert rows(database, "SELECT * FROM t") == [(1,)]


def test_merge_with_an_expression_counts_once(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (word text PRIMARY KEY, count bigint, longest int)")
    merge = "count = old.count + excluded.count, longest = greatest(old.longest, excluded.longest)"
    values = options(url, mode="merge", key="word", merge=merge)
    for batch in (0, 1, 1):
        write(values, batch, {"word": ["a", "b"], "count": [1, 2], "longest": [batch, 5 - batch]})
    assert rows(database) == [("a", 2, 1), ("b", 4, 5)]


def test_two_rows_for_one_key_in_a_batch_are_refused(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int PRIMARY KEY, name text)")
    with pytest.raises(ValueError, match=r"several rows with the same key \(n\)"):
        write(options(url, mode="upsert", key="n"), 0, *[{"n": [1], "name": [x]} for x in "ab"])
    assert rows(database) == []


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (
            {"mode": "upsert"},
            "option `key` is missing; it is needed for mode=upsert and mode=merge",
        ),
        ({"key": "n"}, "option `key` is only for mode=upsert and mode=merge, got mode=append"),
        ({"mode": "merge", "key": "n"}, "option `merge` is missing; it is needed for mode=merge"),
        ({"table": "a.b.c"}, "option `table` must be `name`, `schema.name` or .*, got 'a.b.c'"),
        ({"mode": "add"}, "option `mode` must be append, upsert or merge, got 'add'"),
        ({"mode": "upsert", "key": "a,,b"}, "option `key` must be names with commas between them"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        sink({"table": "t", **given}).streamWriter(StructType(), False)


def test_complete_is_for_upsert_only() -> None:
    given = {"url": "postgresql://nowhere", "table": "t"}
    with pytest.raises(ValueError, match="the output mode `complete` brings all rows again"):
        sink(given).streamWriter(StructType(), True)
    assert sink({**given, "mode": "upsert", "key": "n"}).streamWriter(StructType(), True)


# ---- `df.write` ----------------------------------------------------------------------------------


def test_a_job_adds_or_replaces_at_one_stroke_and_leaves_nothing_behind(
    url: str, database: Database
) -> None:
    database.execute("CREATE TABLE t (number int, name text)")
    for overwrite, expected in ((False, 2), (False, 4), (True, 2)):
        context = BatchContext(QUERY, 0, options(url), streaming=False, overwrite=overwrite)
        tasks = [{"number": [1], "name": ["a"]}, {"number": [2], "name": ["b"]}]
        publish(context, [stage(options(url), rows, index) for index, rows in enumerate(tasks)])
        assert (len(rows(database)), stages(database)) == (expected, [])
    assert rows(database, "SELECT to_regclass('spark_batches')") == [(None,)]
    publish(BatchContext(QUERY, 0, options(url), streaming=False, overwrite=True), [None])
    assert rows(database) == []


# ---- Types ---------------------------------------------------------------------------------------

NOW = datetime(2026, 11, 22, 1, 2, 3, 456789)
VALUES: list[tuple[str, Any, Any]] = [
    ("smallint", pa.array([1, None, -32768], pa.int64()), [1, None, -32768]),
    ("bigint", pa.array([2**63 - 1, None], pa.int64()), [2**63 - 1, None]),
    ("boolean", pa.array([True, False, None]), [True, False, None]),
    ("real", pa.array([1.5, None], pa.float32()), [1.5, None]),
    ("float8", pa.array([1e300, float("inf"), -0.0]), [1e300, float("inf"), -0.0]),
    ("numeric(10,2)", pa.array([Decimal("1.50"), None]), [Decimal("1.50"), None]),
    ("text", pa.array(["", None, "a\"b\\.\n\\.\n,'", "\\N", "é😀"]), None),
    ("varchar(3)", pa.array(["abc"]), ["abc"]),
    ("bytea", pa.array([b"\x00\xff\\", b"", None]), [b"\x00\xff\\", b"", None]),
    ("date", pa.array([date(2026, 2, 28), None]), [date(2026, 2, 28), None]),
    ("timestamp", pa.array([NOW, None], pa.timestamp("us")), [NOW, None]),
    ("timestamptz", pa.array([NOW], pa.timestamp("us", "UTC")), [NOW.replace(tzinfo=UTC)]),
    ("interval", pa.array([timedelta(days=-1, seconds=5)]), [timedelta(days=-1, seconds=5)]),
    ("jsonb", pa.array(['{"a": [1, null]}', None]), [{"a": [1, None]}, None]),
    ("jsonb", pa.array([{"a": 1, "b": "x"}, None]), [{"a": 1, "b": "x"}, None]),
    ("jsonb", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [{"k": 1}]),
    ("uuid", pa.array([QUERY]), [uuid.UUID(QUERY)]),
    ("int[]", pa.array([[1, None], [], None]), [[1, None], [], None]),
    ("text[]", pa.array([["a,b", 'c"\\', "NULL", "", None]]), None),
    ("numeric[]", pa.array([[Decimal("1.5")]]), [[Decimal("1.5")]]),
    ("timestamptz[]", pa.array([[NOW]], pa.list_(pa.timestamp("us", "UTC"))), None),
    ("int[]", pa.array([[[1, 2], [3, 4]]]), [[[1, 2], [3, 4]]]),
    ("bytea[]", pa.array([[b"\x00\xff"]]), [[b"\x00\xff"]]),
    ("boolean[]", pa.array([[True, None]]), [[True, None]]),
]


@pytest.mark.parametrize(("kind", "array", "expected"), VALUES, ids=lambda value: str(value)[:12])
def test_values_arrive_as_they_were(
    url: str, database: Database, kind: str, array: pa.Array, expected: list[Any] | None
) -> None:
    database.execute(f"CREATE TABLE t (place int, value {kind})".encode())
    batch = pa.RecordBatch.from_arrays([pa.array(range(len(array))), array], ["place", "value"])
    publish(BatchContext(QUERY, 0, options(url)), [stage(options(url), batch)])
    database.execute("SET TimeZone = 'UTC'")
    found = [value for _, value in rows(database)]
    assert found == (array.to_pylist() if expected is None else expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("smallint", 40_000),
        ("int", "one"),
        ("numeric(3,1)", Decimal("123.4")),
        ("uuid", "no"),
        ("date", "2026-02-30"),
        ("jsonb", "{"),
        ("varchar(2)", "abc"),
        ("text", "a\x00b"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_column(
    url: str, database: Database, kind: str, value: Any
) -> None:
    database.execute(f"CREATE TABLE t (fine int, price {kind})".encode())
    with pytest.raises(psycopg.DataError, match=r"column price|line 1\b"):
        write(options(url), 0, {"fine": [1], "price": [value]})
    assert rows(database) == []


def test_a_column_that_the_table_has_not(url: str, database: Database) -> None:
    database.execute("CREATE TABLE t (n int)")
    with pytest.raises(psycopg.errors.UndefinedColumn, match='column "m" does not exist'):
        write(options(url), 0, {"m": [1]})
