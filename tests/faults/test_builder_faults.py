"""Built sources and sinks while their driver is killed at any moment."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import cycle, islice, pairwise
from pathlib import Path
from types import TracebackType

import nats
import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tests.faults.builder_driver import run_query
from tests.faults.builder_sink import POINTS, TASKS_FAIL, connected
from tests.faults.builder_sources import STREAM, SUBJECT, TICKETS
from tests.faults.spare_driver import SECONDS, SpareDriver

DRIVER = Path(__file__).with_name("builder_driver.py")
KILLS = 10
MOMENTS = (*POINTS, "any time", "while it starts")  # the first three are around the commit


class Broker:
    """A NATS server with JetStream, and a thread that publishes 0, 1, 2 and so on to it."""

    def __init__(self, directory: Path, port: int) -> None:
        self.port, self.published = port, 0
        program = Path(sys.executable).with_name("nats-server")
        words = ["-js", "-sd", str(directory), "-a", "127.0.0.1", "-p", str(port)]
        self._log = (directory.parent / "nats.log").open("wb")
        self._server = subprocess.Popen([program, *words], stderr=self._log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._publish()))

    def __enter__(self) -> Broker:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop_publishing()
        self._server.kill()
        self._server.wait()
        self._log.close()

    def stop_publishing(self) -> None:
        self._stopping.set()
        self._thread.join()

    async def _publish(self) -> None:
        client = await self._connected()
        broker = client.jetstream()
        await broker.add_stream(name=STREAM, subjects=[SUBJECT])
        while not self._stopping.is_set():
            for _ in range(5):
                await broker.publish(SUBJECT, str(self.published).encode())
                self.published += 1
            await asyncio.sleep(0.05)
        await client.close()

    async def _connected(self) -> nats.NATS:
        for _ in range(200):
            with suppress(OSError, nats.errors.NoServersError):
                return await nats.connect(f"nats://127.0.0.1:{self.port}", connect_timeout=1)
            await asyncio.sleep(0.05)
        raise TimeoutError("the NATS server did not start")


@pytest.fixture
def broker(tmp_path: Path, free_ports) -> Iterator[Broker]:
    with Broker(tmp_path / "nats", free_ports(1)) as opened:
        wait_until(lambda: opened.published, 60, "the broker's start")
        yield opened


class Service:
    """A query that is killed and started again; the next driver's Spark is up by then."""

    def __init__(self, directory: Path, nats_port: int, cleanup: ExitStack) -> None:
        self.directory = directory
        self._nats_port, self._cleanup = nats_port, cleanup
        self._drivers = (self._start(number) for number in range(KILLS))
        self._spare = next(self._drivers)
        self._offsets: dict[int, list[str]] = {}

    def run(self) -> SpareDriver:
        """Start the query, and another driver for the next time."""
        driver = self._spare
        driver.go()
        self._spare = next(self._drivers, driver)
        return driver

    def kill(self, driver: SpareDriver, all_of_it: bool) -> None:
        """As if the machine had failed, or only the driver: its workers notice later."""
        if all_of_it:
            driver.close()
        else:
            driver.kill()
        for file in self.directory.glob("halt*"):
            file.unlink()
        self.note_offsets()

    def wait_for(self, what: str, source: str, rows: int) -> None:
        wait_until(lambda: len(self.rows(source)) >= rows, SECONDS, what)

    def rows(self, source: str) -> list[tuple[str, int]]:
        """What the sink has committed."""
        with closing(connected(self.directory)) as database:
            asked = "SELECT who, number FROM rows WHERE source = ? ORDER BY rowid"
            return database.execute(asked, (source,)).fetchall()

    def offsets(self) -> list[list[str]]:
        """By source, those of all batches that there have ever been, in their order."""
        batches = [self._offsets[batch] for batch in sorted(self._offsets)]
        return [list(of_source) for of_source in zip(*batches, strict=True)]

    def note_offsets(self) -> None:
        """Spark writes a batch's offsets once: what a crash leaves is what the restart reads."""
        for file in (self.directory / "checkpoint" / "offsets").glob("[0-9]*"):
            _, _, *sources = file.read_text().splitlines()
            assert self._offsets.setdefault(int(file.name), sources) == sources

    def _start(self, number: int) -> SpareDriver:
        words = (self.directory / f"driver-{number}", self.directory, self._nats_port)
        return self._cleanup.enter_context(SpareDriver(DRIVER, *words, **{TASKS_FAIL: "yes"}))


@pytest.mark.soak
def test_builders_resume_after_kills(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    """Test sources that can seek, cannot seek, or acknowledge, with a sink that commits.

    Notebooks 09 and 10 kill one source and one sink. The last driver here is the session of the
    tests, which reads the logs to their ends.
    """
    with ExitStack() as cleanup:
        service = Service(tmp_path, broker.port, cleanup)
        for moment in islice(cycle(MOMENTS), KILLS):
            _run_and_kill(service, moment)
    query = run_query(spark, tmp_path, broker.port)
    broker.stop_publishing()
    service.wait_for("all messages", "mailbox", broker.published)
    query.stop()
    assert run_query(spark, tmp_path, broker.port, availableNow=True).awaitTermination(SECONDS)
    service.note_offsets()
    _check_rows(service, broker.published)
    for positions in service.offsets():
        _check_never_back(positions)


def _run_and_kill(service: Service, moment: str) -> None:
    if moment in POINTS:
        (service.directory / f"halt {moment}").touch()
    rows = len(service.rows("counter"))
    driver = service.run()
    if moment in POINTS:
        wait_until((service.directory / "halted").exists, SECONDS, f"the commit, {moment}")
    elif moment == "any time":
        service.wait_for("new rows", "counter", rows + 1)
    time.sleep(random.uniform(0, 1) if moment not in POINTS else 0)
    service.kill(driver, all_of_it=moment in POINTS or random.random() < 0.5)


def _check_rows(service: Service, published: int) -> None:
    """Check that no row is duplicated, and only a source that cannot seek has lost some."""
    assert {who for who, _ in service.rows("counter")} == {"0", "1"}
    for name in ("counter", "forgetful"):  # this one starts over in each run, with a new name
        for who, numbers in _by_who(service.rows(name)).items():
            first = int(who.split()[-1])
            assert numbers == list(range(first, first + 2 * len(numbers), 2))
    tickets = [number for _, number in service.rows("tickets")]
    taken = (service.directory / "machine").stat().st_size
    assert max(Counter(tickets).values()) == 1
    assert taken - TICKETS * (KILLS + 1) <= len(tickets) <= taken
    assert Counter(number for _, number in service.rows("mailbox")) == Counter(range(published))
    assert list(service.directory.glob("*.staged")), "no task was repeated"


def _by_who(rows: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for who, number in sorted(rows):
        found.setdefault(who, []).append(number)
    return found


def _check_never_back(offsets: list[str]) -> None:
    for before, after in pairwise(json.loads(offset) for offset in offsets if offset != "-"):
        assert before["log"] == after["log"]
        assert all(before[number] <= after[number] for number in before if number != "log")
