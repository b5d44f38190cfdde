"""Drivers, tasks and the S3 server are killed while numbers pass through; outputs are compared."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import LongType, StructType

from spark_connector_tests.query_process import wait_until
from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.unit.objects.folders import options_of, rows
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.store import Store
from workbook.senders import kill_a_worker
from workbook.services import S3Server

DRIVER = Path(__file__).with_name("lake_driver.py")
NUMBER = StructType().add("number", LongType())
KILLS = 3


class Writer(threading.Thread):
    """Puts 0, 1, 2 and so on into the bucket, even while the server is away."""

    def __init__(self, store: Store) -> None:
        super().__init__(daemon=True)
        self._store, self._stopping, self.sent = store, threading.Event(), 0

    def run(self) -> None:
        while not self._stopping.is_set():
            lines = "".join(f"{number}\n" for number in range(self.sent, self.sent + 13))
            self._store.write(f"in/{uuid.uuid4().hex}", lines.encode())
            self.sent += 13
            self._stopping.wait(0.1)

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Lake:
    """The three outputs in a bucket."""

    def __init__(self, server: S3Server) -> None:
        self.server, self.bucket = server, f"s3://lake/{uuid.uuid4().hex}"
        options = options_of(self.bucket, WRITE, endpoint=server.uri, waitSeconds=SECONDS)
        self.store = Store(options, self.bucket)

    def contents(self) -> dict[str, Counter[int]]:
        written = rows(f"{self.bucket}/objects", NUMBER, endpoint=self.server.uri, format="parquet")
        return {
            "objects": Counter(row["number"] for row in written),
            "appended": self._in_table("appended"),
            "upserted": self._in_table("upserted"),
        }

    def _in_table(self, name: str) -> Counter[int]:
        settings = {"endpoint": self.server.uri, "allow_http": "true"}
        if not DeltaTable.is_deltatable(f"{self.bucket}/{name}", settings):
            return Counter()
        table = DeltaTable(f"{self.bucket}/{name}", storage_options=settings)
        return Counter(table.to_pyarrow_table().column("number").to_pylist())

    def wait_for(self, driver: SpareDriver, count: int) -> dict[str, Counter[int]]:
        """Return the contents of all outputs once they have the first numbers."""

        def complete() -> dict[str, Counter[int]] | None:
            assert driver.running, driver.output.read_text()[-3000:]
            contents, expected = self.contents(), set(range(count))
            return contents if all(c.keys() >= expected for c in contents.values()) else None

        result: dict[str, Counter[int]] = wait_until(complete, SECONDS, f"{count} numbers")
        return result


@pytest.mark.soak
def test_kills_lose_and_duplicate_nothing(tmp_path: Path, s3: S3Server) -> None:
    chance, lake = random.Random(20261123), Lake(s3)
    lake.store.write("in/first", b"")
    with ExitStack() as cleanup:
        writer = Writer(lake.store)
        writer.start()
        cleanup.callback(writer.stop)

        def driver(number: int) -> SpareDriver:
            words = tmp_path / f"driver-{number}", tmp_path, lake.bucket, s3.uri
            return cleanup.enter_context(SpareDriver(DRIVER, *words))

        spare = driver(0)
        for number in range(1, KILLS + 1):
            running = spare
            running.go()
            lake.wait_for(running, writer.sent)
            spare = driver(number)
            kill_a_worker(running)
            s3.kill()
            s3.restart()
            lake.wait_for(running, writer.sent)
            threading.Event().wait(chance.uniform(0, 0.5))  # somewhere in the next batch
            running.kill()
        writer.stop()
        spare.go()
        contents = lake.wait_for(spare, writer.sent)
    assert [*contents.values()] == 3 * [Counter(range(writer.sent))]
