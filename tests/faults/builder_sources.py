"""Built sources of a driver that is killed: their rows say who added them, and a number."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import nats
from nats.js.api import ConsumerConfig
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext, integer, not_empty

SCHEMA = "who STRING, number LONG"
SUBJECT, STREAM = "numbers", "NUMBERS"
TICKETS, FETCHED = 5, 50


class Counter:
    """Can seek: instance `index` has the numbers that are `index` modulo `count`."""

    def __init__(self, context: SourceContext) -> None:
        self.who, self.next, self.step = str(context.index), context.index, context.count

    def fill(self, buffer: Buffer) -> None:
        for _ in range(7):
            buffer.add((self.who, self.next))
            self.next += self.step
        time.sleep(0.02)

    def restore(self, snapshots: list[int]) -> None:
        self.next = next(number for number in snapshots if number % 2 == self.next % 2)


class Forgetful(Counter):
    """The same without a snapshot: each run of each instance counts from its beginning."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.who = f"{time.time_ns()} {context.index}"


class Ticket:
    """Cannot seek: a number that was taken from this machine is never issued again."""

    def __init__(self, context: SourceContext) -> None:
        self.file = os.open(context.options.machine, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def fill(self, buffer: Buffer) -> None:
        for _ in range(TICKETS):
            os.write(self.file, b".")
            buffer.add(("ticket", os.fstat(self.file).st_size - 1))
            time.sleep(0.004)


class Mailbox:
    """Acknowledges: messages of a broker, which sends again what was not acknowledged.

    Sequence numbers tell what is in the log already: all up to `last`, and those in `ahead`.
    """

    def __init__(self, context: SourceContext) -> None:
        self.last, self.ahead = 0, set[int]()
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._connect(context.options.natsPort))

    async def _connect(self, port: int) -> None:
        self.client = await nats.connect(f"nats://127.0.0.1:{port}")
        config = ConsumerConfig(ack_wait=1.0, max_ack_pending=FETCHED)
        broker = self.client.jetstream()
        self.messages = await broker.pull_subscribe(SUBJECT, "spark", STREAM, config=config)

    def fill(self, buffer: Buffer) -> None:
        for message in self.loop.run_until_complete(self._fetch()):
            number = message.metadata.sequence.stream
            if number <= self.last or number in self.ahead:
                self.loop.run_until_complete(message.ack())  # it is in the log
                continue
            buffer.add(("message", int(message.data)), token=message)
            self._saw(number)

    async def _fetch(self) -> list[Any]:
        try:
            return await self.messages.fetch(FETCHED, timeout=0.2)
        except TimeoutError:  # that of nats, or asyncio's
            return []

    def _saw(self, number: int) -> None:
        self.ahead.add(number)
        while self.last + 1 in self.ahead:
            self.last += 1
            self.ahead.remove(self.last)

    def snapshot(self) -> dict[str, Any]:
        return {"last": self.last, "ahead": sorted(self.ahead)}

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        self.last, self.ahead = snapshots[0]["last"], set(snapshots[0]["ahead"])

    def acknowledge(self, messages: list[Any]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(self._acknowledge(messages), 5))

    async def _acknowledge(self, messages: list[Any]) -> None:
        for message in messages:
            await message.ack()
        await self.client.flush()

    def destroy(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


def builders(directory: Path, nats_port: int) -> list[Any]:
    counter = SourceBuilder.stream("counter", SCHEMA, Counter).fill(Counter.fill).distributed(2)
    counter = counter.snapshot(lambda state: state.next).restore(Counter.restore)
    forgetful = SourceBuilder.stream("forgetful", SCHEMA, Forgetful).fill(Forgetful.fill)
    tickets = SourceBuilder.stream("tickets", SCHEMA, Ticket).fill(Ticket.fill)
    tickets = tickets.option("machine", not_empty, str(directory / "machine"), "its file")
    mailbox = SourceBuilder.stream("mailbox", SCHEMA, Mailbox).fill(Mailbox.fill)
    mailbox = mailbox.snapshot(Mailbox.snapshot).restore(Mailbox.restore)
    mailbox = mailbox.acknowledge(Mailbox.acknowledge).destroy(Mailbox.destroy)
    mailbox = mailbox.option("natsPort", integer(1), nats_port, "of the broker")
    return [counter, forgetful.distributed(2), tickets, mailbox]


def all_rows(spark: SparkSession, directory: Path, nats_port: int) -> DataFrame:
    """All sources in one stream: columns `source`, `who` and `number`."""
    found = None
    for builder in builders(directory, nats_port):
        source = builder.build()
        spark.dataSource.register(source)
        rows = spark.readStream.format(source.name()).load(str(directory / source.name()))
        named = rows.select(lit(source.name()).alias("source"), "who", "number")
        found = named if found is None else found.union(named)
    assert found is not None
    return found
