"""`SourceBuilder.cursor`: services that give pages, through a log on disk, or without one.

Through the log it is a stream source whose `fill` reads the next page (`PageInstance`). Without one
the pages go from the driver to the tasks, and are asked for again when a batch is repeated.
"""

from __future__ import annotations

import math
import time
import zlib
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

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.built import BuiltSource, Schema, data_source, schema_text
from tutorial_pkg.builder.context import SourceContext, SplitContext
from tutorial_pkg.builder.declaration import SplitsDeclaration
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.instances import Instances
from tutorial_pkg.builder.pages import Walk
from tutorial_pkg.builder.retries import NONE
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.splits import Page, SplitCalls
from tutorial_pkg.builder.stream_source import BuiltStreamReader, BuiltStreamSource, StreamParts
from tutorial_pkg.core.options import Option, OptionValues, integer
from tutorial_pkg.core.pauses import LONGEST, Patience
from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    stream_reader,
)
from tutorial_pkg.core.worker import freeze_imports, outlive_ctrl_c
from tutorial_pkg.durable_log.group import OTHER_SOURCE, Backlog, LogGroup, LogOffset
from tutorial_pkg.durable_log.reader import log_options

POLL = Option(
    "pollSeconds",
    integer(0),
    1,
    "stream: a split that had nothing new is asked again this long after that, and for new splits",
)
PAGES = Option(
    "maxRowsPerTrigger",
    integer(1),
    10_000,
    "rows in a batch, which ends with the page that has the last of them; unless the trigger is "
    "`availableNow`, also after a second",
)
FETCH_SECONDS = 1.0  # a batch of slow pages begins after that, unless all are there already

Splits = Callable[[SplitContext], Mapping[str, Any] | Iterable[str]]
Read = Callable[[SplitContext, str, Any], tuple[Any, Any]]
MOST_INSTANCES = 64


def one_split(context: SplitContext) -> list[str]:
    """Where nobody names the splits."""
    return ["all"]


def _calls(functions: Functions, options: OptionValues, schema: StructType) -> SplitCalls:
    return SplitCalls(functions, SplitContext(options, schema=schema))


# ---- Batch ---------------------------------------------------------------------------------------


@dataclass
class WholeSplit(InputPartition):
    """One task's work: a split from the page at `start` to its end."""

    split: str
    start: Any


