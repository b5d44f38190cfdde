"""Built sources of a driver that is killed: their rows say who added them, and a number."""

from __future__ import annotations

import os
import time
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from tutorial_pkg.builder import Buffer, SourceBuilder, SourceContext

SCHEMA = "who STRING, number LONG"
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


class Ticket:
    """Cannot seek: a number that was taken from the file `machine` is never issued again."""

    def __init__(self, machine: Path) -> None:
        self.file = os.open(machine, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def fill(self, buffer: Buffer) -> None:
        for _ in range(TICKETS):
            os.write(self.file, b".")
            buffer.add(("ticket", os.fstat(self.file).st_size - 1))
            time.sleep(0.004)


class Mailbox:
    """Acknowledges: letters with numbers stay in a folder until they are deleted.

    Those up to `last` are in the log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.last = folder, -1

    def fill(self, buffer: Buffer) -> None:
        for number in sorted(int(letter.name) for letter in self.folder.iterdir())[:FETCHED]:
            if number <= self.last:
                self.acknowledge([number])
            else:
                buffer.add(("letter", number), token=number)
                self.last = number

    def acknowledge(self, numbers: list[int]) -> None:
        for number in numbers:
            (self.folder / str(number)).unlink()

    def restore(self, snapshots: list[int]) -> None:
        [self.last] = snapshots


def builders(directory: Path) -> list[Any]:
    counter = SourceBuilder.stream("counter", SCHEMA, Counter).fill(Counter.fill).distributed(2)
    counter.snapshot(lambda state: state.next).restore(Counter.restore)
    machine, letters = directory / "machine", directory / "letters"
    tickets = SourceBuilder.stream("tickets", SCHEMA, lambda context: Ticket(machine))
    mailbox = SourceBuilder.stream("mailbox", SCHEMA, lambda context: Mailbox(letters))
    mailbox.fill(Mailbox.fill).acknowledge(Mailbox.acknowledge)
    mailbox.snapshot(lambda state: state.last).restore(Mailbox.restore)
    return [counter, tickets.fill(Ticket.fill), mailbox]


def all_rows(spark: SparkSession, directory: Path) -> DataFrame:
    """Return all sources in one stream: columns `source`, `who` and `number`."""
    streams = []
    for builder in builders(directory):
        source = builder.build()
        spark.dataSource.register(source)
        rows = spark.readStream.format(source.name()).load(str(directory / source.name()))
        streams.append(rows.select(lit(source.name()).alias("source"), "who", "number"))
    return reduce(DataFrame.union, streams)
