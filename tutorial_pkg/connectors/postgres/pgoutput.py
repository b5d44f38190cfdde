"""Messages of `pgoutput`, the decoder that PostgreSQL's own replicas read: bytes to changes.

The formats: "Logical Replication Message Formats" in PostgreSQL's manual, protocol version 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
NUMBERS = {form: struct.Struct(f">{form}") for form in "BHIiQq"}  # all of them are big-endian
COUNT, SIZE = NUMBERS["H"], NUMBERS["I"]
TEXT, NULL = b"tn"


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
        """The next number, of one of `NUMBERS`."""
        [value] = NUMBERS[form].unpack_from(self._data, self._at)
        self._at += NUMBERS[form].size
        return int(value)

    def taken(self, count: int) -> bytes:
        self._at += count
        return self._data[self._at - count : self._at]

    def text(self) -> str:
        end = self._data.index(0, self._at)
        return self.taken(end + 1 - self._at)[:-1].decode()

    def tuple(self) -> Tuple:
        """In one loop: nearly all of a log is values."""
        data, at, values = self._data, self._at + COUNT.size, list[Value]()
        for _ in range(COUNT.unpack_from(data, self._at)[0]):
            kind, at = data[at], at + 1
            if kind == TEXT:
                end = at + SIZE.size + SIZE.unpack_from(data, at)[0]
                values.append(data[at + SIZE.size : end])
                at = end
            else:
                values.append(None if kind == NULL else Unchanged)
        self._at = at
        return values


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
                for change in self._changes(message):
                    yield transaction, change

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
