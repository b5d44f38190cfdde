"""Format `postgres` under the conformance kit, against a real server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.services.databases import new_database
from tutorial_pkg.connectors.postgres import PostgresDataSource
from tutorial_pkg.processes.services import Postgres
from tutorial_pkg.testing import LIMIT, StreamSink, StreamSource
from tutorial_pkg.testing.classes import StreamSinkTests, StreamSourceTests

FEW = 1_000  # rows
ONE_TASK = {"other_parallelism": "a batch is read by one task"}


class OnServer:
    """`describe` is called for each trial, by the kit, so the server comes by way of the class."""

    server: Postgres

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_server(cls, postgres: Postgres) -> None:
        cls.server = postgres


class TestAppend(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        url = new_database(self.server)
        database = psycopg.connect(url, autocommit=True)
        database.execute("CREATE TABLE t (value text)")

        def read() -> list[str]:
            return [value for (value,) in database.execute("SELECT value FROM t")]

        options = {"url": url, "table": "t"}
        return StreamSink(PostgresDataSource, read, options, close=database.close)


class TestInsertedRows(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        url = new_database(self.server)
        database = psycopg.connect(url, autocommit=True)
        # Every other row was rolled back, as it were: keys have gaps.
        database.execute(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (INCREMENT BY 1000) PRIMARY KEY,"
            " value int)"
        )
        return StreamSource(
            PostgresDataSource,
            {"url": url, "table": "t", "key": "id", "awaitWriters": "true"},
            feed=lambda numbers: insert(database, numbers),
            limit={"maxRowsPerTrigger": LIMIT},
            not_claimed=ONE_TASK,
            close=database.close,
        )


class TestChanges(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        url = new_database(self.server)
        database = psycopg.connect(url, autocommit=True)
        database.execute("CREATE TABLE t (value int PRIMARY KEY)")
        name = conninfo_to_dict(url)["dbname"]
        # The kit feeds while the query starts: some rows are in the snapshot, others are changes.
        return StreamSource(
            PostgresDataSource,
            {"url": url, "table": "t", "slot": name, "snapshot": "true"},
            number="after.value",
            feed=lambda numbers: insert(database, numbers),
            limit={"maxRowsPerTrigger": LIMIT},
            not_claimed=ONE_TASK,
            close=database.close,
        )


def insert(database: psycopg.Connection, numbers: Sequence[int]) -> None:
    """Each row in a transaction of its own; of very many, a thousand together."""
    size = 1 if len(numbers) <= FEW else FEW
    for first in range(0, len(numbers), size):
        rows = [[number] for number in numbers[first : first + size]]
        with database.transaction(), database.cursor() as cursor:
            cursor.executemany("INSERT INTO t (value) VALUES (%s)", rows)
