"""`SinkBuilder.dbapi` without Spark: what one transaction writes into SQLite and DuckDB."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tutorial_pkg.builder import BatchContext, OptionValues, SinkBuilder, dbapi_sink

ROWS = [(1, "a"), (2, "ä'%s"), (3, None)]
BATCH = pa.RecordBatch.from_pydict({"item": [text for _, text in ROWS], "id": [1, 2, 3]})


@pytest.fixture(params=[sqlite3.connect, duckdb.connect], ids=["sqlite", "duckdb"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Any], Any]:
    with closing(request.param(str(tmp_path / "db"))) as database:
        database.execute("CREATE TABLE items (id INTEGER NOT NULL, item VARCHAR)")
        database.commit()
    return lambda *_: request.param(str(tmp_path / "db"))


def publish(
    connect: Any, number: int, batches: list[Any], insert: Any = dbapi_sink.insert_rows, **more: Any
) -> None:
    context = BatchContext("q-1", number, OptionValues(table="items"), **more)
    dbapi_sink.publish(connect, insert, "BEGIN", context, [batches, []])


def rows(connect: Any) -> list[Any]:
    with closing(connect()) as database:
        return sorted(database.execute("SELECT id, item FROM items").fetchall())


def test_batch_is_written_once(connect: Any) -> None:
    for number in (0, 0, 1, 7, 7):
        publish(connect, number, [BATCH])
    assert rows(connect) == sorted(ROWS * 3, key=lambda row: row[0])
    with closing(connect()) as database:
        records = database.execute(f"SELECT * FROM {dbapi_sink.RECORDS}").fetchall()
    assert records == [("q-1", "items", 7, 3)]


@pytest.mark.parametrize(("number", "batches"), [(3, [BATCH]), (4, [BATCH, BATCH]), (4, [])])
def test_checkpoint_set_back_is_an_error(connect: Any, number: int, batches: list[Any]) -> None:
    publish(connect, 4, [BATCH])
    with pytest.raises(ValueError, match="table `items` already has this query's batches up to 4"):
        publish(connect, number, batches)
    assert rows(connect) == ROWS


def test_failed_insert_leaves_neither_rows_nor_record(connect: Any) -> None:
    null = pa.RecordBatch.from_pydict({"id": pa.array([None], pa.int64()), "item": ["x"]})
    for _ in range(2):
        with pytest.raises(Exception, match=r"(?i)NOT NULL constraint failed"):
            publish(connect, 0, [BATCH, null])
        assert rows(connect) == []
    publish(connect, 0, [BATCH])
    assert rows(connect) == ROWS


def test_complete_mode_replaces_rows(connect: Any) -> None:
    publish(connect, 0, [BATCH, BATCH])
    publish(connect, 1, [BATCH], overwrite=True)
    assert rows(connect) == ROWS


@pytest.mark.parametrize("connect", [sqlite3.connect], indirect=True)
def test_placeholders_follow_the_module(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "paramstyle", "named")
    publish(connect, 0, [BATCH])
    assert rows(connect) == ROWS


@pytest.mark.parametrize("connect", [sqlite3.connect], indirect=True)
def test_role_that_creates_no_tables_can_write(connect: Any) -> None:
    def restricted(*_: Any) -> Any:
        database = connect()
        database.set_authorizer(lambda action, *_: action == sqlite3.SQLITE_CREATE_TABLE)
        return database

    publish(connect, 0, [])
    publish(restricted, 1, [BATCH])
    assert rows(connect) == ROWS


def test_names_reach_sql_only_if_plain(connect: Any) -> None:
    odd = BATCH.rename_columns(["item) SELECT 1 --", "id"])
    with pytest.raises(ValueError, match="rename them"):
        publish(connect, 0, [odd])
    sink: Any = SinkBuilder.dbapi("db", sqlite3.connect).build()
    for table in ("a.b.c", "a; b", "", "1a"):
        with pytest.raises(ValueError, match="option `table` must be"):
            sink({"table": table}).values()
    assert sink({"table": "shop.items"}).values().table == "shop.items"
