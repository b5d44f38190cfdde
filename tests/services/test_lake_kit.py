"""Formats `objects` and `delta_py` under the conformance kit, on a real S3 server."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_connector_tests import LIMIT, Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from tests.unit.objects.folders import options_of, rows
from tutorial_pkg import DeltaDataSource, ObjectsDataSource
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.store import Store
from workbook.services import ServerProcess

pytestmark = pytest.mark.soak  # more than a minute each; notebook 16 has a quick proof
FEW = 1_000  # rows


class OnServer:
    """`describe` is called for each trial, by the kit, so the server comes by way of the class."""

    server: ServerProcess
    as_server: Server

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_server(cls, s3: ServerProcess) -> None:
        cls.server = s3
        cls.as_server = Server(s3.kill, s3.restart, lambda: [s3.pid])

    def place(self) -> dict[str, str]:
        url = f"s3://lake/{uuid.uuid4().hex}"
        place = {"path": url, "endpoint": self.server.uri}
        Store(options_of(url, WRITE, endpoint=self.server.uri), url).write("_there", b"")
        return place


class TestLines(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        place = self.place()
        store = Store(options_of(place["path"], WRITE, endpoint=place["endpoint"]), place["path"])

        def feed(numbers: Sequence[int]) -> None:
            """An object each; of very many, a thousand together. Names do not grow."""
            size = 1 if len(numbers) <= FEW else FEW
            for first in range(0, len(numbers), size):
                lines = "".join(f"{number}\n" for number in numbers[first : first + size])
                store.write(f"{uuid.uuid4().hex}.txt", lines.encode())

        return StreamSource(
            ObjectsDataSource,
            {**place, "lookSeconds": 0},
            feed=feed,
            limit={"maxFilesPerTrigger": LIMIT},
            other_parallelism={"parallelism": 7},
            server=self.as_server,
        )


class TestAppendedRows(OnServer, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        place = self.place()
        settings = {"endpoint": place["endpoint"], "allow_http": "true"}
        empty = pa.table({"value": pa.array([], pa.int64())})
        write_deltalake(place["path"], empty, storage_options=settings)

        def feed(numbers: Sequence[int]) -> None:
            size = LIMIT if len(numbers) <= FEW else FEW
            for first in range(0, len(numbers), size):
                column = pa.array(numbers[first : first + size], pa.int64())
                table = pa.table({"value": column})
                write_deltalake(place["path"], table, mode="append", storage_options=settings)

        return StreamSource(
            DeltaDataSource,
            place,
            feed=feed,
            limit={"maxVersionsPerTrigger": 1},
            not_claimed={"other_parallelism": "a stream keeps the number of tasks it began with"},
            server=self.as_server,
        )


class TestManifests(OnServer, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        place = self.place()

        def read() -> list[Any]:
            found = rows(place["path"], endpoint=place["endpoint"], format="parquet")
            return [row["value"] for row in found]

        return StreamSink(ObjectsDataSource, read, place, server=self.as_server)


class TestDeltaAppend(OnServer, StreamSinkTests):
    more: ClassVar[dict[str, str]] = {}
    not_claimed: ClassVar[dict[str, str]] = {}

    def describe(self, folder: Path) -> StreamSink:
        place = self.place()
        settings = {"endpoint": place["endpoint"], "allow_http": "true"}

        def read() -> list[Any]:
            if not DeltaTable.is_deltatable(place["path"], settings):
                return []
            table = DeltaTable(place["path"], storage_options=settings)
            return list(table.to_pyarrow_table().column("value").to_pylist())

        return StreamSink(
            DeltaDataSource,
            read,
            {**place, **self.more},
            server=self.as_server,
            not_claimed=self.not_claimed,
        )


class TestDeltaUpsert(TestDeltaAppend):
    more: ClassVar = {"mode": "upsert", "key": "value"}
    not_claimed: ClassVar = {
        "equal_rows": "a batch has each key at most once",
        "nulls": "a key has no nulls",
    }
