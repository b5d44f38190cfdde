"""Built sources made to be killed: as a script, all of them at once until the end of the process.

Arguments: a directory, and the port of a NATS server.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
from nats.js.api import ConsumerConfig
from pyspark.sql.datasource import DataSource

from tests.stream_runs import NUMBER, running
from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext, integer, not_empty

SUBJECT, STREAM = "numbers", "NUMBERS"
FETCHED = 50


class Counter:
    """Can seek: the numbers that are `index` modulo `count`."""

    def __init__(self, context: SourceContext) -> None:
        self.next, self.step = context.index, context.count

    def fill(self, buffer: Buffer) -> None:
        for _ in range(7):
            buffer.add(self.next)
            self.next += self.step
        time.sleep(0.002)


def counter() -> type[DataSource]:
    def restore(state: Counter, snapshots: list[int]) -> None:
        state.next = next(number for number in snapshots if number % 2 == state.next % 2)

    builder = SourceBuilder.stream("counter", NUMBER, Counter).fill(Counter.fill).distributed(2)
    return builder.snapshot(lambda state: state.next).restore(restore).build()


class Ticket:
    """Cannot seek: who takes a number from this machine has it, and it never comes again."""

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def fill(self, buffer: Buffer) -> None:
        for _ in range(5):
            os.write(self.file, b".")
            buffer.add(os.fstat(self.file).st_size - 1)
            time.sleep(0.0005)


def tickets() -> type[DataSource]:
    builder = SourceBuilder.stream("tickets", NUMBER, lambda context: Ticket(context.options.file))
    return builder.fill(Ticket.fill).option("file", not_empty, "", "the machine").build()


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
            buffer.add(int(message.data), token=message)
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


def mailbox() -> type[DataSource]:
    builder = SourceBuilder.stream("mailbox", NUMBER, Mailbox).fill(Mailbox.fill)
    builder = builder.snapshot(Mailbox.snapshot).restore(Mailbox.restore)
    builder = builder.acknowledge(Mailbox.acknowledge).destroy(Mailbox.destroy)
    return builder.option("natsPort", integer(1), 4222, "of the broker").build()


def all_sources(
    directory: Path, nats_port: int
) -> dict[str, tuple[type[DataSource], dict[str, Any]]]:
    return {
        "counter": (counter(), {}),
        "tickets": (tickets(), {"file": directory / "machine"}),
        "mailbox": (mailbox(), {"natsPort": nats_port}),
    }


def main(directory: str, nats_port: str) -> None:
    with ExitStack() as opened:
        sources = all_sources(Path(directory), int(nats_port))
        runs = [
            opened.enter_context(running(source, Path(directory) / name, **options))
            for name, (source, options) in sources.items()
        ]
        begins = [run.latest() for run in runs]
        while any(run.latest() == begin for run, begin in zip(runs, begins, strict=True)):
            time.sleep(0.01)
        print("all have added something", flush=True)
        while all(run.latest() for run in runs):
            time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
