"""Format `postgres` under the conformance kit, against a real server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from tests.services.databases import new_database
from tutorial_pkg.connectors.postgres import PostgresDataSource
from workbook.services import Postgres

FEW = 1_000  # rows
# Of Spark, and of the table.
TYPES = {
    "yes": ("BOOLEAN", "boolean"),
    "small": ("INT", "integer"),
    "large": ("LONG", "bigint"),
    "share": ("DOUBLE", "double precision"),
    "price": ("DECIMAL(12,3)", "numeric(12,3)"),
    "raw": ("BINARY", "bytea"),
    "day": ("DATE", "date"),
    "moment": ("TIMESTAMP", "timestamptz"),
}
KEYED = {"equal_rows": "a batch has each key at most once", "nulls": "a key has no nulls"}
ONE_TASK = {"other_parallelism": "a batch is read by one task"}


class OnServer:
    """Passes the server to `describe`, which the kit calls for each trial."""

    server: Postgres
    as_server: Server

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_server(cls, postgres: Postgres) -> None:
        cls.server = postgres
        cls.as_server = Server(postgres.kill, postgres.restart, lambda: family(postgres))


def family(server: Postgres) -> list[int]:
    """Return the ids of all its processes."""
    parent = psutil.Process(server.pid)
    return [process.pid for process in (parent, *parent.children(recursive=True))]


class Client:
    """A connection in autocommit mode that reconnects after the server was away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.connect()

    def connect(self) -> None:
        self.connection = psycopg.connect(self._url, autocommit=True)

    def alive(self) -> psycopg.Connection:
        try:
            self.connection.execute("SELECT")
        except psycopg.OperationalError:
            self.connect()
        return self.connection

    def close(self) -> None:
        self.connection.close()


@pytest.mark.soak
class TestAppend(OnServer, StreamSinkTests):
    mode: ClassVar[dict[str, str]] = {}
    not_claimed: ClassVar[dict[str, str]] = {}

    def describe(self, folder: Path) -> StreamSink:
        url = new_database(self.server)
        database = Client(url)
        columns = ", ".join(f"{name} {kind}" for name, (_, kind) in TYPES.items())
        database.connection.execute(
            f"CREATE TABLE t (value text, {columns}, times int DEFAULT 1)".encode()
        )
        if "key" in self.mode:
            database.connection.execute("CREATE UNIQUE INDEX ON t (value)")
        row = ", ".join(("value", *TYPES))
        seen = f"SELECT {row} FROM t, generate_series(1, times)".encode()

        def read() -> list[tuple[object, ...]]:
            return list(database.alive().execute(seen))

        return StreamSink(
            PostgresDataSource,
            read,
            {"url": url, "table": "t", **self.mode},
            types={name: kind for name, (kind, _) in TYPES.items()},
            not_claimed=self.not_claimed,
            server=self.as_server,
            close=database.close,
        )


@pytest.mark.soak
class TestMerge(TestAppend):
    """A row that is merged twice is counted twice."""

    mode: ClassVar = {"mode": "merge", "key": "value", "merge": "times = old.times + 1"}
    not_claimed: ClassVar = KEYED


@pytest.mark.soak
class TestInsertedRows(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        url = new_database(self.server)
        database = Client(url)
        # Every other row was rolled back, as it were: keys have gaps.
        database.connection.execute(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (INCREMENT BY 1000) PRIMARY KEY,"
            " value int)"
        )
        return StreamSource(
            PostgresDataSource,
            {"url": url, "table": "t", "key": "id", "awaitWriters": "true"},
            feed=lambda numbers: insert(database.alive(), numbers),
            limit={"maxRowsPerTrigger": LIMIT},
            not_claimed=ONE_TASK,
            server=self.as_server,
            close=database.close,
        )


@pytest.mark.soak
class TestChanges(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        url = new_database(self.server)
        database = Client(url)
        database.connection.execute("CREATE TABLE t (value int PRIMARY KEY)")
        name = conninfo_to_dict(url)["dbname"]
        # The kit feeds while the query starts: some rows are in the snapshot, others are changes.
        return StreamSource(
            PostgresDataSource,
            {"url": url, "table": "t", "slot": name, "snapshot": "true"},
            number="after.value",
            feed=lambda numbers: insert(database.alive(), numbers),
            limit={"maxRowsPerTrigger": LIMIT},
            not_claimed={
                **ONE_TASK,
                "from_the_first_row": "a slot is one query's",
                "batch_read": "changes are read by a stream only",
            },
            server=self.as_server,
            close=database.close,
        )


def insert(database: psycopg.Connection, numbers: Sequence[int]) -> None:
    """Insert one row per transaction, or a thousand if there are very many."""
    size = 1 if len(numbers) <= FEW else FEW
    for first in range(0, len(numbers), size):
        rows = [[number] for number in numbers[first : first + size]]
        with database.transaction(), database.cursor() as cursor:
            cursor.executemany("INSERT INTO t (value) VALUES (%s)", rows)
