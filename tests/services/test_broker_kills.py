"""Drivers and the NATS server are killed while numbers go through; both ends are compared."""

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
        """With ids, so that none is there twice when it is tried again."""
        try:
            self._streams.ask(partial(publish, numbers))
        except (OSError, TimeoutError, asyncio.CancelledError, nats.errors.Error):
            return False  # the client cancels what waits when its server dies
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

    def found(self) -> dict[str, Counter[str]]:
        """Return the contents of each end."""
        return {
            "files": items_in(self._folder / "queue" / "out"),
            "stream": Counter(self.streams.values(OUT)),
            "topic": Counter(self.topics.values(OUT)),
        }

    def have(self, driver: SpareDriver, each: Counter[str]) -> bool:
        """Whether all of `each` are at every end. Fails when the driver has ended.

        Of the stream only the number is looked at: NATS tells it, and to read it takes long.
        """
        assert driver.running, driver.output.read_text()[-3000:]
        return (
            self.streams.left(OUT) >= len(each)
            and items_in(self._folder / "queue" / "out").keys() >= each.keys()
            and self._in_topic() >= each.keys()
        )

    def _in_topic(self) -> set[str | None]:
        """Nothing, as long as the broker that stood still does not answer for a partition."""
        try:
            return set(self.topics.values(OUT))
        except TimeoutError:
            return set()

    def trouble(self) -> None:
        """Kill NATS, and have the other broker, which keeps all in memory, stand still."""
        kafka = psutil.Process(self._kafka.pid)
        kafka.suspend()
        self._nats.kill()
        kafka.resume()
        self._nats.restart()


def numbers(count: int) -> Counter[str]:
    return Counter(map(str, range(count)))


KILLS = 8


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
            wait_for(pipelines, driver, writer.sent)
            spare = pipelines.driver(number)  # not earlier: two that start at once starve workers
            pipelines.trouble()
            wait_for(pipelines, driver, writer.sent)
            time.sleep(chance.uniform(0, 0.5))  # somewhere in the next batch
            driver.kill()
        writer.stop()
        spare.go()
        wait_for(pipelines, spare, writer.sent)
        found = pipelines.found()
    assert writer.sent > KILLS * PORTION
    doubled = found.pop("topic")  # at least once
    assert doubled.keys() == numbers(writer.sent).keys()
    assert found == dict.fromkeys(found, numbers(writer.sent))


def wait_for(pipelines: Pipelines, driver: SpareDriver, count: int) -> None:
    """Until what had been sent is at every end."""
    wanted = numbers(count)
    wait_until(lambda: pipelines.have(driver, wanted), SECONDS, f"{count} numbers at every end")