class BuiltCursorBatchReader(DataSourceReader):
    """A task for each split, until that has nothing more."""

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        context = SplitContext(options, batch=True, schema=schema)
        self._calls, self._schema = SplitCalls(functions, context), schema

    def partitions(self) -> list[WholeSplit]:
        with closing_with(self._calls.close):
            return [WholeSplit(split, at) for split, at in self._calls.begins({}).items()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        if isinstance(partition, WholeSplit):  # where there is none, Spark makes an empty one
            with closing_with(self._calls.close):
                for page in _pages(self._calls, self._schema, partition):
                    yield from page.batches


def _pages(
    calls: SplitCalls, schema: StructType, part: WholeSplit | PagePartition
) -> Iterator[Page]:
    """From `start` on, until there is nothing more."""
    packer = RowPacker(schema)
    page = calls.page(part.split, part.start, packer)
    while page.end != page.start:
        yield page
        page = calls.page(part.split, page.end, packer)


# ---- Through the log -----------------------------------------------------------------------------


class BuiltCursorSource(BuiltStreamSource):
    """The base of the classes that `SourceBuilder.cursor` makes."""

    def reader(self, schema: StructType) -> BuiltCursorBatchReader:
        return BuiltCursorBatchReader(self.parts.functions, schema, self.values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self.values()
        if options.path is None:  # which `spark.read` does not need
            raise ValueError(
                f"format `{self.name()}`: option `path` is missing; a stream keeps its pages in a "
                "log on disk: name its folder in `load(path)`"
            )
        return stream_reader(BuiltCursorReader(self.parts, schema, options))


class PageInstance(Walk):
    """The state of an instance: it has the splits whose names fall to its share.

    After an error that may pass the instance begins anew, so here nothing is tried again.
    """

    def __init__(
        self, parts: StreamParts, schema: StructType, pause: float, context: SourceContext
    ) -> None:
        calls = _calls(replace(parts.functions, retries=NONE), context.options, schema)
        super().__init__(calls, RowPacker(schema), pause, partial(_falls_to, context))
        self._ends = pause == math.inf
        self._kept = set[str]()  # whose positions are in a snapshot

    def fill(self, buffer: Buffer) -> None:
        page = self.next_page()
        for batch in page.batches if page else ():
            buffer.add_batch(batch)
        if self.positions.keys() != self._kept:
            buffer.keep_place()
        if page is None and self._ends:
            buffer.close()

    def snapshot(self) -> dict[str, Any]:
        """Before the first page, too: the first positions may be others after a restart."""
        if not self.positions:
            self.look()
        self._kept = set(self.positions)
        return self.positions

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        for positions in snapshots:
            self.go_to(positions)


def _falls_to(context: SourceContext, split: str) -> bool:
    return zlib.crc32(split.encode()) % context.count == context.index


class BuiltCursorReader(BuiltStreamReader):
    """With the trigger `availableNow` it goes to the end of each split, once, and then stops."""

    def __init__(self, parts: StreamParts, schema: StructType, options: OptionValues) -> None:
        super().__init__(parts, schema, options)
        self._pause: float = options.pollSeconds
        self._instances: Instances | None = None

    def start_producer(self, logs: LogGroup, backlog: Backlog) -> Instances:
        self._instances = super().start_producer(logs, backlog)
        return self._instances

    def functions(self) -> Functions:
        given: dict[str, Any] = {
            "create": partial(PageInstance, self._parts, self._schema, self._pause),
            "fill": PageInstance.fill,
            "snapshot": PageInstance.snapshot,
            "restore": PageInstance.restore,
            "destroy": PageInstance.close,
        }
        return replace(self._parts.functions, given=given)

    def prepareForTriggerAvailableNow(self) -> None:
        self._pause = math.inf

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._pause == math.inf and self._drain_to is None:
            self._wait_for_pages(self._checked(start))
        return super().latestOffset(start, limit)

    def _wait_for_pages(self, begin: LogOffset) -> None:
        """Return when there are some, or all have come: the same offset would end the query."""
        while self._drain_to is None:
            self._produce(begin)
            ended = self._instances is not None and self._instances.ended
            newest = self._logs().sync()
            if ended:
                self._drain_to = newest
            elif newest.positions != begin.positions:
                return
            else:
                self._logs().wait_for_more(begin, LONGEST)


# ---- Without a log -------------------------------------------------------------------------------


@dataclass
class PagePartition(InputPartition):
    """A split's rows in one batch; they are not in it when another process has planned that."""

    split: str
    start: Any
    rows: int
    checksum: int
    batches: list[pa.RecordBatch] | None


class BuiltPageSource(BuiltSource):
    """The base of the classes that `SourceBuilder.cursor(...).replayable()` makes."""

    parts: ClassVar[StreamParts]

    def reader(self, schema: StructType) -> BuiltCursorBatchReader:
        return BuiltCursorBatchReader(self.parts.functions, schema, self.values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(BuiltPageReader(self.parts.functions, schema, self.values()))


@dataclass(frozen=True)
class Planned:
    """A batch: its offsets, and the pages between them by split."""

    start: dict[str, Any]
    end: dict[str, Any]
    batches: dict[str, list[pa.RecordBatch]]


class BuiltPageReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset has the splits' positions and, for its batch, its start, row count and checksum.

    So a batch can be repeated from its end alone: the end says how many rows it has behind its
    start. More may have come behind them, also on the same page; others in their place are an
    error. Pages without rows move no offset; a split that is new enters it where it begins.
    """

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        outlive_ctrl_c()
        self._calls, self._schema = _calls(functions, options, schema), schema
        self._max_rows: int = options.maxRowsPerTrigger
        self._pause: float = options.pollSeconds
        self._walk: Walk | None = None
        self._planned: Planned | None = None
        self._patience = Patience()

    def initialOffset(self) -> dict[str, Any]:
        return {"positions": {}, "batch": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._pause = math.inf

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._planned is None or self._planned.start != start or self._planned.end == start:
            self._patience.wait()
            self._planned = self._plan(start, limit)
            self._patience.answer(self._planned.end != start)
        return self._planned.end

    def _plan(self, start: dict[str, Any], limit: ReadLimit) -> Planned:
        known = _positions_of(start)
        walk = self._walk_from(known)
        most = math.inf if isinstance(limit, ReadAllAvailable) else self._max_rows
        firsts: dict[str, Any] = {}
        batches: dict[str, list[pa.RecordBatch]] = {}
        seconds = math.inf if math.inf in (most, self._pause) else FETCH_SECONDS
        for page in _up_to(walk, most, seconds):
            firsts.setdefault(page.split, page.start)
            batches.setdefault(page.split, []).extend(page.batches)
        batch = {split: [first, *_checked(batches[split])] for split, first in firsts.items()}
        end = {"positions": dict(walk.positions), "batch": batch}
        moved = batch or walk.positions.keys() != known.keys()
        return Planned(start, end if moved else start, batches)

    def _walk_from(self, positions: dict[str, Any]) -> Walk:
        if self._walk is None:
            self._walk = Walk(self._calls, RowPacker(self._schema), self._pause)
            self._walk.go_to(positions)
        return self._walk

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[PagePartition]:
        _positions_of(end)
        fetched = self._planned.batches if self._planned and self._planned.end == end else {}
        return [
            PagePartition(split, first, rows, checksum, fetched.get(split))
            for split, (first, rows, checksum) in end["batch"].items()
        ]

    def read(self, partition: PagePartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        yield from self._again(partition) if partition.batches is None else partition.batches

    def _again(self, part: PagePartition) -> Iterator[pa.RecordBatch]:
        """Raises `LookupError` when the rows are not those that were planned."""
        left, checksum = part.rows, 0
        with closing_with(self._calls.close):
            for page in _pages(self._calls, self._schema, part):
                for batch in page.batches:
                    rows = batch.slice(0, left)
                    left, checksum = left - rows.num_rows, _checksum(rows, checksum)
                    yield rows
                if not left:
                    break
        if left or checksum != part.checksum:
            raise LookupError(_CHANGED.format(split=part.split, start=part.start, rows=part.rows))

    def stop(self) -> None:
        self._calls.close()


def _positions_of(offset: dict[str, Any]) -> dict[str, Any]:
    if offset.keys() != {"positions", "batch"}:
        raise ValueError(OTHER_SOURCE)
    positions: dict[str, Any] = offset["positions"]
    return positions


def _up_to(walk: Walk, most: float, seconds: float) -> Iterator[Page]:
    """Pages with rows, until there are enough rows, or so long; no split twice at its end."""
    deadline = time.monotonic() + seconds
    rows, at_end = 0, set[str]()
    while rows < most and (page := walk.next_page()):
        if page.rows:
            yield page
        elif page.end == page.start and page.split in at_end:
            return
        elif page.end == page.start:
            at_end.add(page.split)
        rows += page.rows
        if rows and time.monotonic() >= deadline:
            return


def _checked(batches: list[pa.RecordBatch]) -> tuple[int, int]:
    """How many rows there are, and their checksum."""
    checksum = 0
    for batch in batches:
        checksum = _checksum(batch, checksum)
    return sum(batch.num_rows for batch in batches), checksum


def _checksum(batch: pa.RecordBatch, before: int) -> int:
    """Of the rows before and these; of values, since the bytes of Arrow's versions may differ."""
    for row in batch.to_pylist():
        before = zlib.crc32(repr(row).encode(), before)
    return before


_CHANGED = (
    "split `{split}`: the {rows} rows from position {start!r} on are not those that were there "
    "when the batch was planned, so it cannot be repeated. Such pages belong in the log: build "
    "the source without `.replayable()`, and start anew with a new checkpoint"
)

# ---- The builder ---------------------------------------------------------------------------------


class CursorSourceBuilder(SplitsDeclaration):
    """What follows `SourceBuilder.cursor(...)`, until `build()` makes the `DataSource`."""

    def __init__(self, name: str, schema: Schema, read: Read) -> None:
        super().__init__(name, schema)
        self._count = 1
        self._replayable = False
        self._set("read", read, "context", "split", "position")
        self._set("splits", one_split, "context")

    def splits(self, function: Splits) -> Self:
        """`splits(context)` names the splits, each with pages of its own: a list of texts, or a
        dict with first positions.

        It is asked again every `pollSeconds`: new ones join, vanished ones keep their place.
        Without it there is one split, `all`, that begins at None.
        """
        return self._set("splits", function, "context", may_yield=True)

    def distributed(self, count: int) -> Self:
        """This many threads share the splits, unless the option `parallelism` says otherwise.

        Each has a log of its own, and a connection. Not with `.replayable()`: there one thread asks
        for all pages.
        """
        if not isinstance(count, int) or not 1 <= count <= MOST_INSTANCES:
            raise ValueError(
                f"format `{self._name}`: `distributed` takes 1..{MOST_INSTANCES}, got {count!r}"
            )
        self._count = count
        return self

    def replayable(self) -> Self:
        """You promise that `read` gives the same rows in the same order when it is asked again for
        a position, at any time; so no log is needed.

        More may come after them, and pages may have other lengths. This holds where rows are only
        added at the end and never changed, and a position says where to go on: an id in `since=`, a
        place in a journal, the number of rows that were read. It does not hold where rows can be
        deleted, changed or put in between (then page numbers shift), for a token that expires or
        can be used once, nor for an ETag: what existed before a change cannot be asked for. A
        checksum in the checkpoint finds a promise that was not kept: then the query ends with a
        `LookupError`, and the batch is not written.

        A batch's pages are asked for in the driver and kept there until the batch is done: so its
        memory bounds `maxRowsPerTrigger`. After a crash, those of one batch are asked for again.
        """
        self._replayable = True
        return self

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that cannot travel to other processes.
        """
        if self._replayable and self._count > 1:
            raise ValueError(
                f"format `{self._name}`: `distributed` is for pages that go through the log; one "
                "thread asks for those of a `replayable` source"
            )
        base = BuiltPageSource if self._replayable else BuiltCursorSource
        options = self._all_options(*([POLL, PAGES] if self._replayable else self._log_options()))
        parts = StreamParts(self._functions(), options, self._schema, None, None)
        text = _WITHOUT_LOG if self._replayable else _WITH_LOG
        doc = text.format(options=options.table(), schema=schema_text(self._schema))
        return data_source(base, doc, parts)

    def _log_options(self) -> list[Option]:
        path, *limits = log_options("rows", "instance")
        path = replace(path, default=None, meaning=f"stream: {path.meaning}; required there")
        share = "stream: how many threads share the splits, each with a log"
        parallelism = Option("parallelism", integer(1, MOST_INSTANCES), self._count, share)
        return [path, parallelism, POLL, *limits]


_WITH_LOG = """Pages of a service, kept in a log: made by `SourceBuilder.cursor`.

Parallelism: `parallelism` threads in the driver ask for pages; tasks read slices of the log, which
    they must see under the same name. `spark.read`: a task for each split.
Replay: any batch that the source has not been told to forget (Spark's commit).
Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink: a page and the
    next position are one frame of the log.

Options:
{options}

Schema: {schema}
"""

_WITHOUT_LOG = """Pages of a service, which can be asked for again: made by `SourceBuilder.cursor`.

Parallelism: one thread in the driver asks for pages; a task for each split takes them over.
    `spark.read`: a task for each split.
Replay: any batch, as long as `read` gives the same pages for the same positions.
Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
    sink.

Options:
{options}

Schema: {schema}
"""
