"""Messages of `pgoutput`, the decoder behind PostgreSQL's own replication, parsed into columns.

The formats: "Logical Replication Message Formats" in PostgreSQL's manual, protocol version 1. NumPy
parses some thousand messages at once, column by column: 200,000 rows with three columns take 0.1 s,
a plain loop over messages and values 0.2 s, and the whole micro-batch about 0.5 s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEGIN, RELATION = b"BR"
INSERT, UPDATE, DELETE, TRUNCATE = b"IUDT"
NEW = ord("N")  # the tuple that follows is the new row; otherwise it is the old row or its key
ABSENT, TEXT, UNCHANGED = 0, *b"tu"  # kinds of values; nulls are of the kind `n`
EPOCH = 946_684_800_000_000  # 2000-01-01, in microseconds since 1970
# The fields of BEGIN with their offsets: LSN of the commit, transaction id, time of the commit.
TRANSACTION = ((">u8", 1), (">u4", 17), (">i8", 9))
PADDING = bytes(8)  # lets lookups run past the last message; their results aren't used


class Chunk:
    """Some messages, concatenated in `data`; `at` has the offset of each one."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.data = b"".join([*messages, PADDING])
        sizes = np.array([len(message) for message in messages])
        self.at = np.cumsum(sizes) - sizes
        self.kinds = self.numbers("u1", self.at)

    def numbers(self, form: str, at: Numbers) -> Numbers:
        """Return the numbers of this form at these (unaligned) offsets."""
        count = len(self.data) - np.dtype(form).itemsize + 1
        return np.ndarray(count, form, self.data, strides=(1,))[at].astype(np.int64)

    def values(self, at: Numbers, present: Mask, columns: int) -> tuple[Numbers, Numbers]:
        """Return the values of the tuples at these offsets, and the offsets where the tuples end.

        The values are indexed by column; then kind, start and end of the text; then row.
        """
        values, at = [], np.where(present, at + 2, 0)  # after the number of columns
        for _ in range(columns):
            kinds = np.where(present, self.numbers("u1", at), ABSENT)
            size = np.where(kinds == TEXT, self.numbers(">u4", at + 1) + 4, 0)
            values.append([kinds, at + 5, at + 1 + size])
            at = at + 1 + size
        return np.array(values), at


@dataclass(frozen=True)
class Changes:
    """Changes of one table, in order."""

    chunk: Chunk
    columns: tuple[str, ...]  # of the table when the changes were made
    kinds: Numbers
    at: Numbers
    positions: Numbers  # of the commits
    ids: Numbers  # of the transactions
    committed: Numbers  # in microseconds since 1970

    def oids(self) -> Numbers:
        """Return the changed table of each; other tables than the decoder's can't be parsed."""
        return self.chunk.numbers(">u4", self.at + np.where(self.kinds == TRUNCATE, 6, 1))

    def tuples(self) -> tuple[Numbers, Numbers]:
        """Return the rows before and after, like `Chunk.values`; missing rows are `ABSENT`."""
        chunk, columns, is_row = self.chunk, len(self.columns), self.kinds != TRUNCATE
        is_old = is_row & (chunk.numbers("u1", self.at + 5) != NEW)
        first, end = chunk.values(self.at + 6, is_row, columns)
        second, _ = chunk.values(end + 1, is_old & (self.kinds == UPDATE), columns)
        before, after = np.where(is_old, first, 0), np.where(is_old, second, first)
        is_same = (after[:, :1] == UNCHANGED) & (before[:, :1] == TEXT)
        return before, np.where(is_same, before, after)

    def texts(self, values: Numbers) -> list[bytes | None]:
        data = self.chunk.data
        return [
            data[start:end] if kind == TEXT else None
            for kind, start, end in zip(*values.tolist(), strict=True)
        ]


class Decoder:
    """Turns messages into changes of one table that were committed from `start` up to `end`.

    It remembers the table's columns and the open transaction.
    """

    def __init__(self, oid: int, start: int, end: int) -> None:
        self._oid, self._start, self._end = oid, start, end
        self._columns: tuple[str, ...] = ()
        self._transaction = np.zeros((len(TRANSACTION), 1), np.int64)

    def changes(self, messages: Sequence[bytes]) -> Iterator[Changes]:
        """Decode the next messages (at least one). Transactions arrive in commit order."""
        chunk = Chunk(messages)
        transactions = self._transactions(chunk)
        is_change = np.isin(chunk.kinds, (INSERT, UPDATE, DELETE, TRUNCATE))
        is_change &= (self._start <= transactions[0]) & (transactions[0] < self._end)
        relations = np.flatnonzero(chunk.kinds == RELATION).tolist()
        for first, end in pairwise([0, *relations, len(messages)]):
            if chunk.kinds[first] == RELATION:
                self._note_columns(messages[first])
            rows = first + np.flatnonzero(is_change[first:end])
            if len(rows):
                kinds, at = chunk.kinds[rows], chunk.at[rows]
                yield Changes(chunk, self._columns, kinds, at, *transactions[:, rows])

    def _transactions(self, chunk: Chunk) -> Numbers:
        """Return the transaction of each message, as three rows: see `TRANSACTION`."""
        is_begin = chunk.kinds == BEGIN
        begins = chunk.at[is_begin]
        started = np.array([chunk.numbers(form, begins + offset) for form, offset in TRANSACTION])
        started[2] += EPOCH
        known = np.concatenate([self._transaction, started], axis=1)
        self._transaction = known[:, -1:]
        return known[:, np.cumsum(is_begin)]

    def _note_columns(self, message: bytes) -> None:
        """Parse the oid; schema, name, identity; for each column flags, name, type, modifier."""
        if int.from_bytes(message[1:5]) != self._oid:
            return
        _, _, rest = message[5:].split(b"\0", 2)
        names, rest = list[str](), rest[3:]
        while rest:
            name, rest = rest[1:].split(b"\0", 1)
            names.append(name.decode())
            rest = rest[8:]
        self._columns = tuple(names)
