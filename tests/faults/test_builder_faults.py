"""Built sources and sinks while their driver is killed at any moment."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle, islice, pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests.query_process import wait_until
from tests.faults.builder_driver import run_query
from tests.faults.builder_sink import POINTS, TASKS_FAIL, connected
from tests.faults.builder_sources import TICKETS
from tests.faults.spare_driver import SECONDS, SpareDriver

DRIVER = Path(__file__).with_name("builder_driver.py")
KILLS = 10
MOMENTS = (*POINTS, "any time", "while it starts")  # the first three are around the commit


@contextmanager
def posting(directory: Path) -> Iterator[list[int]]:
    """Post the letters 0, 1, 2 and so on until the end of the block, and count them."""
    stopping, posted = threading.Event(), list[int]()
    (directory / "letters").mkdir()

    def post() -> None:
        while not stopping.wait(0.01):
            (directory / "letters" / str(len(posted))).touch()
            posted.append(len(posted))

    thread = threading.Thread(target=post)
    thread.start()
    try:
        yield posted
    finally:
        stopping.set()
        thread.join()


class Service:
    """A query that is killed and started again; the next driver's Spark is up by then."""

    def __init__(self, directory: Path, cleanup: ExitStack) -> None:
        self.directory, self._cleanup = directory, cleanup
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
        """Kill all processes, or only the driver: its workers notice later."""
        if all_of_it:
            driver.close()
        else:
            driver.kill()
        for file in self.directory.glob("halt*"):
            file.unlink()
        self.record_offsets()

    def wait_for(self, what: str, source: str, rows: int) -> None:
        wait_until(lambda: len(self.rows(source)) >= rows, SECONDS, what)

    def rows(self, source: str) -> list[tuple[str, int]]:
        """Return what the sink has committed."""
        with closing(connected(self.directory)) as database:
            asked = "SELECT who, number FROM rows WHERE source = ? ORDER BY rowid"
            return database.execute(asked, (source,)).fetchall()

    def offsets(self) -> list[list[str]]:
        """Return, by source, the offsets of all batches, in order."""
        batches = [self._offsets[batch] for batch in sorted(self._offsets)]
        return [list(of_source) for of_source in zip(*batches, strict=True)]

    def record_offsets(self) -> None:
        """Spark writes a batch's offsets once: what a crash leaves is what the restart reads."""
        for file in (self.directory / "checkpoint" / "offsets").glob("[0-9]*"):
            _, _, *sources = file.read_text().splitlines()
            assert self._offsets.setdefault(int(file.name), sources) == sources

    def _start(self, number: int) -> SpareDriver:
        words = (self.directory / f"driver-{number}", self.directory)
        return self._cleanup.enter_context(SpareDriver(DRIVER, *words, **{TASKS_FAIL: "yes"}))


@pytest.mark.soak
def test_builders_resume_after_kills(spark: SparkSession, tmp_path: Path) -> None:
    """Test sources that can seek, cannot seek, or acknowledge, with a sink that commits.

    The last driver here is the session of the tests, which reads the logs to their ends.
    """
    with posting(tmp_path) as posted:
        with ExitStack() as cleanup:
            service = Service(tmp_path, cleanup)
            for moment in islice(cycle(MOMENTS), KILLS):
                _run_and_kill(service, moment)
        query = run_query(spark, tmp_path)
    service.wait_for("all letters", "mailbox", len(posted))
    query.stop()
    assert run_query(spark, tmp_path, availableNow=True).awaitTermination(SECONDS)
    service.record_offsets()
    _check_rows(service, len(posted))
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


def _check_rows(service: Service, posted: int) -> None:
    """Check that no row is duplicated, and only a source that cannot seek has lost some."""
    for index in (0, 1):
        numbers = [number for who, number in service.rows("counter") if who == str(index)]
        assert sorted(numbers) == list(range(index, index + 2 * len(numbers), 2))
    tickets = [number for _, number in service.rows("tickets")]
    taken = (service.directory / "machine").stat().st_size
    assert max(Counter(tickets).values()) == 1
    assert taken - TICKETS * (KILLS + 1) <= len(tickets) <= taken
    assert sorted(number for _, number in service.rows("mailbox")) == list(range(posted))
    assert list(service.directory.glob("*.staged")), "no task was repeated"


def _check_never_back(offsets: list[str]) -> None:
    for before, after in pairwise(json.loads(offset) for offset in offsets if offset != "-"):
        assert before["log"] == after["log"]
        assert all(before[number] <= after[number] for number in before if number != "log")
