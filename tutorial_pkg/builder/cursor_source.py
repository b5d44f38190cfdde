"""`SourceBuilder.cursor`: services that return pages, through a log on disk, or without one.

Through the log it is a stream source whose `fill` reads the next page (`PageInstance`). Without a
log the pages travel from the driver to the tasks, and are read again when a batch is repeated.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.built import Schema, data_source, documented
from tutorial_pkg.builder.context import SourceContext, Split, SplitContext
from tutorial_pkg.builder.declaration import SplitsDeclaration
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.instances import Instances
from tutorial_pkg.builder.replayable_source import ReplayableParts, SplitBatchReader
from tutorial_pkg.builder.retries import NONE
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.builder.splits import (
    SOURCE,
    SplitCalls,
    add,
    mapped,
    rows_of,
    shortened,
    split_text,
)
from tutorial_pkg.builder.stream_source import BuiltStreamReader, BuiltStreamSource, StreamParts
from tutorial_pkg.core.json_text import read_json
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
    "stream: a split that had nothing new is read again this long after that, and new splits are "
    "looked for",
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
    """The splits of a source that names none."""
    return ["all"]


# ---- Pages ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """The rows of a split from `start` to `end`, where the next page begins."""

    split: str
    start: Any
    end: Any
    batches: list[pa.RecordBatch]

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class PageCalls(SplitCalls):
    """Calls `splits` and `read`, and checks what they return. Raises `FunctionError`."""

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        super().__init__(functions, context)
        self._packer = RowPacker(context.schema)

    def begins(self, positions: dict[str, Any]) -> dict[str, Any]:
        """Return the current splits, with the positions of their first pages."""
        answer = self.ask("splits", SOURCE, offset=positions)
        with self.functions.blamed("splits", SOURCE):
            if not isinstance(answer, str | Mapping):
                answer = dict.fromkeys(answer)
            return {split: normalized(first) for split, first in mapped(answer).items()}

    def page(self, split: str, position: Any) -> Page:
        """Return the page at `position`. The next one must begin after its rows."""
        return self.retries.patiently(lambda: self._page(split, position), self.close)

    def _page(self, split: str, position: Any) -> Page:
        who = f"{split_text(split)} at position {position!r}"
        own = normalized(position)  # which the function may change
        answer = self.functions.call("read", who, self.open(), split, own)
        with self.functions.blamed("read", who):
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise TypeError(f"expected (rows, next position), got {shortened(answer)}")
            buffer = Buffer(self._packer)
            for row in rows_of(answer[0]):
                add(row, buffer)
            page = Page(split, position, normalized(answer[1]), buffer.take()[0])
            if page.rows and page.end == position:
                raise ValueError(_SAME_POSITION)
            if page.end in (None, "") and (page.rows or position not in (page.end, None)):
                raise ValueError(_NO_POSITION.format(end=page.end))
            return page

    def pages(self, split: str, position: Any) -> Iterator[Page]:
        """Yield the pages from `position` on, until there is nothing more."""
        page = self.page(split, position)
        while page.end != page.start:
            yield page
            page = self.page(split, page.end)


def normalized(position: Any) -> Any:
    """Return a position as a checkpoint will: a tuple is a list then."""
    return read_json(json.dumps(position, allow_nan=False))


_SAME_POSITION = (
    "the page has rows, but the next position is the same, so the rows would be read again and "
    "again; return one after them. For a page that still grows, that is its number and how many of "
    "its rows there were"
)
_NO_POSITION = (
    "the next position is {end!r}, which is where a source begins; at the end of the pages return "
    "no rows and the same position, and after a last page one from which to continue"
)


class Walk:
    """Walks from page to page; the split that has waited longest comes first.

    `positions` are those of the next unread pages. A split without anything new is read again
    `pause` seconds later; with an infinite pause a walk ends when each has been at its end once.
    """

    def __init__(
        self,
        calls: PageCalls,
        pause: float,
        is_mine: Callable[[str], bool] = lambda split: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.positions: dict[str, Any] = {}
        self._calls, self._pause, self._is_mine, self._clock = calls, pause, is_mine, clock
        self._due: dict[str, float] = {}  # by split; the last one read is the last one here
        self._look_at = 0.0

    def go_to(self, positions: dict[str, Any]) -> None:
        """Continue an earlier walk; other walks have the other splits."""
        self.positions |= {split: at for split, at in positions.items() if self._is_mine(split)}

    def next_page(self) -> Page | None:
        """Return the next page of a split, perhaps without rows; None if no split is due."""
        if self._clock() >= self._look_at:
            self.look()
        now = self._clock()
        split = min(self._due, key=self._due.__getitem__, default=None)
        if split is None or self._due[split] > now:
            return None
        page = self._calls.page(split, self.positions[split])
        self.positions[split] = page.end
        del self._due[split]
        self._due[split] = now if page.end != page.start else now + self._pause
        return page

    def look(self) -> None:
        """See which splits exist; one that has vanished keeps its position."""
        now = self._clock()
        begins = self._calls.begins(self.positions)
        mine = {split: first for split, first in begins.items() if self._is_mine(split)}
        self.positions = mine | self.positions
        self._due = {split: self._due.get(split, now) for split in mine}
        self._look_at = now + self._pause

    def close(self) -> None:
        self._calls.close()


# ---- Through the log -----------------------------------------------------------------------------


class BuiltCursorSource(BuiltStreamSource):
    """The base of the classes that `SourceBuilder.cursor` makes."""

    def reader(self, schema: StructType) -> SplitBatchReader:
        """Make a task of each split, as a replayable source does."""
        functions = self.parts.functions
        whole: dict[str, Any] = {
            "look": partial(_splits, functions),
            "read": partial(_rows, functions),
        }
        parts = ReplayableParts(
            replace(functions, given=whole), self.parts.options, self.parts.schema
        )
        return SplitBatchReader(parts, schema, self.values())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self.values()
        if not self.reads_log:
            return stream_reader(BuiltPageReader(self.parts.functions, schema, options))
        if options.path is None:  # which `spark.read` does not need
            raise ValueError(
                f"format `{self.name()}`: option `path` is missing; a stream keeps its pages in a "
                "log on disk: name its folder in `load(path)`"
            )
        return stream_reader(BuiltCursorReader(self.parts, schema, options))


def _splits(functions: Functions, context: SplitContext) -> dict[str, Split]:
    calls = PageCalls(functions, context)
    with closing_with(calls.close):
        begins = calls.begins({})
    return {split: Split(0, 1, payload=[first]) for split, first in begins.items()}


def _rows(
    functions: Functions, context: SplitContext, split: str, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    calls, [first] = PageCalls(functions, context), context.payload
    with closing_with(calls.close):
        for page in calls.pages(split, first):
            yield from page.batches


class PageInstance(Walk):
    """The state of an instance, which reads the splits whose names fall to its share.

    The instance starts over after a transient error, so nothing is retried here.
    """

    def __init__(
        self, parts: StreamParts, schema: StructType, pause: float, context: SourceContext
    ) -> None:
        functions = replace(parts.functions, retries=NONE)
        calls = PageCalls(functions, SplitContext(context.options, schema=schema))
        super().__init__(calls, pause, partial(_falls_to, context))
        self._ends = pause == math.inf
        self._recorded = set[str]()  # splits whose positions are in a snapshot

    def fill(self, buffer: Buffer) -> None:
        page = self.next_page()
        for batch in page.batches if page else ():
            buffer.add_batch(batch)
        if self.positions.keys() != self._recorded:
            buffer.keep_place()
        if page is None and self._ends:
            buffer.close()

    def snapshot(self) -> dict[str, Any]:
        """Look before the first page, too: after a restart the splits may begin elsewhere."""
        if not self.positions:
            self.look()
        self._recorded = set(self.positions)
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
        pages: dict[str, Any] = {
            "create": partial(PageInstance, self._parts, self._schema, self._pause),
            "fill": PageInstance.fill,
            "snapshot": PageInstance.snapshot,
            "restore": PageInstance.restore,
            "destroy": PageInstance.close,
        }
        return replace(self._parts.functions, given=pages)

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
    """A split's rows in one batch. Without them, another process has planned the batch."""

    split: str
    start: Any
    rows: int
    checksum: int
    batches: list[pa.RecordBatch] | None


