"""`SourceBuilder.replayable`: what can be asked again; the builder keeps offsets, and no log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.built import BuiltSource, Schema, SourceParts, data_source, schema_text
from tutorial_pkg.builder.context import FAIL_ON_DATA_LOSS, Position, Split, SplitContext
from tutorial_pkg.builder.declaration import SplitsDeclaration
from tutorial_pkg.builder.functions import checked, closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.splits import (
    Positions,
    SplitCalls,
    SplitPartition,
    _named,
    before,
    pieces,
)
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
    "the least number of tasks, while each has 1,000 rows: what is new is cut",
)

BEGAN = ""  # no split's name: in the first batch's end, where the splits began, as JSON
NOT_BEGUN: Positions = {BEGAN: ""}

Look = Callable[[SplitContext], Mapping[str, Split | tuple[Any, Any]]]
Read = Callable[[SplitContext, str, Any, Any], Iterable[Any]]
Bound = Callable[[SplitContext, str, Any, Any, int | None], Position]

# ---- What is built -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayableParts(SourceParts):
    """What the builder was given; `limit` and `parallelism` are the names of these options."""

    limit: str
    parallelism: str | None
    has_identities: bool

    def tasks(self, options: OptionValues) -> int:
        """How many tasks a query wants at least."""
        if self.parallelism is None:
            return 1
        wanted: int = options[self.parallelism] or cores()
        return wanted


class BuiltReplayableSource(BuiltSource):
    """The base of the classes that `SourceBuilder.replayable` makes."""

    parts: ClassVar[ReplayableParts]

    def reader(self, schema: StructType) -> BuiltReplayableBatchReader:
        return BuiltReplayableBatchReader(self.parts, schema, self.values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(BuiltReplayableReader(self.parts, schema, self.values()))


class BuiltReplayableBatchReader(DataSourceReader):
    """All that there is when the query is planned, from each split's first position on."""

    def __init__(self, parts: ReplayableParts, schema: StructType, options: OptionValues) -> None:
        context = SplitContext(options, batch=True, schema=schema)
        self._calls = SplitCalls(parts.functions, context, parts.has_identities)
        self._schema, self._tasks = schema, parts.tasks(options)

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
        return pieces(parts, self._tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        if isinstance(partition, SplitPartition):  # where there is none, Spark makes an empty one
            yield from self._calls.read(partition, RowPacker(self._schema))


class BuiltReplayableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All progress is in the offset, which has an entry for each split that ever existed.

    A new split enters the offset at its first position, and is read from the next batch on: so
    the start of every range is in the checkpoint before it is read. The first batch's is in its
    end: Spark asks for the initial offset again until that batch is through, and by then the
    splits may begin elsewhere.
    """

    def __init__(self, parts: ReplayableParts, schema: StructType, options: OptionValues) -> None:
        outlive_ctrl_c()
        context = SplitContext(options, schema=schema)
        self._calls = SplitCalls(parts.functions, context, parts.has_identities)
        self._schema, self._tasks = schema, parts.tasks(options)
        self._max_rows: int | None = options[parts.limit]
        self._begins: Positions | None = None
        self._newest: Positions | None = None
        self._entering: Positions = {}
        self._draining = False
        self._patience = Patience()

    def initialOffset(self) -> Positions:
        self._begins = self._firsts()
        return NOT_BEGUN

    def _firsts(self) -> Positions:
        return {key: split.first for key, split in self._calls.look().items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._draining = True
        self._calls.drain()

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:
        if start == NOT_BEGUN:
            begins = self._firsts() if self._begins is None else self._begins
            return self._end(begins, limit) | {BEGAN: json.dumps(begins)}
        begins = _splits_of(start)
        end = self._end(begins, limit)
        return start if end == begins else end  # the same offset: no batch

    def _end(self, start: Positions, limit: ReadLimit) -> Positions:
        if self._newest is None or not self._draining:
            self._patience.wait()
            self._look(start)
        newest = self._newest or {}
        known = {key: _later(at, newest.get(key, at)) for key, at in start.items()}
        rows = None if isinstance(limit, ReadAllAvailable) else self._max_rows
        end = self._calls.bounded(start, known, Limits(rows))
        self._patience.answer(end != start)
        return end | {key: at for key, at in self._entering.items() if key not in start}

    def _look(self, start: Positions) -> None:
        """See which splits are new, and how far each goes; vanished ones keep their position."""
        splits = self._calls.look(start)
        self._newest = start | {key: split.end for key, split in splits.items()}
        self._entering = {
            key: self._calls.entry(key, split, start)
            for key, split in splits.items()
            if key not in start
        }

    def reportLatestOffset(self) -> Positions | None:
        return self._newest

    def partitions(self, start: Positions, end: Positions) -> list[SplitPartition]:
        if start == NOT_BEGUN:
            start = json.loads(str(end[BEGAN])) if BEGAN in end else self._firsts()
        return pieces(self._calls.parts(start, _splits_of(end)), self._tasks)

    def read(self, partition: SplitPartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        yield from self._calls.read(partition, RowPacker(self._schema))

    def commit(self, end: Positions) -> None:
        self._calls.commit(_splits_of(end))

    def stop(self) -> None:
        self._calls.close()


def _splits_of(offset: Positions) -> Positions:
    """What an offset says of the splits."""
    if is_of_logs(offset) or not all(isinstance(at, int | str) for at in offset.values()):
        raise ValueError(OTHER_SOURCE)
    return {split: position for split, position in offset.items() if split != BEGAN}


def _later(one: Position, other: Position) -> Position:
    return other if before(one, other) else one


# ---- The builder ---------------------------------------------------------------------------------


class ReplayableSourceBuilder(SplitsDeclaration):
    """What follows `SourceBuilder.replayable(...)`, until `build()` makes the `DataSource`."""

    def __init__(
        self, name: str, schema: Schema, look: Look, read: Read, is_adapted: bool = False
    ) -> None:
        super().__init__(name, schema)
        self._limit = LIMIT
        self._parallelism: Option | None = None
        self._is_adapted = is_adapted  # its splits' names are the keys
        self._set("look", look, "context")
        self._set("read", read, "context", "split", "start", "end", may_yield=True)

    def bound(self, function: Bound) -> Self:
        """`bound(context, split, start, end, rows)` says where a batch ends on its way to `end`.

        `rows` is how many it may have of this split, None without a limit. For positions that do
        not count rows: keys with gaps, places in a log, texts. Without it, a batch of 10 rows is
        one of 10 positions. It may return `start`: then there is no row before `end`, and no batch.
        With the trigger `availableNow`, `end` is what `look` has returned once.
        """
        return self._set("bound", function, "context", "split", "start", "end", "rows")

    def commit(self, function: Callable[[SplitContext, dict[str, Position]], object]) -> Self:
        """`commit(context, positions)`: Spark has recorded that everything before these is done.

        Spark never asks for that again, so the other side may forget it: a queue, a slot, a
        consumer group that wants to know. `commit` runs beside the driver, with the
        `context.connection` of `look`, when the next batch begins. So it does not run for the
        last batch before a stop, and it runs again for the same positions after a crash.
        """
        return self._set("commit", function, "context", "positions")

    def distributed(
        self, count: int | None = 1, option: str = "parallelism", meaning: str = PARALLELISM.meaning
    ) -> Self:
        """At least this many tasks, unless the query's `option` says otherwise.

        With None as many as Spark runs at once.
        For sources whose positions count rows: a split's new rows are cut into neighbouring ranges.
        If they count something else, say so in the option's `meaning`.
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
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that cannot travel to other processes.
        """
        limit = self._limit
        if "bound" in self._given and limit.meaning == LIMIT.meaning:
            limit = replace(limit, meaning=BOUND_MEANING)
        own = [option for option in (limit, self._parallelism) if option]
        options, cut = self._all_options(*own), self._parallelism
        declared = any(option.name == FAIL_ON_DATA_LOSS.name for option in self._options)
        parts = ReplayableParts(
            self._functions(),
            options,
            self._schema,
            self._limit.name,
            cut.name if cut else None,
            declared and not self._is_adapted,
        )
        doc = _DOCUMENTATION.format(options=options.table(), schema=schema_text(self._schema))
        return data_source(BuiltReplayableSource, doc, parts)


_DOCUMENTATION = """What can be asked again: made by `SourceBuilder.replayable`.

Parallelism: a task for each split that has new rows, or more, if it is `distributed`.
Replay: any batch, as long as `read` gives the same rows for the same positions.
Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
    sink. `spark.read` has what there was when it was planned.

Options:
{options}

Schema: {schema}
"""


# ---- Temporary: sources with `splits` and `latest` -----------------------------------------------


def adapted(splits: Any, latest: Any) -> Look:
    checked("splits", splits, "context", may_yield=True)
    checked("latest", latest, "context", "split", "start")
    return partial(_look, splits, latest)


def _look(splits: Any, latest: Any, context: SplitContext) -> Mapping[str, Any]:
    firsts = _named(splits(context), 0)
    offset = context.offset
    if offset is None and not context.batch:
        return {name: (first, first) for name, first in firsts.items()}
    begins = {name: (offset or {}).get(name, first) for name, first in firsts.items()}
    return {name: (firsts[name], latest(context, name, at)) for name, at in begins.items()}
