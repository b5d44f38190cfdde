"""Messages of `pgoutput`, the decoder that PostgreSQL's own replicas read: bytes to columns.

The formats: "Logical Replication Message Formats" in PostgreSQL's manual, protocol version 1. A
loop in Python takes longer for a value than the server does to send it; so NumPy parses some
thousand messages at once, column by column.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEGIN, RELATION = b"BR"
INSERT, UPDATE, DELETE, TRUNCATE = b"IUDT"
NEW = ord("N")  # the tuple that follows is the new row, and not the old one or its key
ABSENT, TEXT, UNCHANGED = 0, *b"tu"  # kinds of values; a null is of another one
EPOCH = 946_684_800_000_000  # 2000-01-01, in microseconds since 1970
# Of a transaction: where its commit is in the log, its number, when it was; in BEGIN, at a place.
TRANSACTION = ((">u8", 1), (">u4", 17), (">i8", 9))
PADDING = bytes(8)  # a number may be looked up behind the last message, where it is not used


@dataclass(frozen=True)
class Relation:
    """A table as it was when the change was made: its columns' names and types."""

    oid: int
    columns: tuple[str, ...]
    types: tuple[int, ...]


class Chunk:
    """Some messages, one behind the other in `data`; `at` is where each begins."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.data = b"".join([*messages, PADDING])
        sizes = np.array([len(message) for message in messages])
        self.at = np.cumsum(sizes) - sizes
        self.kinds = self.numbers("u1", self.at)

    def numbers(self, form: str, at: Numbers) -> Numbers:
        """The numbers of this form at these places, which are no multiples of anything."""
        count = len(self.data) - np.dtype(form).itemsize + 1
        return np.ndarray(count, form, self.data, strides=(1,))[at].astype(np.int64)

    def values(self, at: Numbers, present: Mask, columns: int) -> tuple[Numbers, Numbers]:
        """The values of the tuples `at` these places, and where the tuples end.

        By column, then the kind, the first and the last place of the text; then by row.
        """
        values, at = [], np.where(present, at + 2, 0)  # behind the number of columns
        for _ in range(columns):
            kinds = np.where(present, self.numbers("u1", at), ABSENT)
            size = np.where(kinds == TEXT, self.numbers(">u4", at + 1) + 4, 0)
            values.append([kinds, at + 5, at + 1 + size])
            at = at + 1 + size
        return np.array(values), at


@dataclass(frozen=True)
class Changes:
    """Changes of one table, in their order; `positions`, `ids` and `committed` are of the commits.

    `committed` is in microseconds since 1970.
    """

    chunk: Chunk
    relation: Relation
    kinds: Numbers
    at: Numbers
    positions: Numbers
    ids: Numbers
    committed: Numbers

    def between(self, start: int, end: int) -> Changes:
        """Those whose transactions were committed there."""
        few = (start <= self.positions) & (self.positions < end)
        numbers = (self.kinds, self.at, self.positions, self.ids, self.committed)
        return Changes(self.chunk, self.relation, *(each[few] for each in numbers))

    def oids(self) -> Numbers:
        return self.chunk.numbers(">u4", self.at + np.where(self.kinds == TRUNCATE, 6, 1))

    def tuples(self) -> tuple[Numbers, Numbers]:
        """The rows before and after, as `Chunk.values` tells; `ABSENT` where there is none.

        Before is what the table's REPLICA IDENTITY provides: by default only a key that has
        changed.
        """
        chunk, columns, is_row = self.chunk, len(self.relation.columns), self.kinds != TRUNCATE
        is_old = is_row & (chunk.numbers("u1", self.at + 5) != NEW)
        first, end = chunk.values(self.at + 6, is_row, columns)
        second, _ = chunk.values(end + 1, is_old & (self.kinds == UPDATE), columns)
        before, after = np.where(is_old, first, 0), np.where(is_old, second, first)
        is_same = (after[:, :1] == UNCHANGED) & (before[:, :1] == TEXT)
        return before, np.where(is_same, before, after)

    def texts(self, values: Numbers) -> list[bytes | None]:
        """A column's."""
        data = self.chunk.data
        return [
            data[start:end] if kind == TEXT else None
            for kind, start, end in zip(*values.tolist(), strict=True)
        ]


class Decoder:
    """Makes changes of messages; remembers what they said of the table, and the transaction.

    A change of a table with another oid has `Changes.oids`, and nothing else that is of use.
    """

    def __init__(self, oid: int) -> None:
        self._relation = Relation(oid, (), ())
        self._transaction = np.zeros((len(TRANSACTION), 1), np.int64)

    def changes(self, messages: Sequence[bytes]) -> Iterator[Changes]:
        """Of the next messages, at least one. Transactions come in the order of their commits."""
        chunk = Chunk(messages)
        transactions = self._transactions(chunk)
        relations = np.flatnonzero(chunk.kinds == RELATION).tolist()
        is_change = np.isin(chunk.kinds, (INSERT, UPDATE, DELETE, TRUNCATE))
        for first, end in pairwise([0, *relations, len(messages)]):
            if chunk.kinds[first] == RELATION:
                found = _relation(messages[first])
                self._relation = found if found.oid == self._relation.oid else self._relation
            rows = first + np.flatnonzero(is_change[first:end])
            if len(rows):
                kinds, at = chunk.kinds[rows], chunk.at[rows]
                yield Changes(chunk, self._relation, kinds, at, *transactions[:, rows])

    def _transactions(self, chunk: Chunk) -> Numbers:
        """That of each message: three rows, see `TRANSACTION`."""
        is_begin = chunk.kinds == BEGIN
        begins = chunk.at[is_begin]
        found = np.array([chunk.numbers(form, begins + place) for form, place in TRANSACTION])
        found[2] += EPOCH
        known = np.concatenate([self._transaction, found], axis=1)
        self._transaction = known[:, -1:]
        return known[:, np.cumsum(is_begin)]


def _relation(message: bytes) -> Relation:
    """Behind its oid: schema, name, identity; of each column flags, name, type, modifier."""
    [oid] = struct.unpack_from(">I", message, 1)
    _, _, rest = message[5:].split(b"\0", 2)
    names, types, at = list[str](), list[int](), 3
    for _ in range(struct.unpack_from(">H", rest, 1)[0]):
        end = rest.index(0, at + 1)
        names.append(rest[at + 1 : end].decode())
        types += struct.unpack_from(">I", rest, end + 1)
        at = end + 9
    return Relation(oid, tuple(names), tuple(types))