@dataclass(frozen=True)
class Planned:
    """A batch: its offsets, and the rows between them by split."""

    start: dict[str, Any]
    end: dict[str, Any]
    batches: dict[str, list[pa.RecordBatch]]


class BuiltPageReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset has the splits' positions and, for its batch, its start, row count and checksum.

    So a batch can be repeated from its end alone: the end says how many rows follow its start.
    There may be more rows now, also on the same page; different rows are an error. Pages without
    rows move no offset. A new split enters the offset where it begins.
    """

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        outlive_ctrl_c()
        self._calls = PageCalls(functions, SplitContext(options, schema=schema))
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
        if self._walk is None:
            self._walk = Walk(self._calls, self._pause)
            self._walk.go_to(known)
        most = math.inf if isinstance(limit, ReadAllAvailable) else self._max_rows
        seconds = math.inf if math.inf in (most, self._pause) else FETCH_SECONDS
        firsts: dict[str, Any] = {}
        batches: dict[str, list[pa.RecordBatch]] = {}
        for page in _up_to(self._walk, most, seconds):
            firsts.setdefault(page.split, page.start)
            batches.setdefault(page.split, []).extend(page.batches)
        batch = {
            split: [first, sum(rows.num_rows for rows in batches[split]), checksum(batches[split])]
            for split, first in firsts.items()
        }
        moved = batch or self._walk.positions.keys() != known.keys()
        end = {"positions": dict(self._walk.positions), "batch": batch}
        return Planned(start, end if moved else start, batches)

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
        remaining, total = part.rows, 0
        with closing_with(self._calls.close):
            for page in self._calls.pages(part.split, part.start):
                for batch in page.batches:
                    rows = batch.slice(0, remaining)
                    remaining, total = remaining - rows.num_rows, checksum([rows], total)
                    yield rows
                if not remaining:
                    break
        if remaining or total != part.checksum:
            raise LookupError(_CHANGED.format(split=part.split, start=part.start, rows=part.rows))

    def stop(self) -> None:
        self._calls.close()


def _positions_of(offset: dict[str, Any]) -> dict[str, Any]:
    if offset.keys() != {"positions", "batch"}:
        raise ValueError(OTHER_SOURCE)
    positions: dict[str, Any] = offset["positions"]
    return positions


def _up_to(walk: Walk, most: float, seconds: float) -> Iterator[Page]:
    """Yield pages with rows until there are enough rows, or so long; no split twice at its end."""
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


def checksum(batches: list[pa.RecordBatch], before: int = 0) -> int:
    """Add the rows to the checksum of those before: by value, as the bytes of Arrow may change."""
    for batch in batches:
        for row in batch.to_pylist():
            before = zlib.crc32(repr(row).encode(), before)
    return before


_CHANGED = (
    "split `{split}`: the {rows} rows from position {start!r} on have changed since the batch was "
    "planned, so it cannot be repeated. Keep such pages in a log: build the source without "
    "`.replayable()`, and start with a new checkpoint"
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
        """Name with `splits(context)` the splits, each with pages of its own.

        Return a list of names, or a dict with first positions. It is called again every
        `pollSeconds`: new splits join, vanished ones keep their position. Without this function
        there is one split, `all`, that begins at None.
        """
        return self._set("splits", function, "context", may_yield=True)

    def distributed(self, count: int) -> Self:
        """Share the splits between `count` threads, unless the option `parallelism` says otherwise.

        Each has a log of its own, and a connection. Not with `.replayable()`: there one thread
        reads all pages.
        """
        self._check_count(count, MOST_INSTANCES)
        self._count = count
        return self

    def replayable(self) -> Self:
        """Do without a log: `read` returns the same rows, in the same order, for the same position.

        You promise that for as long as the query may repeat a batch. There may be more rows after
        them, and pages may have other lengths. It holds where rows are only added at the end and
        never changed, and a position says where to continue: an id in `since=`, a place in a
        journal, the number of rows read. It does not hold where rows can be deleted, changed or
        inserted (then page numbers shift), for a token that expires or works once, nor for an ETag.
        A checksum in the checkpoint finds a broken promise: the query ends with a `LookupError`,
        and the batch is not written.

        The driver reads a batch's pages and keeps them until the batch is done, so its memory
        bounds `maxRowsPerTrigger`. After a crash, the pages of one batch are read again.
        """
        self._replayable = True
        return self

    def build(self) -> type[DataSource]:
        """Make the class for `spark.dataSource.register`.

        Raises `ValueError` for functions that cannot be pickled.
        """
        if self._replayable and self._count > 1:
            raise ValueError(
                f"format `{self._name}`: `distributed` is for pages that go through the log; one "
                "thread reads those of a `replayable` source"
            )
        options = self._all_options(*([POLL, PAGES] if self._replayable else self._log_options()))
        parts = StreamParts(self._functions(), options, self._schema, None, None)
        doc = documented(_WITHOUT_LOG if self._replayable else _WITH_LOG, parts)
        return data_source(BuiltCursorSource, doc, parts, reads_log=not self._replayable)

    def _log_options(self) -> list[Option]:
        path, *limits = log_options("rows", "instance")
        path = replace(path, default=None, meaning=f"stream: {path.meaning}; required there")
        share = "stream: how many threads share the splits, each with a log"
        parallelism = Option("parallelism", integer(1, MOST_INSTANCES), self._count, share)
        return [path, parallelism, POLL, *limits]


_WITH_LOG = """Pages of a service, kept in a log: made by `SourceBuilder.cursor`.

Parallelism: `parallelism` threads in the driver read pages; tasks read slices of the log, which
    they must see under the same name. `spark.read`: a task for each split.
Replay: any batch that Spark has not committed yet.
Guarantee: exactly once, with a checkpoint and an idempotent or transactional sink: a page and the
    next position are one frame of the log.
"""

_WITHOUT_LOG = """Pages of a service, which can be read again: made by `SourceBuilder.cursor`.

Parallelism: one thread in the driver reads pages; a task for each split takes them over.
    `spark.read`: a task for each split.
Replay: any batch, as long as `read` returns the same rows for the same positions.
Guarantee: exactly once, on that condition, with a checkpoint and an idempotent or transactional
    sink.
"""
