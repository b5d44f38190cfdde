"""`SourceBuilder.replayable`: what can be asked for again; offsets, and no log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from operator import itemgetter
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from tutorial_pkg.builder.context import (
    FAIL_ON_DATA_LOSS,
    Position,
    Split,
    SplitContext,
)
from tutorial_pkg.builder.declaration import BuiltSource, Schema, SplitsDeclaration
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.rows import QUOTED, Buffer, quoted
from tutorial_pkg.core.filters import comparisons
from tutorial_pkg.core.options import MOST, Option, integer
from tutorial_pkg.core.read_limit import Limits, Taken, shared
from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    passes_filters,
)
from tutorial_pkg.core.waiting import Patience
from tutorial_pkg.core.worker import cores, freeze_imports
from tutorial_pkg.durable_log.group import OTHER_SOURCE, is_of_logs

LIMIT = Option(
    "maxRowsPerTrigger",
    integer(1),
    None,
    "positions in a batch, shared by the splits, at least one of each: rows, if each has one",
)
PARALLELISM = Option(
    "parallelism",
    integer(1),
    1,
    "the least number of tasks, while each has 1,000 rows: splits with more are cut",
)
SOURCE = "the source"  # who fails, in errors
LEAST_ROWS = 1_000  # for a task: fewer are read in less time than the task needs to start

Positions = dict[str, Any]  # an offset: the next unread position, by the split's key
BEGAN = ""  # no split's name: in the first batch's end, where the splits began, as JSON
NOT_BEGUN: Positions = {BEGAN: ""}

Look = Callable[[SplitContext], Mapping[str, Split | tuple[Any, Any]]]
Read = Callable[[SplitContext, str, Any, Any], Iterable[Any]]
Bound = Callable[[SplitContext, str, Any, Any, int | None], Position]

# ---- Calls ---------------------------------------------------------------------------------------


@dataclass
class SplitPartition(InputPartition):
    """One task's work: a split's rows from `start` up to `end`."""

    split: str
    start: Any
    end: Any
    identity: str = ""
    payload: Any = None


class SplitCalls:
    """Calls functions with their context, again after transient errors. Raises `FunctionError`."""

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        self.functions = functions
        self.retries = functions.retries.of(context.options)
        self.context = replace(context, retries=self.retries)
        self._is_open = False

    def ask(self, name: str, who: str, *arguments: Any, **more: Any) -> Any:
        """Call a function beside the driver. `more` goes into its context."""

        def once() -> Any:
            return self.functions.call(name, who, replace(self.open(), **more), *arguments)

        return self.retries.patiently(once, self.close)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a part's rows; start over after a transient error while Spark has none of them."""
        freeze_imports()
        if not isinstance(partition, SplitPartition):  # Spark makes one if there is none
            return

        def begin() -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
            batches = self._read(partition)
            return list(islice(batches, 1)), batches

        with closing_with(self.close):
            first, others = self.retries.patiently(begin, self.close)
            yield from first
            yield from others

    def _read(self, part: SplitPartition) -> Iterator[pa.RecordBatch]:
        context = replace(self.open(), identity=part.identity, payload=part.payload)
        with self.functions.blamed("read", split_text(part.split)):
            rows = self.functions.given["read"](context, part.split, part.start, part.end)
            position = part.split, part.identity, part.start, part.end
            yield from Buffer.of(self.functions.format, context).pack_all(rows, *position)

    def open(self) -> SplitContext:
        if not self._is_open:
            connection = self.functions.call("connect", SOURCE, self.context.options)
            self.context = replace(self.context, connection=connection)
        self._is_open = True
        return self.context

    def close(self) -> None:
        connection, was_open = self.context.connection, self._is_open
        self.context, self._is_open = replace(self.context, connection=None), False
        if was_open:
            self.functions.call("close", SOURCE, connection)


def by_name(splits: Any) -> dict[str, Any]:
    is_mapping = isinstance(splits, Mapping)
    if not is_mapping or not all(name and isinstance(name, str) for name in splits):
        raise TypeError(f"expected a dict of splits by name, got {quoted(splits)}")
    return dict(splits)


def split_text(split: str) -> str:
    return f"split `{split[:QUOTED]}`"


# ---- Splits --------------------------------------------------------------------------------------


