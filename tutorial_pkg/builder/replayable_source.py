"""`SourceBuilder.replayable`: what can be asked for again; offsets, and no log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.built import BuiltSource, Schema, SourceParts, data_source, documented
from tutorial_pkg.builder.context import FAIL_ON_DATA_LOSS, Position, Split, SplitContext
from tutorial_pkg.builder.declaration import SplitsDeclaration
from tutorial_pkg.builder.functions import closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.splits import Positions, ReplayableCalls, SplitPartition, before
from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.pauses import Patience
from tutorial_pkg.core.read_limit import Limits
from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    stream_reader,
)
from tutorial_pkg.core.worker import cores, freeze_imports, outlive_ctrl_c
from tutorial_pkg.durable_log.group import OTHER_SOURCE, is_of_logs

LIMIT = Option(
    "maxRowsPerTrigger",
    integer(1),
    None,
    "positions in a batch, shared by the splits, at least one of each: rows, if each has one",
)
BOUND_MEANING = "rows in a batch, shared by the splits, at least one of each"
PARALLELISM = Option(
    "parallelism",
    integer(1),
    1,
    "the least number of tasks, while each has 1,000 rows: splits with more are cut",
)
LEAST_ROWS = 1_000  # for a task: fewer are read in less time than the task needs to start

BEGAN = ""  # no split's name: in the first batch's end, where the splits began, as JSON
NOT_BEGUN: Positions = {BEGAN: ""}

Look = Callable[[SplitContext], Mapping[str, Split | tuple[Any, Any]]]
Read = Callable[[SplitContext, str, Any, Any], Iterable[Any]]
Bound = Callable[[SplitContext, str, Any, Any, int | None], Position]

# ---- For Spark -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayableParts(SourceParts):
    """What the builder was given; `limit` and `parallelism` are the names of these options."""

    limit: str | None = None
    parallelism: str | None = None
    has_identities: bool = False

    def calls(self, schema: StructType, options: OptionValues, batch: bool) -> ReplayableCalls:
        context = SplitContext(options, batch=batch, schema=schema)
        return ReplayableCalls(self.functions, context, self.has_identities)

    def cut(self, parts: list[SplitPartition], options: OptionValues) -> list[SplitPartition]:
        """Cut parts with numbers as positions, until there are as many as the query wants."""
        if self.parallelism is None:
            return parts
        share = -(-(options[self.parallelism] or cores()) // max(1, len(parts)))  # rounded up
        return [piece for part in parts for piece in _cut(part, share)]


def _cut(part: SplitPartition, count: int) -> list[SplitPartition]:
    if isinstance(part.start, str):
        return [part]
    size = max(LEAST_ROWS, -(-(part.end - part.start) // count))
    bounds = [*range(part.start, part.end, size), part.end]
    return [replace(part, start=start, end=end) for start, end in pairwise(bounds)]


class BuiltReplayableSource(BuiltSource):
    """The base of the classes that `SourceBuilder.replayable` makes."""

    parts: ClassVar[ReplayableParts]

    def reader(self, schema: StructType) -> SplitBatchReader:
        return SplitBatchReader(self.parts, schema, self.values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(BuiltReplayableReader(self.parts, schema, self.values()))


class SplitBatchReader(DataSourceReader):
    """All that there is when the query is planned: each split from its first position on."""

    def __init__(self, parts: ReplayableParts, schema: StructType, options: OptionValues) -> None:
        self._parts, self._schema, self._options = parts, schema, options
        self._calls = parts.calls(schema, options, batch=True)

    def partitions(self) -> list[SplitPartition]:
        with closing_with(self._calls.close):
            splits = self._calls.look()
        parts = [
            SplitPartition(
                self._calls.name_of(key), split.first, split.end, split.identity, split.payload
            )
            for key, split in splits.items()
            if before(split.first, split.end)
        ]
        return self._parts.cut(parts, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        if isinstance(partition, SplitPartition):  # Spark makes an empty one if there is none
            yield from self._calls.read(partition, RowPacker(self._schema))


def batch_reader(
    source: BuiltSource, look: Look, read: Read, schema: StructType
) -> DataSourceReader:
    """Make a reader for another kind of source; its parts are splits from 0 to 1."""
    functions = replace(source.parts.functions, given={"look": look, "read": read})
    parts = ReplayableParts(functions, source.parts.options, source.parts.schema)
    return SplitBatchReader(parts, schema, source.values())


class BuiltReplayableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All progress is in the offset, which has an entry for each split that ever existed.

    A new split enters the offset at its first position, and is read from the next batch on. So the
    start of every range is in the checkpoint before the range is read. The start of the first batch
    is in its end: Spark asks for the initial offset again until that batch is done, and by then the
    splits may begin elsewhere.
    """

    def __init__(self, parts: ReplayableParts, schema: StructType, options: OptionValues) -> None:
        outlive_ctrl_c()
        self._parts, self._schema, self._options = parts, schema, options
        self._calls = parts.calls(schema, options, batch=False)
        self._max_rows: int | None = options[parts.limit] if parts.limit else None
        self._begins: Positions | None = None
        self._seen: dict[str, Split] = {}
        self._saw_ends = False  # where a query with `availableNow` ends
        self._patience = Patience()

    def initialOffset(self) -> Positions:
        self._begins = self._firsts()
        return NOT_BEGUN

    def _firsts(self) -> Positions:
        return {key: split.first for key, split in self._calls.look().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on, one look says where the query ends."""
        self._calls.context = replace(self._calls.context, draining=True)

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:
        if start == NOT_BEGUN:
            begins = self._firsts() if self._begins is None else self._begins
        else:
            begins = _splits_of(start)
        if not self._saw_ends:
            self._patience.wait()
            self._seen = self._calls.look(begins)
            self._saw_ends = self._calls.context.draining
        end = self._end(begins, limit)
        self._patience.answer(end != begins)
        if start == NOT_BEGUN:
            return end | {BEGAN: json.dumps(begins)}
        return start if end == begins else end  # the same offset: no batch

    def _end(self, start: Positions, limit: ReadLimit) -> Positions:
        """Add new splits where they begin; vanished ones keep their position."""
        ends = {key: self._seen[key].end for key in start if key in self._seen}
        reached = {key: _later(at, ends.get(key, at)) for key, at in start.items()}
        rows = None if isinstance(limit, ReadAllAvailable) else self._max_rows
        entering = {
            key: self._calls.entry(key, split, start)
            for key, split in self._seen.items()
            if key not in start
        }
        return self._calls.bounded(start, reached, Limits(rows)) | entering

    def reportLatestOffset(self) -> Positions | None:
        return {key: split.end for key, split in self._seen.items()} or None

    def partitions(self, start: Positions, end: Positions) -> list[SplitPartition]:
        if start == NOT_BEGUN:
            # An earlier version recorded no beginning.
            start = json.loads(str(end[BEGAN])) if BEGAN in end else self._firsts()
        return self._parts.cut(self._calls.parts(start, _splits_of(end)), self._options)

    def read(self, partition: SplitPartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        yield from self._calls.read(partition, RowPacker(self._schema))

    def commit(self, end: Positions) -> None:
        self._calls.commit(_splits_of(end))

    def stop(self) -> None:
        self._calls.close()


def _splits_of(offset: Positions) -> Positions:
    """Return what an offset says of the splits. Raises `ValueError` for another source's."""
    if is_of_logs(offset) or not all(isinstance(at, int | str) for at in offset.values()):
        raise ValueError(OTHER_SOURCE)
    return {split: position for split, position in offset.items() if split != BEGAN}


def _later(one: Position, other: Position) -> Position:
    return other if before(one, other) else one


# ---- The builder ---------------------------------------------------------------------------------


class ReplayableSourceBuilder(SplitsDeclaration):
    """What follows `SourceBuilder.replayable(...)`, until `build()` makes the `DataSource`."""

    def __init__(self, name: str, schema: Schema, look: Look, read: Read) -> None:
        super().__init__(name, schema)
        self._limit = LIMIT
        self._parallelism: Option | None = None
        self._set("look", look, "context")
        self._set("read", read, "context", "split", "start", "end", may_yield=True)

    def bound(self, function: Bound) -> Self:
        """Say with `bound(context, split, start, end, rows)` where a batch ends before `end`.

        `rows` is how many rows of this split it may have, None without a limit. Add it if positions
        do not count rows: keys with gaps, places in a log, strings. Return `start` for no batch.
        """
        return self._set("bound", function, "context", "split", "start", "end", "rows")

    def commit(self, function: Callable[[SplitContext, dict[str, Position]], object]) -> Self:
        """Learn with `commit(context, positions)` that everything before these positions is done.

        `positions` are by split name. Spark never asks for those rows again, so the other side may
        forget them. `commit` runs beside the driver when the next batch begins: not for the last
        batch before a stop, and again for the same positions after a crash.
        """
        return self._set("commit", function, "context", "positions")

    def distributed(
        self, count: int | None = 1, option: str = "parallelism", meaning: str = PARALLELISM.meaning
    ) -> Self:
        """Read in at least this many tasks, unless the query's `option` says otherwise.

        None stands for as many as Spark runs at once. A split's new rows are cut into neighboring
        ranges. If positions do not count rows, say what they count in the option's `meaning`.
        """
        if count is not None and (not isinstance(count, int) or count < 1):
            raise ValueError(f"format `{self._name}`: `distributed` takes 1 or more, got {count!r}")
        self._parallelism = replace(PARALLELISM, name=option, default=count, meaning=meaning)
        return self

    def limit(self, option: str, meaning: str | None = None) -> Self:
        """Give the option for the rows in a batch this name, instead of `maxRowsPerTrigger`.

        If `bound` counts something else, say so in its `meaning`.
        """
        self._limit = replace(LIMIT, name=option, meaning=meaning or LIMIT.meaning)
        return self

    def build(self) -> type[DataSource]:
        """Make the class for `spark.dataSource.register`.

        Raises `ValueError` for functions that cannot be pickled.
        """
        limit, cut = self._limit, self._parallelism
        if "bound" in self._given and limit.meaning == LIMIT.meaning:
            limit = replace(limit, meaning=BOUND_MEANING)
        declared = any(option.name == FAIL_ON_DATA_LOSS.name for option in self._options)
        parts = ReplayableParts(
            self._functions(),
            self._all_options(*(option for option in (limit, cut) if option)),
            self._schema,
            limit.name,
            cut.name if cut else None,
            declared,
        )
        return data_source(BuiltReplayableSource, documented(_DOCUMENTATION, parts), parts)


_DOCUMENTATION = """What can be asked for again: made by `SourceBuilder.replayable`.

Parallelism: a task for each split that has new rows, or more, if it is `distributed`.
Replay: any batch, as long as `read` yields the same rows for the same positions.
Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
    sink. `spark.read` has what there was when it was planned.
"""
