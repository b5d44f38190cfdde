"""Drivers and the NATS server are killed while numbers pass through; both ends are compared."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import nats
import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.faults.log_account import items_in
from tests.faults.spare_driver import SECONDS, SpareDriver
from tests.services.broker_driver import IN, OUT
from tests.services.kafka_topics import Topics
from tests.services.nats_streams import Streams
from workbook.services import start_kafka, start_nats

DRIVER = Path(__file__).with_name("broker_driver.py")
KILLS = 8
PORTION, PAUSE_SECONDS = 20, 0.2  # a slow machine must be able to keep up


class Writer(threading.Thread):
    """Sends 0, 1, 2 and so on to both brokers, also while a server is away."""

    def __init__(self, topics: Topics, streams: Streams) -> None:
        super().__init__(daemon=True)
        self._topics, self._streams = topics, streams
        self._stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            numbers = range(self.sent, self.sent + PORTION)
            self._topics.send(IN, numbers)
            wait_until(lambda numbers=numbers: self._published(numbers), SECONDS, "the stream")
            self.sent += PORTION
            self._stopping.wait(PAUSE_SECONDS)

    def _published(self, numbers: range) -> bool:
        """Publish with ids, so a retry makes no duplicates."""
        try:
            self._streams.ask(partial(publish, numbers))
        except (OSError, TimeoutError, asyncio.CancelledError, nats.errors.Error):
            return False  # the client cancels its requests when its server dies
        return True

    def stop(self) -> None:
        self._stopping.set()
        self.join()


async def publish(numbers: range, broker: Any) -> None:
    for number in numbers:
        await broker.publish(f"{IN}.x", b"%d" % number, headers={"Nats-Msg-Id": str(number)})


class Pipelines:
    """From a topic to a stream, from a stream to a topic, and from a work queue to files."""

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self._folder, self._cleanup = folder, cleanup
        self._kafka = cleanup.enter_context(start_kafka(folder / "kafka"))
        self._nats = cleanup.enter_context(start_nats(folder / "nats"))
        self.topics, self.streams = Topics(self._kafka.uri), Streams(self._nats.uri)
        for name in (IN, OUT):
            self.topics.make(name, 2)
            self.streams.make(name, duplicate_window=3600)

    def driver(self, number: int) -> SpareDriver:
        path = self._folder / f"driver-{number}"
        brokers = self._kafka.uri, self._nats.uri
        return self._cleanup.enter_context(SpareDriver(DRIVER, path, self._folder, *brokers))

    def contents(self) -> dict[str, Counter[str]]:
        return {
            "files": items_in(self._folder / "queue" / "out"),
            "stream": Counter(self.streams.values(OUT)),
            "topic": Counter(self.topics.values(OUT)),
        }

    def wait_for(self, driver: SpareDriver, count: int) -> None:
        """Return when all ends have the first numbers. Fails if the driver ends."""
        expected = {str(number) for number in range(count)}

        def complete() -> bool:
            assert driver.running, driver.output.read_text()[-3000:]
            return (
                self.streams.left(OUT) >= count  # reading the stream takes long
                and items_in(self._folder / "queue" / "out").keys() >= expected
                and self._in_topic() >= expected
            )

        wait_until(complete, SECONDS, f"{count} numbers at every end")

    def _in_topic(self) -> set[str | None]:
        """Return nothing while the broker, which was suspended, doesn't respond."""
        try:
            return set(self.topics.values(OUT))
        except TimeoutError:
            return set()

    def make_trouble(self) -> None:
        """Kill NATS, and suspend the other broker, which keeps its topics in memory."""
        kafka = psutil.Process(self._kafka.pid)
        kafka.suspend()
        self._nats.kill()
        kafka.resume()
        self._nats.restart()


@pytest.mark.soak
def test_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    chance = random.Random(20261122)
    with ExitStack() as cleanup:
        pipelines = Pipelines(tmp_path, cleanup)
        writer = Writer(pipelines.topics, pipelines.streams)
        writer.start()
        cleanup.callback(writer.stop)
        spare = pipelines.driver(0)
        for number in range(1, KILLS + 1):
            driver = spare
            driver.go()
            pipelines.wait_for(driver, writer.sent)
            spare = pipelines.driver(number)  # not earlier: two that start at once starve workers
            pipelines.make_trouble()
            pipelines.wait_for(driver, writer.sent)
            time.sleep(chance.uniform(0, 0.5))  # somewhere in the next batch
            driver.kill()
        writer.stop()
        spare.go()
        pipelines.wait_for(spare, writer.sent)
        contents = pipelines.contents()
    assert writer.sent > KILLS * PORTION
    once = Counter(map(str, range(writer.sent)))
    assert contents.pop("topic").keys() == once.keys()  # at least once
    assert contents == {"files": once, "stream": once}