class Splits(SplitCalls):
    """The splits of a replayable source, and the work of tasks.

    In an offset a split with an identity has the key `name@identity`, others their name.
    """

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        super().__init__(functions, context)
        self._has_identities = hasattr(context.options, FAIL_ON_DATA_LOSS.name)

    def look(self, offset: Positions | None = None) -> dict[str, Split]:
        """Return the current splits by their keys. Lost rows are an error, or a warning."""
        known = offset and {self.parsed(key)[0]: position for key, position in offset.items()}
        answer = self.ask("look", SOURCE, offset=known)
        with self.functions.blamed("look", SOURCE):
            splits = {name: self._split(name, value) for name, value in by_name(answer).items()}
        seen = {f"{name}@{s.identity}" if s.identity else name: s for name, s in splits.items()}
        for key, at in (offset or {}).items():
            (name, identity), split = self.parsed(key), seen.get(key)
            if identity and name not in splits:
                self._lose(f"`{name}` does not exist any more; its next position was {at!r}")
            elif identity and split and not split.first <= at <= split.end:
                extent = f"{split.first!r} to {split.end!r}"
                self._lose(f"`{name}` has {extent} now; the next one was {at!r}")
        for key, split in seen.items():
            if offset and split.identity and key not in offset:
                seen[key] = self._entering(split, self.parsed(key)[0], offset)
        return seen

    def _split(self, name: str, answer: Any) -> Split:
        split = Split(*answer) if isinstance(answer, tuple) and len(answer) == 2 else answer
        if not isinstance(split, Split):
            raise TypeError(
                f"split `{name}`: expected a Split or (first, end), got {quoted(answer)}"
            )
        if type(checked_position(split.first)) is not type(checked_position(split.end)):
            raise TypeError(f"positions of one split must be of one type, got {split}")
        if split.identity and not self._has_identities:
            raise ValueError(
                f"split `{name}` has an identity, so the query needs to know what to do about lost "
                "rows: add `.options(FAIL_ON_DATA_LOSS)` to the source"
            )
        if self._has_identities and "@" in (split.identity or name):
            raise ValueError(f"`@` separates a split's name from its identity, got {split!r}")
        return split

    def _entering(self, split: Split, name: str, offset: Positions) -> Split:
        """Return a split whose identity is new: its name may have been in the offset before."""
        earlier = [key for key in offset if self.parsed(key)[0] == name]
        if earlier == [name]:  # it had no identity
            return replace(split, first=offset[name])
        if earlier:
            self._lose(f"`{name}` was deleted and re-created; its identity is {split.identity} now")
        return split

    def _lose(self, what: str) -> None:
        self.context.lost(f"format `{self.functions.format}`: split {what}")

    def parsed(self, key: str) -> tuple[str, str]:
        name, _, identity = key.rpartition("@")
        return (name, identity) if name and self._has_identities else (key, "")

    def parts(self, ranges: Iterable[tuple[str, Any, Any, Any]]) -> list[SplitPartition]:
        """Return the work of tasks, from ranges of (key, start, end, payload)."""
        parts = [
            SplitPartition(self.parsed(key)[0], start, end, self.parsed(key)[1], payload)
            for key, start, end, payload in ranges
            if start < end
        ]
        tasks = self.functions.call("tasks", SOURCE, self.context.options) or 1
        share = -(-tasks // max(1, len(parts)))  # rounded up
        return [piece for part in parts for piece in _cut(part, share)]


def _cut(part: SplitPartition, count: int) -> list[SplitPartition]:
    if isinstance(part.start, str):
        return [part]
    size = max(LEAST_ROWS, -(-(part.end - part.start) // count))
    bounds = [*range(part.start, part.end, size), part.end]
    return [replace(part, start=start, end=end) for start, end in pairwise(bounds)]


def checked_position(value: Any) -> Any:
    if not isinstance(value, int | str):
        raise TypeError(f"a position is an integer or a string, got {value!r}")
    return value


# ---- For Spark -----------------------------------------------------------------------------------


class SplitBatchReader(Splits, DataSourceReader):
    """All that there is when the query is planned: each split from its first position on."""

    def partitions(self) -> list[SplitPartition]:
        with closing_with(self.close):
            seen = self.look().items()
        return self.parts((key, split.first, split.end, split.payload) for key, split in seen)


class FilteringReader(SplitBatchReader):
    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Return all of them, so that Spark evaluates them again."""
        own = tuple(comparisons(filters, self.context.schema))
        self.context = replace(self.context, filters=own)
        return filters


def batch_reader(functions: Functions, context: SplitContext) -> SplitBatchReader:
    reader = FilteringReader if passes_filters() else SplitBatchReader
    return reader(functions, context)


class ReplayableReader(Splits, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All progress is in the offset, which has an entry for each split that ever existed.

    A new split enters the offset at its first position, and is read from the next batch on. So the
    start of every range is in the checkpoint before the range is read. The start of the first batch
    is in its end: Spark asks for the initial offset again until that batch is done, and by then the
    splits may begin elsewhere.
    """

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        super().__init__(functions, context)
        self._max_rows: int | None = functions.call("limit", SOURCE, context.options)
        self._begins: Positions | None = None
        self._seen: dict[str, Split] = {}
        self._saw_ends = False  # where a query with `availableNow` ends
        self._patience = Patience()

    def initialOffset(self) -> Positions:
        self._begins = _firsts(self.look())
        return NOT_BEGUN

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows) if self._max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.context = replace(self.context, draining=True)

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:
        begins = _splits_of(start)
        if start == NOT_BEGUN:
            begins = _firsts(self.look()) if self._begins is None else self._begins
        if not self._saw_ends:
            self._patience.wait()
            self._seen = self.look(begins)
            self._saw_ends = self.context.draining
        rows = None if isinstance(limit, ReadAllAvailable) else self._max_rows
        new = {key: split.first for key, split in self._seen.items() if key not in begins}
        end = begins | new | self._bounded(begins, Limits(rows))  # the newest of a name comes last
        self._patience.answer(end != begins)
        if start == NOT_BEGUN:
            return end | {BEGAN: json.dumps(begins)}
        return start if end == begins else end  # the same offset: no batch

    def _bounded(self, start: Positions, limits: Limits) -> Positions:
        """Return how far one batch goes: at least a row of each split that has some."""
        waiting = {
            key: 1 if isinstance(split.end, str) else split.end - start[key]
            for key, split in self._seen.items()
            if key in start and start[key] < split.end
        }
        return shared(waiting, limits, lambda key, share: self._take(key, start[key], share.rows))

    def _take(self, key: str, start: Any, rows: int | None) -> Taken:
        (name, identity), end = self.parsed(key), self._seen[key].end
        rows = None if rows is None else max(1, rows)
        if "bound" in self.functions:
            who = split_text(name)
            reached = self.ask("bound", who, name, start, end, rows, identity=identity)
            with self.functions.blamed("bound", who):
                return Taken(min(max(start, checked_position(reached)), end), rows or 0)
        if rows is None:
            return Taken(end)
        if isinstance(start, str):
            raise ValueError(
                f"format `{self.functions.format}`: split `{name}` is at {start!r}, and positions "
                "that are strings cannot count rows; add a `.bound(...)` that returns where a "
                "batch of that many rows ends"
            )
        return Taken(min(end, start + rows), min(end - start, rows))

    def reportLatestOffset(self) -> Positions | None:
        return {key: split.end for key, split in self._seen.items()} or None

    def partitions(self, start: Positions, end: Positions) -> list[SplitPartition]:
        ends = _splits_of(end)
        if start == NOT_BEGUN:
            # An earlier version recorded no beginning.
            start = json.loads(end[BEGAN]) if BEGAN in end else _firsts(self.look())
        return self.parts((key, start[key], at, None) for key, at in ends.items() if key in start)

    def commit(self, end: Positions) -> None:
        if "commit" in self.functions:
            done = {self.parsed(key)[0]: position for key, position in _splits_of(end).items()}
            self.ask("commit", SOURCE, done)

    def stop(self) -> None:
        self.close()


def _firsts(splits: dict[str, Split]) -> Positions:
    return {key: split.first for key, split in splits.items()}


def _splits_of(offset: Positions) -> Positions:
    """Return what an offset says of the splits. Raises `ValueError` for another source's."""
    if is_of_logs(offset) or not all(isinstance(at, int | str) for at in offset.values()):
        raise ValueError(OTHER_SOURCE)
    return {split: position for split, position in offset.items() if split != BEGAN}


# ---- The builder ---------------------------------------------------------------------------------


class ReplayableSourceBuilder(SplitsDeclaration):
    """Follows `SourceBuilder.replayable(...)`: set functions, then `build()` the `DataSource`."""

    def __init__(self, name: str, schema: Schema, look: Look, read: Read) -> None:
        super().__init__(name, schema)
        self._limit = LIMIT
        self._parallelism: list[Option] = []
        self._set("look", look, "context")
        self._set("read", read, "context", "split", "start", "end", may_yield=True)

    def bound(self, function: Bound) -> Self:
        """Set `bound(context, split, start, end, rows)`: where a batch ends before `end`.

        `rows` is how many rows of this split it may have, None without a limit. Add it if positions
        do not count rows: keys with gaps, places in a log, strings. Return `start` for no batch.
        """
        return self._set("bound", function, "context", "split", "start", "end", "rows")

    def commit(self, function: Callable[[SplitContext, dict[str, Position]], object]) -> Self:
        """Set `commit(context, positions)`: everything before these positions is done.

        Spark never asks for those rows again, so the other side may forget them. It is not called
        for the last batch before a stop, and again for the same positions after a crash.
        """
        return self._set("commit", function, "context", "positions")

    def distributed(
        self, count: int | None = 1, option: str = "parallelism", meaning: str = PARALLELISM.meaning
    ) -> Self:
        """Cut splits for at least this many tasks, unless the query's `option` says otherwise.

        None stands for as many as Spark runs at once. If positions do not count rows, say what they
        count in the option's `meaning`.
        """
        self._check_count(1 if count is None else count, MOST)
        self._parallelism = [replace(PARALLELISM, name=option, default=count, meaning=meaning)]
        self._given["tasks"] = lambda options: options[option] or cores()
        return self

    def limit(self, option: str, meaning: str = LIMIT.meaning) -> Self:
        """Give the option `maxRowsPerTrigger` another name, and say what it counts."""
        self._limit = replace(LIMIT, name=option, meaning=meaning)
        return self

    def build(self) -> type[DataSource]:
        self._given["limit"] = itemgetter(self._limit.name)
        text = "What can be asked for again, made by `SourceBuilder.replayable`."
        own = [self._limit, *self._parallelism]
        readers = {"batch": batch_reader, "stream": ReplayableReader}
        return self._build(BuiltSource, text, "exactly once", *own, readers=readers)
