"""Messages of `pgoutput`, the decoder that PostgreSQL's own replicas read: bytes to changes.

The formats: "Logical Replication Message Formats" in PostgreSQL's manual, protocol version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Unchanged:
    """A large value that an UPDATE has left alone, so that it is not in the log."""


Value = bytes | None | type[Unchanged]  # as text, null, or not told
Tuple = list[Value]


@dataclass(frozen=True)
class Relation:
    """A table as it was when the change was made: its columns' names and types."""

    oid: int
    columns: tuple[str, ...]
    types: tuple[int, ...]


@dataclass
class Change:
    """`before` is what the table's REPLICA IDENTITY tells: by default nothing but a changed key."""

    operation: str
    relation: Relation
    before: Tuple | None = None
    after: Tuple | None = None


@dataclass(frozen=True)
class Transaction:
    """`position` is where its commit is in the log."""

    position: int
    id: int
    committed: datetime


class Message:
    """A message, read from left to right."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 1
        self.kind = data[:1]

    def number(self, form: str) -> int:
        """The next number, in `struct`'s words; all of them are big-endian."""
        [value] = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return int(value)

    def taken(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def text(self) -> str:
        end = self._data.index(0, self._at)
        return self.taken(end + 1 - self._at)[:-1].decode()

    def tuple(self) -> Tuple:
        return [self._value() for _ in range(self.number("H"))]

    def _value(self) -> Value:
        kind = self.taken(1)
        if kind == b"t":
            return self.taken(self.number("I"))
        return None if kind == b"n" else Unchanged


class Decoder:
    """Makes changes of messages; remembers the tables that they have told about."""

    def __init__(self) -> None:
        self._relations: dict[int, Relation] = {}

    def changes(self, messages: Iterable[bytes]) -> Iterator[tuple[Transaction, Change]]:
        """One after the other; transactions come whole, in the order of their commits."""
        transaction: Transaction | None = None
        for data in messages:
            message = Message(data)
            if message.kind == b"B":
                transaction = _begin(message)
            elif message.kind == b"R":
                self._relate(message)
            elif transaction:
                yield from ((transaction, change) for change in self._changes(message))

    def _relate(self, message: Message) -> None:
        oid = message.number("I")
        message.text(), message.text(), message.number("B")  # schema, name, replica identity
        columns = [_column(message) for _ in range(message.number("H"))]
        names, types = zip(*columns, strict=True) if columns else ((), ())
        self._relations[oid] = Relation(oid, names, types)

    def _changes(self, message: Message) -> Iterator[Change]:
        if message.kind in (b"I", b"U", b"D"):
            yield self._row_change(message, self._relations[message.number("I")])
        elif message.kind == b"T":
            count = message.number("I")
            message.number("B")  # CASCADE or RESTART IDENTITY
            for _ in range(count):
                yield Change("truncate", self._relations[message.number("I")])

    def _row_change(self, message: Message, relation: Relation) -> Change:
        operation = {b"I": "insert", b"U": "update", b"D": "delete"}[message.kind]
        change, kind = Change(operation, relation), message.taken(1)
        if kind in (b"K", b"O"):  # the old key, or the whole old row
            change.before = message.tuple()
            kind = message.taken(1)
        if kind == b"N":
            change.after = message.tuple()
        return change


def _begin(message: Message) -> Transaction:
    position, micros, transaction = message.number("Q"), message.number("q"), message.number("I")
    return Transaction(position, transaction, EPOCH + timedelta(microseconds=micros))


def _column(message: Message) -> tuple[str, int]:
    message.number("B")  # whether it is of the key
    name, kind = message.text(), message.number("I")
    message.number("i")  # the type's modifier
    return name, kind
