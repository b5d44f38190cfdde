"""Calls the functions of replayable and cursor sources: splits, positions, limits, tasks."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import Position, Split, SplitContext
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.read_limit import Limits, Taken, shared

Positions = dict[str, Position]  # an offset: the next unread position, by the split's key
SOURCE = "the source"  # who fails, in errors
QUOTED = 80  # characters of a value in an error


@dataclass
class SplitPartition(InputPartition):
    """One task's work: a split's rows from `start` up to `end`."""

    split: str
    start: Any
    end: Any
    identity: str = ""
    payload: Any = None


class SplitCalls:
    """Calls functions with their context, again after transient errors. Raises `FunctionError`.

    `connect` runs before the first of them, in each process that needs it.
    """

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        self.functions = functions
        self.retries = functions.retries.of(context.options)
        self.context = replace(context, retries=self.retries)
        self._is_open = False

    def ask(self, name: str, who: str, *arguments: Any, **more: Any) -> Any:
        """Call a function beside the driver. `more` goes into its context.

        Each call gets copies of its arguments, which it may change.
        """

        def once() -> Any:
            own, also = copy.deepcopy((arguments, more))
            return self.functions.call(name, who, replace(self.open(), **also), *own)

        return self.retries.patiently(once, self.close)

    def read(self, part: SplitPartition, packer: RowPacker) -> Iterator[pa.RecordBatch]:
        """Yield a part's rows; start over after a transient error while Spark has none of them."""
        with closing_with(self.close):
            yield from self.retries.begun(lambda: self._read(part, Buffer(packer)), self.close)

    def _read(self, part: SplitPartition, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        context = replace(self.open(), identity=part.identity, payload=part.payload)
        with self.functions.blamed("read", split_text(part.split)):
            read = self.functions.given["read"]
            for row in rows_of(read(context, part.split, part.start, part.end)):
                add(row, buffer)
                yield from buffer.packed()
            yield from buffer.take()[0]

    def open(self) -> SplitContext:
        if not self._is_open and "connect" in self.functions:
            connection = self.functions.call("connect", SOURCE, self.context.options)
            self.context = replace(self.context, connection=connection)
        self._is_open = True
        return self.context

    def close(self) -> None:
        """Close what `connect` opened in this process."""
        connection, was_open = self.context.connection, self._is_open
        self.context, self._is_open = replace(self.context, connection=None), False
        if was_open and "close" in self.functions:
            self.functions.call("close", SOURCE, connection)


class ReplayableCalls(SplitCalls):
    """The splits of a replayable source, and how far a batch goes in each.

    In an offset a split with an identity has the key `name@identity`, others their name.
    """

    def __init__(self, functions: Functions, context: SplitContext, has_identities: bool) -> None:
        super().__init__(functions, context)
        self._has_identities = has_identities

    def name_of(self, key: str) -> str:
        """Return the split's name, without its identity."""
        return key.rpartition("@")[0] or key if self._has_identities else key

    def identity_of(self, key: str) -> str:
        name, _, identity = key.rpartition("@")
        return identity if name and self._has_identities else ""

    def look(self, offset: Positions | None = None) -> dict[str, Split]:
        """Return the current splits by their keys.

        Raises `LookupError` for lost rows of splits with an identity, or logs a warning.
        """
        known = offset and {self.name_of(key): position for key, position in offset.items()}
        answer = self.ask("look", SOURCE, offset=known)
        seen = {}
        with self.functions.blamed("look", SOURCE):
            for name, value in mapped(answer).items():
                split = self._split(name, value)
                seen[f"{name}@{split.identity}" if split.identity else name] = split
        for loss in self._losses(offset or {}, seen):
            self.context.lost(f"format `{self.functions.format}`: split {loss}")
        return seen

    def _split(self, name: str, answer: Any) -> Split:
        split = Split(*answer) if isinstance(answer, tuple) and len(answer) == 2 else answer
        if not isinstance(split, Split):
            raise TypeError(
                f"split `{name}`: expected a Split or (first, end), got {shortened(answer)}"
            )
        before(split.first, split.end)
        if split.identity and not self._has_identities:
            raise ValueError(
                f"split `{name}` has an identity, so the query needs to know what to do about lost "
                "rows: add `.options(FAIL_ON_DATA_LOSS)` to the source"
            )
        if self._has_identities and "@" in (split.identity or name):
            raise ValueError(f"`@` separates a split's name from its identity, got {split!r}")
        return split

    def _losses(self, offset: Positions, seen: dict[str, Split]) -> Iterator[str]:
        """Describe the splits with rows that are gone before the query has read them."""
        names = {self.name_of(key) for key in seen}
        for key, at in offset.items():
            name, split = self.name_of(key), seen.get(key)
            if not self.identity_of(key):
                continue
            if name not in names:
                yield f"`{name}` does not exist any more; its next position was {at!r}"
            elif split and before(at, split.first):
                yield f"`{name}` begins at {split.first!r} now; the next position was {at!r}"
            elif split and before(split.end, at):
                yield f"`{name}` ends at {split.end!r} now; the next position was {at!r}"
        for key in seen.keys() - offset.keys():
            name, identity = self.name_of(key), self.identity_of(key)
            if identity and self._has_predecessor(name, offset):
                yield f"`{name}` was deleted and re-created; its identity is {identity} now"

    def entry(self, key: str, split: Split, offset: Positions) -> Position:
        """Return where a new split enters the offset.

        Its name alone may be there, from a version of the source that had no identities.
        """
        name = self.name_of(key)
        continues = split.identity and name in offset and not self._has_predecessor(name, offset)
        return offset[name] if continues else split.first

    def _has_predecessor(self, name: str, offset: Positions) -> bool:
        return any(self.name_of(key) == name and self.identity_of(key) for key in offset)

    def bounded(self, start: Positions, end: Positions, limits: Limits) -> Positions:
        """Return how far one batch goes towards `end`: at least a row of each split with rows."""

        def take(key: str, share: Limits) -> Taken:
            rows = None if share.rows is None else max(1, share.rows)
            reached = self._bound(key, start[key], end[key], rows)
            counted = "bound" not in self.functions and rows is not None
            return Taken(reached, reached - start[key] if counted else rows or 0)

        waiting = {key: _distance(start[key], end[key]) for key in end}
        return end | shared({key: n for key, n in waiting.items() if n}, limits, take)

    def _bound(self, key: str, start: Any, end: Any, rows: int | None) -> Any:
        """Return where a batch of this many rows ends in one split."""
        name, who = self.name_of(key), split_text(self.name_of(key))
        if "bound" in self.functions:
            identity = self.identity_of(key)
            reached = self.ask("bound", who, name, start, end, rows, identity=identity)
            with self.functions.blamed("bound", who):
                return start if before(reached, start) else end if before(end, reached) else reached
        if rows is not None and isinstance(start, str):
            raise ValueError(
                f"format `{self.functions.format}`: {who} is at {start!r}, and positions that are "
                "strings cannot count rows; add a `.bound(...)` that returns where a batch of that "
                "many rows ends"
            )
        return end if rows is None else min(end, start + rows)

    def commit(self, positions: Positions) -> None:
        """Tell the source that Spark has recorded everything before these positions as done."""
        if "commit" in self.functions:
            by_name = {self.name_of(key): position for key, position in positions.items()}
            self.ask("commit", SOURCE, by_name)

    def parts(self, start: Positions, end: Positions) -> list[SplitPartition]:
        """Return a part for each split that has new rows."""
        return [
            SplitPartition(self.name_of(key), start[key], position, self.identity_of(key))
            for key, position in end.items()
            if key in start and before(start[key], position)
        ]


# ---- What functions return -----------------------------------------------------------------------


def mapped(answer: Any) -> dict[str, Any]:
    """Return splits by name. Raises `TypeError`."""
    if not isinstance(answer, Mapping) or not all(
        name and isinstance(name, str) for name in answer
    ):
        raise TypeError(f"expected a dict of splits by name, got {shortened(answer)}")
    return dict(answer)


def rows_of(answer: Any) -> Iterator[Any]:
    """Yield what `read` has returned. A single row, or columns, would pass for rows in a loop."""
    if isinstance(answer, pa.RecordBatch):
        answer = [answer]
    if isinstance(answer, str | bytes | Mapping) or hasattr(answer, "columns"):
        raise TypeError(
            f"expected a list of rows or a pyarrow.RecordBatch, got {type(answer).__name__}"
        )
    if isinstance(answer, GeneratorType) and answer.gi_frame is None:
        raise ValueError("the generator was consumed before it was returned; return a list")
    returned = yield from answer
    if returned is not None:
        raise TypeError(
            f"`read` yields and returns {shortened(returned)}, which would be lost: yield it, too"
        )


def add(row: Any, buffer: Buffer) -> None:
    if isinstance(row, pa.RecordBatch):
        buffer.add_batch(row)
    else:
        buffer.add(row)


def before(one: Any, other: Any) -> bool:
    """Return whether one position comes before another. Raises `TypeError`."""
    for position in (one, other):
        if isinstance(position, bool) or not isinstance(position, int | str):
            raise TypeError(f"a position is an integer or a string, got {position!r}")
    if isinstance(one, str) != isinstance(other, str):
        raise TypeError(f"positions of one split must be of one type, got {one!r} and {other!r}")
    return bool(one < other)


def _distance(start: Any, end: Any) -> int:
    """Return the approximate number of rows; 1 for some, if positions do not count them."""
    is_counted = isinstance(start, int) and isinstance(end, int)
    return max(0, end - start) if is_counted else int(before(start, end))


def split_text(split: str) -> str:
    return f"split `{shortened(split)}`"


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
