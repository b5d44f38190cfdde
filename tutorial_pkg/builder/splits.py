"""Splits and positions of a replayable source: what its functions say, limits, pieces for tasks."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import GeneratorType
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import Position, Split, SplitContext
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.json_text import read_json
from tutorial_pkg.core.read_limit import Limits, Taken, shared

Positions = dict[str, Position]  # an offset: by split, the next unread position

_QUOTED = 80
LEAST_ROWS = 1_000  # of a piece: to read fewer takes less time than to start a task


@dataclass
class SplitPartition(InputPartition):
    """One task's work: a split's rows from `start` up to `end`."""

    split: str
    start: Position
    end: Position
    identity: str = ""
    payload: Any = None


@dataclass(frozen=True)
class Page:
    """What a cursor source has in a split from `start` to `end`, where the next page begins."""

    split: str
    start: Any
    end: Any
    batches: list[pa.RecordBatch]

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class SplitCalls:
    """The functions, what they share, and the check of what they return. All raise `FunctionError`.

    `connect` is called when a function is, for the first time: so in the process that needs it.
    """

    def __init__(
        self, functions: Functions, context: SplitContext, has_identities: bool = False
    ) -> None:
        self._functions = functions
        self._retries = functions.retries.of(context.options)
        self._context = replace(context, retries=self._retries)
        self._has_identities = has_identities
        self._is_open = False

    # ---- Where splits are

    def look(self, offset: Positions | None = None) -> dict[str, Split]:
        """Return the current splits, by their keys in an offset.

        Raises `LookupError` for lost rows of splits with an identity, or logs a warning.
        """
        known = offset and {self.name_of(key): at for key, at in offset.items()}
        answer = self._ask("look", "the source", offset=known)
        with self._functions.blamed("look", "the source"):
            splits = {name: self._split(name, split) for name, split in _mapped(answer).items()}
        seen = {_key(name, split): split for name, split in splits.items()}
        if offset:
            for loss in self._losses(offset, seen):
                self._context.lost(f"format `{self._functions.format}`: split {loss}")
        return seen

    def _split(self, name: str, answer: Any) -> Split:
        split = answer if isinstance(answer, Split) else _pair(name, answer)
        before(_position(split.first), _position(split.end))
        if split.identity and not self._has_identities:
            raise ValueError(
                f"split `{name}` has an identity, so the query needs to know what to do about lost "
                "rows: add `.options(FAIL_ON_DATA_LOSS)` to the source"
            )
        if "@" in (split.identity or (name if self._has_identities else "")):
            raise ValueError(f"`@` separates a split's name from its identity, got {answer!r}")
        if split.payload is not None and not self._context.batch:
            raise ValueError(f"split `{name}` has a payload; a stream's splits have none")
        return split

    def _losses(self, offset: Positions, seen: dict[str, Split]) -> Iterator[str]:
        """Say of which splits rows are gone that the query has not read."""
        names = {self.name_of(key) for key in seen}
        for key, at in offset.items():
            if self.identity_of(key) and self.name_of(key) not in names:
                yield f"`{self.name_of(key)}` does not exist any more; its next position was {at!r}"
        for key, split in seen.items():
            if not split.identity:
                continue
            name, position = self.name_of(key), offset.get(key)
            if position is None and self._has_predecessor(name, offset):
                yield f"`{name}` was deleted and re-created; its identity is {split.identity} now"
            elif position is not None and before(position, split.first):
                yield f"`{name}` begins at {split.first!r} now; the next position was {position!r}"
            elif position is not None and before(split.end, position):
                yield f"`{name}` ends at {split.end!r} now; the next position was {position!r}"

    def _has_predecessor(self, name: str, offset: Positions) -> bool:
        return any(self.name_of(key) == name and self.identity_of(key) for key in offset)

    def entry(self, key: str, split: Split, offset: Positions) -> Position:
        """Return where a new split enters the offset.

        Its name alone may be there, from a version of the source that had no identities.
        """
        name = self.name_of(key)
        continues = split.identity and name in offset and not self._has_predecessor(name, offset)
        return offset[name] if continues else split.first

    def name_of(self, key: str) -> str:
        """Return the split's name, without its identity."""
        return key.rpartition("@")[0] or key if self._has_identities else key

    def identity_of(self, key: str) -> str:
        name, _, identity = key.rpartition("@")
        return identity if name and self._has_identities else ""

    # ---- Batches of a stream

    def bounded(self, start: Positions, end: Positions, limits: Limits) -> Positions:
        """Return how far one batch goes towards `end`: at least a row of each split with rows."""
        waiting = {split: _distance(start[split], end[split]) for split in end}

        def take(split: str, share: Limits) -> Taken:
            rows = None if share.rows is None else max(1, share.rows)
            reached = self._bound(split, start[split], end[split], rows)
            return Taken(reached, 0 if rows is None else self._rows(start[split], reached, rows))

        return end | shared({split: n for split, n in waiting.items() if n}, limits, take)

    def _bound(self, key: str, begin: Position, end: Position, rows: int | None) -> Position:
        """Return where a batch of this many rows ends in one split."""
        name, identity = self.name_of(key), self.identity_of(key)
        if "bound" in self._functions:
            who = _who(name)
            reached = self._ask("bound", who, name, begin, end, rows, identity=identity)
            with self._functions.blamed("bound", who):
                if before(_position(reached), begin):
                    return begin
                return end if before(end, reached) else reached
        if rows is None:
            return end
        if isinstance(begin, str) or isinstance(end, str):
            raise ValueError(
                f"format `{self._functions.format}`: split `{name}` is at {begin!r}, and positions "
                "that are strings cannot count rows; add a `.bound(...)` that returns where a "
                "batch of that many rows ends"
            )
        return min(end, begin + rows)

    def _rows(self, begin: Position, end: Position, most: int) -> int:
        """Return how many of its share a split has taken."""
        if "bound" in self._functions or isinstance(begin, str) or isinstance(end, str):
            return most
        return end - begin

    def commit(self, positions: Positions) -> None:
        """Tell the source that Spark has recorded everything before these positions as done."""
        if "commit" in self._functions:
            by_name = {self.name_of(key): position for key, position in positions.items()}
            self._ask("commit", "the source", by_name)

    def drain(self) -> None:
        """Have the next look see where the query ends."""
        self._context = replace(self._context, draining=True)

    # ---- Tasks

    def parts(self, start: Positions, end: Positions) -> list[SplitPartition]:
        """Return a part for each split that has new rows."""
        return [
            SplitPartition(self.name_of(key), start[key], position, self.identity_of(key))
            for key, position in end.items()
            if key in start and before(start[key], position)
        ]

    def read(self, part: SplitPartition, packer: RowPacker) -> Iterator[pa.RecordBatch]:
        """Yield a part's rows; start over after a transient error while Spark has none of them."""
        with closing_with(self.close):
            yield from self._retries.begun(lambda: self._read(part, Buffer(packer)), self.close)

    def _read(self, part: SplitPartition, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        context = replace(self._open(), identity=part.identity, payload=part.payload)
        with self._functions.blamed("read", _who(part.split)):
            read = self._functions.given["read"]
            for row in _rows(read(context, part.split, part.start, part.end)):
                _add(row, buffer)
                yield from buffer.packed()
            yield from buffer.take()[0]

    # ---- Pages

    def begins(self, positions: dict[str, Any]) -> dict[str, Any]:
        """The splits of a cursor source that there are now, with the positions of first pages."""
        found = self._ask("splits", "the source", offset=positions)
        with self._functions.blamed("splits", "the source"):
            return {split: _plain(first) for split, first in _named(found, None).items()}

    def page(self, split: str, position: Any, packer: RowPacker) -> Page:
        """The page at `position`; the next one must begin behind its rows, or they come again."""
        return self._retries.patiently(lambda: self._page(split, position, packer), self.close)

    def _page(self, split: str, position: Any, packer: RowPacker) -> Page:
        who = f"{_who(split)} at position {position!r}"
        asked = _plain(position)  # its own, which it may change
        found = self._functions.call("read", who, self._open(), split, asked)
        with self._functions.blamed("read", who):
            rows, following = _page(found)
            buffer = Buffer(packer)
            for row in _rows(rows):
                _add(row, buffer)
            page = Page(split, position, _plain(following), buffer.take()[0])
            if page.rows and page.end == position:
                raise ValueError(_SAME_POSITION)
            if page.end in (None, "") and (page.rows or position not in (page.end, None)):
                raise ValueError(_NO_POSITION.format(end=page.end))
            return page

    def close(self) -> None:
        """Close what `connect` opened in this process."""
        connection, was_open = self._context.connection, self._is_open
        self._context, self._is_open = replace(self._context, connection=None), False
        if was_open and "close" in self._functions:
            self._functions.call("close", "the source", connection)

    def _ask(self, name: str, who: str, *arguments: Any, **also: Any) -> Any:
        """Call a function; again, on a new connection, after an error that may pass.

        `also` goes into its context. It may change what it is told, so that is its own each time.
        """

        def once() -> Any:
            own, more = copy.deepcopy((arguments, also))
            return self._functions.call(name, who, replace(self._open(), **more), *own)

        return self._retries.patiently(once, self.close)

    def _open(self) -> SplitContext:
        if not self._is_open and "connect" in self._functions:
            options = copy.deepcopy(self._context.options)  # which it may change
            opened = self._functions.call("connect", "the source", options)
            self._context = replace(self._context, connection=opened)
        self._is_open = True
        return self._context


def pieces(parts: list[SplitPartition], count: int) -> list[SplitPartition]:
    """Cut parts whose positions are numbers, into about `count` in all."""
    share = -(-count // max(1, len(parts)))  # rounded up
    return [piece for part in parts for piece in _cut(part, share)]


def _cut(part: SplitPartition, count: int) -> list[SplitPartition]:
    if isinstance(part.start, str) or isinstance(part.end, str):
        return [part]
    size = max(LEAST_ROWS, -(-(part.end - part.start) // count))
    bounds = [*range(part.start, part.end, size), part.end]
    return [replace(part, start=start, end=end) for start, end in pairwise(bounds)]


def _who(split: str) -> str:
    """For errors: some names hold a whole plan."""
    return f"split `{_short(split)}`"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…"


def _distance(begin: Position, end: Position) -> int:
    """About how much there is; only whether there is something, if nobody can count it."""
    if isinstance(begin, int) and isinstance(end, int):
        return max(0, end - begin)
    return int(before(begin, end))


def _rows(answer: Any) -> Iterator[Any]:
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
            f"`read` yields and returns {_short(returned)}, which would be lost: yield it, too"
        )


def _add(found: Any, buffer: Buffer) -> None:
    if isinstance(found, pa.RecordBatch):
        buffer.add_batch(found)
    else:
        buffer.add(found)


def _key(name: str, split: Split) -> str:
    """Return the split's key in an offset."""
    return f"{name}@{split.identity}" if split.identity else name


def _mapped(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise TypeError(f"expected a dict of splits by name, got {_short(answer)}")
    if "" in answer:
        raise ValueError(f"a split needs a name that is not empty, got {_short(answer)}")
    return dict(answer)


def _pair(name: str, answer: Any) -> Split:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"split `{name}`: expected a Split or (first, end), got {_short(answer)}")
    return Split(*answer)


def _named(found: Any, first: Any) -> dict[str, Any]:
    """The splits that `splits` has named, with their first positions."""
    names = list(found)
    named = dict(found) if isinstance(found, Mapping) else dict.fromkeys(names, first)
    if isinstance(found, str) or any(not name or not isinstance(name, str) for name in named):
        raise TypeError(
            "a list of texts, none of them empty, is wanted, or a dict with a first position for "
            f"each, got {found!r}"
        )
    if len(named) < len(names):
        raise ValueError(f"each split needs a name of its own, got {_short(names)}")
    return named


def _position(value: Any) -> Position:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"a position is an integer or a string, got {value!r}")
    return value


def _plain(position: Any) -> Any:
    """A cursor's position as a checkpoint gives it back: a tuple is a list then."""
    return read_json(json.dumps(position, allow_nan=False))


def _page(found: Any) -> tuple[Any, Any]:
    if isinstance(found, tuple) and len(found) == 2:
        return found
    raise TypeError(f"return the rows, as a list, and the next position: got {_short(found)}")


_SAME_POSITION = (
    "the page has rows, but the next position is the same, so they would come again and again; "
    "return one that is after them: of a page that still grows, say, its number and how many of "
    "its rows were there"
)
_NO_POSITION = (
    "the next position is {end!r}, where a source begins; at the end of what there is now return "
    "no rows and the same position, and after a last page one from which it can go on"
)


def before(one: Position, other: Position) -> bool:
    """Whether `one` comes before `other`. Raises `TypeError` for a number and a text."""
    if isinstance(one, str) and isinstance(other, str):
        return one < other
    if isinstance(one, int) and isinstance(other, int):
        return one < other
    raise TypeError(f"positions of one split must be of one type, got {one!r} and {other!r}")
