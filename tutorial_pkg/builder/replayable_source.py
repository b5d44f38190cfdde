"""`SourceBuilder.replayable`: what can be asked again; the builder keeps offsets, and no log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import OptionValues, SplitContext, option_values
from tutorial_pkg.builder.declaration import Declaration, data_source, schema_text
from tutorial_pkg.builder.functions import Function, Functions
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.options import Option, Options, integer
from tutorial_pkg.core.worker import settle

Position = int | str
Positions = dict[str, Position]  # an offset: by split, the next unread position

LIMIT = Option(
    "maxRowsPerTrigger",
    integer(1),
    None,
    "1 or more",
    "rows in a batch, shared by the splits, at least one of each; positions must count rows",
)

# ---- What is built -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayableParts:
    """What the builder was given."""

    functions: Functions
    schema: str | StructType
    options: Options


class BuiltReplayableSource(DataSource):
    """The base of the classes that `SourceBuilder.replayable` makes."""

    parts: ClassVar[ReplayableParts]

    @classmethod
    def name(cls) -> str:
        return cls.parts.functions.format

    def schema(self) -> str | StructType:
        option_values(self.parts.options, self.options)
        return self.parts.schema

    def streamReader(self, schema: StructType) -> BuiltReplayableReader:
        options = option_values(self.parts.options, self.options)
        return BuiltReplayableReader(self.parts.functions, schema, options)


@dataclass
class SplitPartition(InputPartition):
    """One task's work: a split's rows from `start` up to `end`."""

    split: str
    start: Position
    end: Position


class BuiltReplayableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All progress is in the offset: an entry for each split that there ever was.

    A new split enters the offset at its first position, and is read from the next batch on: so
    the start of every range is in the checkpoint before it is read.
    """

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        self._calls = SplitCalls(functions, SplitContext(options))
        self._schema, self._max_rows = schema, options.maxRowsPerTrigger
        self._newest: Positions | None = None
        self._draining = False

    def initialOffset(self) -> Positions:
        return self._calls.firsts()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._draining = True

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:
        if self._newest is None or not self._draining:
            self._newest = self._calls.newest(start)
        known = {split: self._newest[split] for split in start}
        entering = self._calls.entering(start, self._newest)
        if isinstance(limit, ReadAllAvailable):
            return known | entering
        return limited(start, known, self._max_rows) | entering

    def reportLatestOffset(self) -> Positions | None:
        return self._newest

    def partitions(self, start: Positions, end: Positions) -> list[SplitPartition]:
        return [
            SplitPartition(split, start[split], position)
            for split, position in end.items()
            if split in start and _before(start[split], position)
        ]

    def read(self, partition: SplitPartition) -> Iterator[pa.RecordBatch]:
        settle()
        buffer = Buffer(RowPacker(self._schema))
        yield from self._calls.read(partition, buffer)


class SplitCalls:
    """The three functions, and the check of what they return. All raise `FunctionError`."""

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        self._functions, self._context = functions, context
        self._firsts: Positions = {}

    def firsts(self) -> Positions:
        """The splits that there are now, with their first positions."""
        found = self._functions.call("splits", "the source", self._context)
        with self._functions.blamed("splits", "the source"):
            self._firsts = _first_positions(found)
        return self._firsts

    def newest(self, start: Positions) -> Positions:
        """How far each split goes; one that has vanished, or goes back, stays where it was."""
        begins = {**self.firsts(), **start}
        return {
            split: self._latest(split, begin) if split in self._firsts else begin
            for split, begin in begins.items()
        }

    def entering(self, start: Positions, newest: Positions) -> Positions:
        return {split: self._firsts[split] for split in newest if split not in start}

    def read(self, part: SplitPartition, buffer: Buffer) -> Iterator[pa.RecordBatch]:
        with self._functions.blamed("read", f"split `{part.split}`"):
            read = self._functions.given["read"]
            for found in read(self._context, part.split, part.start, part.end):
                if isinstance(found, pa.RecordBatch):
                    buffer.add_batch(found)
                else:
                    buffer.add(found)
                yield from buffer.packed()
            yield from buffer.take()[0]

    def _latest(self, split: str, begin: Position) -> Position:
        who = f"split `{split}`"
        found = self._functions.call("latest", who, self._context, split, begin)
        with self._functions.blamed("latest", who):
            return found if _before(begin, _position(found)) else begin


def limited(start: Positions, end: Positions, rows: int) -> Positions:
    """As far towards `end` as a batch of `rows` may go. Raises `ValueError` for texts."""
    waiting = [split for split in end if _before(start[split], end[split])]
    share = max(1, rows // max(1, len(waiting)))
    positions = dict(end)
    for split in waiting:
        begin, most = start[split], end[split]
        if isinstance(begin, str) or isinstance(most, str):
            raise ValueError(
                "option `maxRowsPerTrigger` needs positions that count rows, but split "
                f"`{split}` is at {begin!r}; let `latest` limit what a batch takes"
            )
        positions[split] = min(most, begin + share)
    return positions


def _first_positions(found: Any) -> Positions:
    pairs = found.items() if isinstance(found, Mapping) else [(name, 0) for name in found]
    firsts = {name: _position(first) for name, first in pairs}
    wrong = [name for name in firsts if not isinstance(name, str)]
    if isinstance(found, str) or wrong:
        raise TypeError(
            f"a list of texts is wanted, or a dict with a first position for each, got {found!r}"
        )
    return firsts


def _position(value: Any) -> Position:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"a position is a whole number or a text, got {value!r}")
    return value


def _before(one: Position, other: Position) -> bool:
    if isinstance(one, str) != isinstance(other, str):
        raise TypeError(f"positions of one split must be of one type, got {one!r} and {other!r}")
    return one < other  # type: ignore[operator]


# ---- The builder ---------------------------------------------------------------------------------


class ReplayableSourceBuilder(Declaration):
    """Options, until `build()` makes a `DataSource`; see `SourceBuilder.replayable`."""

    def __init__(
        self,
        name: str,
        schema: str | StructType,
        splits: Function,
        latest: Function,
        read: Function,
    ) -> None:
        super().__init__(name)
        self._schema = schema
        self._set("splits", splits, "context")
        self._set("latest", latest, "context", "split", "start")
        self._set("read", read, "context", "split", "start", "end")

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that cannot travel to other processes.
        """
        parts = ReplayableParts(self._functions(), self._schema, self._all_options(LIMIT))
        doc = _DOCUMENTATION.format(options=parts.options.table(), schema=schema_text(self._schema))
        return data_source(BuiltReplayableSource, self._name, doc, parts=parts)


_DOCUMENTATION = """A stream of what can be asked again: made by `SourceBuilder.replayable`.

Parallelism: a task for each split that has new rows.
Replay: any batch, as long as `read` gives the same rows for the same positions.
Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
    sink.

Options:
{options}

Schema: {schema}
"""
