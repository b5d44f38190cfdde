"""Splits and positions of a replayable source: what its functions say, limits, pieces for tasks."""

from __future__ import annotations

import copy
import inspect
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import Position, SplitContext
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

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        self._functions, self._context = functions, context
        self._retries = functions.retries.of(context.options)
        self._firsts: Positions = {}
        self._is_open = False

    def firsts(self, offset: Positions | None = None) -> Positions:
        """The splits that there are now, with their first positions."""
        found = self._ask("splits", "the source", offset=offset)
        with self._functions.blamed("splits", "the source"):
            self._firsts = _first_positions(found)
        return self._firsts

    def newest(self, start: Positions) -> Positions:
        """How far each split goes; one that has vanished, or goes back, stays where it was."""
        begins = {**self.firsts(start), **start}
        return {
            split: self.latest(split, begin) if split in self._firsts else begin
            for split, begin in begins.items()
        }

    def latest(self, split: str, begin: Position) -> Position:
        """How far a split goes, at least up to `begin`."""
        who = _who(split)
        found = self._ask("latest", who, split, begin)
        with self._functions.blamed("latest", who):
            return found if before(begin, _position(found)) else begin

    def bounded(self, start: Positions, end: Positions, limits: Limits) -> Positions:
        """As far towards `end` as one batch goes: at least a row of each split that has some."""
        waiting = {split: _distance(start[split], end[split]) for split in end}

        def take(split: str, share: Limits) -> Taken:
            rows = None if share.rows is None else max(1, share.rows)
            found = self._bound(split, start[split], end[split], rows)
            return Taken(found, 0 if rows is None else self._rows(start[split], found, rows))

        return end | shared({split: n for split, n in waiting.items() if n}, limits, take)

    def _bound(self, split: str, begin: Position, end: Position, rows: int | None) -> Position:
        """Where a batch of this many rows ends in one split."""
        if "bound" in self._functions:
            who = _who(split)
            found = self._ask("bound", who, split, begin, end, rows)
            with self._functions.blamed("bound", who):
                if before(_position(found), begin):
                    return begin
                return end if before(end, found) else found
        if rows is None:
            return end
        if isinstance(begin, str) or isinstance(end, str):
            raise ValueError(
                f"format `{self._functions.format}`: positions that are texts do not count rows, "
                f"and split `{split}` is at {begin!r}; give the source a `.bound(...)`, which says "
                "where a batch of that many rows ends"
            )
        return min(end, begin + rows)

    def _rows(self, begin: Position, end: Position, most: int) -> int:
        """How many of its share a split has taken."""
        if "bound" in self._functions or isinstance(begin, str) or isinstance(end, str):
            return most
        return end - begin

    def commit(self, positions: Positions) -> None:
        """Spark has written down that everything before these positions is done."""
        if "commit" in self._functions:
            self._ask("commit", "the source", positions)

    def drain(self) -> None:
        """What `latest` says from now on is where the query ends."""
        self._context = replace(self._context, draining=True)

    def entering(self, start: Positions, newest: Positions) -> Positions:
        return {split: self._firsts[split] for split in newest if split not in start}

    def read(self, part: SplitPartition, packer: RowPacker) -> Iterator[pa.RecordBatch]:
        """A part's rows; asked for anew, if an error may pass, while none of them is with Spark."""
        with closing_with(self.close):
            yield from self._retries.begun(lambda: self._read(part, Buffer(packer)), self.close)

    def _read(self, part: SplitPartition, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        context = self._open()
        with self._functions.blamed("read", _who(part.split)):
            read = self._functions.given["read"]
            for found in _rows(read(context, part.split, part.start, part.end)):
                _add(found, buffer)
                yield from buffer.packed()
            yield from buffer.take()[0]

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


def pieces(start: Positions, end: Positions, count: int) -> list[SplitPartition]:
    """A part of each split that has new rows; cut, where positions are numbers, into `count`."""
    parts = [
        SplitPartition(split, start[split], position)
        for split, position in end.items()
        if split in start and before(start[split], position)
    ]
    each = -(-count // max(1, len(parts)))  # rounded up
    return [piece for part in parts for piece in _cut(part, each)]


def _cut(part: SplitPartition, count: int) -> list[SplitPartition]:
    if isinstance(part.start, str) or isinstance(part.end, str):
        return [part]
    size = max(LEAST_ROWS, -(-(part.end - part.start) // count))
    bounds = [*range(part.start, part.end, size), part.end]
    return [SplitPartition(part.split, begin, end) for begin, end in pairwise(bounds)]


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


def _rows(found: Any) -> Any:
    """What `read` has returned. A single row, or columns, would pass for rows in a loop."""
    if isinstance(found, pa.RecordBatch):
        return [found]
    if isinstance(found, str | bytes | Mapping) or hasattr(found, "columns"):
        raise TypeError(
            f"rows come as a list, or as a pyarrow.RecordBatch, got {type(found).__name__}"
        )
    return _whole(found)


def _whole(found: Any) -> Any:
    """A StopIteration in the function of a `map` or `filter` would end it, as if it were done."""
    if getattr(found, "closed", False) is True:
        raise ValueError(_CLOSED)
    if isinstance(found, map):
        parts: Any = found.__reduce__()[1]
        return (parts[0](*each) for each in zip(*map(_whole, parts[1:]), strict=False))
    if isinstance(found, filter):
        keeps, rows = cast(Any, found.__reduce__()[1])
        return (row for row in _whole(rows) if (keeps or bool)(row))
    return _all_of(found) if isinstance(found, types.GeneratorType) else found


def _all_of(found: types.GeneratorType[Any, None, Any]) -> Iterator[Any]:
    """Mixing `yield` with `return rows`, or walking through the rows first, loses rows silently."""
    if inspect.getgeneratorstate(found) == inspect.GEN_CLOSED:
        raise ValueError(_USED_UP)
    _whole(inspect.getgeneratorlocals(found).get(".0"))  # which a generator expression goes through
    left = yield from found
    if left is not None:
        raise ValueError(f"a generator returned {_short(left)}, which would be left out; yield it")


def _add(found: Any, buffer: Buffer) -> None:
    if isinstance(found, pa.RecordBatch):
        buffer.add_batch(found)
    else:
        buffer.add(found)


def _first_positions(found: Any) -> Positions:
    return {name: _position(first) for name, first in _named(found, 0).items()}


def _named(found: Any, first: Any) -> dict[str, Any]:
    """The splits that `splits` has named, with their first positions."""
    names = list(found if isinstance(found, Mapping) else _whole(found))
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
        raise TypeError(f"a position is a whole number or a text, got {value!r}")
    return value


def _plain(position: Any) -> Any:
    """A cursor's position as a checkpoint gives it back: a tuple is a list then."""
    return read_json(json.dumps(position, allow_nan=False))


def _page(found: Any) -> tuple[Any, Any]:
    if isinstance(found, tuple) and len(found) == 2:
        return found
    raise TypeError(f"return the rows, as a list, and the next position: got {_short(found)}")


_USED_UP = (
    "a generator was walked through before it was returned: nothing is left in it; make a list of "
    "it first"
)
_CLOSED = (
    "what the rows come from was closed before they were read; `yield` them within its `with`, or "
    "make a list of them there"
)
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
