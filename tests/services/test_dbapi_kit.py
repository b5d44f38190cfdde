"""`SinkBuilder.dbapi` under the conformance kit, with PostgreSQL and DuckDB."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest

from spark_connector_tests import StreamSink
from spark_connector_tests.classes import StreamSinkTests
from spark_connector_tests.query_process import wait_until
from tests.services.databases import new_database
from tests.services.test_postgres_kit import TYPES, Client, OnServer
from tutorial_pkg import SinkBuilder
from tutorial_pkg.builder import REQUIRED, BatchContext, OptionValues, dbapi_sink, not_empty

COLUMNS = ", ".join(f"{name} {kind}" for name, (_, kind) in TYPES.items())
NAMES = ", ".join(("value", *TYPES))
SPARK_TYPES = {name: kind for name, (kind, _) in TYPES.items()}


def sink_for(connect: Callable[..., Any], insert: Any = dbapi_sink.insert_rows) -> Any:
    builder = SinkBuilder.dbapi("dbapi", lambda options: connect(options.db), insert)
    builder.option("db", not_empty, REQUIRED, "the database").also_batch()
    return builder.retry(psycopg.OperationalError, duckdb.IOException).build()


@pytest.mark.soak
class TestPostgres(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        url = new_database(self.server)
        database = Client(url)
        database.connection.execute(f"CREATE TABLE t (value text, {COLUMNS})".encode())
        return StreamSink(
            sink_for(lambda url: psycopg.connect(url, autocommit=True)),
            lambda: list(database.alive().execute(f"SELECT {NAMES} FROM t".encode())),
            {"db": url, "table": "t"},
            types=SPARK_TYPES,
            server=self.as_server,
            close=database.close,
        )


def insert_arrow(cursor: Any, table: str, batch: Any) -> None:
    cursor.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")


@pytest.mark.soak
class TestDuckdb(StreamSinkTests):
    """One process at a time can open the file: a driver waits for the test, and the other way."""

    def describe(self, folder: Path) -> StreamSink:
        file = str(folder / "duck.db")

        @contextmanager
        def opened() -> Iterator[Any]:
            while True:
                try:
                    with closing(duckdb.connect(file)) as database:
                        yield database
                        return
                except duckdb.IOException:
                    time.sleep(0.01)

        def read() -> list[Any]:
            with opened() as database:
                return list(database.execute(f"SELECT {NAMES} FROM t").fetchall())

        with opened() as database:
            database.execute(f"CREATE TABLE t (value text, {COLUMNS})")
        options = {"db": file, "table": "t"}
        return StreamSink(
            sink_for(lambda file: duckdb.connect(file), insert_arrow),
            read,
            options,
            types=SPARK_TYPES,
        )


def test_second_driver_of_a_batch_is_refused(url: str) -> None:
    """It waits for the first one's transaction, whose record it then finds."""
    batch = pa.RecordBatch.from_pydict({"id": [1, 2], "item": ["a", None]})
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE t (id int, item text)")

    def publish(insert: Any = dbapi_sink.insert_rows) -> None:
        context = BatchContext("q-1", 0, OptionValues(table="t"))
        connect = lambda options: psycopg.connect(url)  # noqa: E731
        dbapi_sink.publish(connect, insert, None, context, [[batch]])

    def insert_beside_another(cursor: Any, table: str, rows: Any) -> None:
        second = pool.submit(publish)
        with psycopg.connect(url, autocommit=True) as database:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            wait_until(lambda: database.execute(waiting).fetchone() == (1,), 60, "a second driver")
        seconds.append(second)
        dbapi_sink.insert_rows(cursor, table, rows)

    seconds: list[Any] = []
    with ThreadPoolExecutor() as pool:
        publish(insert_beside_another)
        with pytest.raises(psycopg.errors.UniqueViolation):
            seconds[0].result(60)
    publish()
    with psycopg.connect(url) as database:
        assert database.execute("SELECT * FROM t ORDER BY id").fetchall() == [(1, "a"), (2, None)]
