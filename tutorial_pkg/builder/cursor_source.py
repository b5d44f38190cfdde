"""`SourceBuilder.cursor`: services that return pages, through a log on disk, or without one.

Through the log it is a stream source, and its `fill` reads the next page (`PageInstance`). Without
a log the pages travel from the driver to the tasks, and are read again when a batch is repeated.
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
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from tutorial_pkg.builder.context import SourceContext, SplitContext
from tutorial_pkg.builder.declaration import BuiltSource, Schema, SplitsDeclaration
from tutorial_pkg.builder.functions import NONE, Functions, closing_with
from tutorial_pkg.builder.instances import Instances
from tutorial_pkg.builder.replayable_source import (
    SOURCE,
    SplitCalls,
    SplitPartition,
    by_name,
    split_text,
)
from tutorial_pkg.builder.rows import Buffer, quoted
from tutorial_pkg.builder.stream_source import MOST_INSTANCES, BuiltStreamReader
from tutorial_pkg.core.json_text import read_json
from tutorial_pkg.core.options import Option, integer
from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from tutorial_pkg.core.waiting import LONGEST, Patience
from tutorial_pkg.durable_log.group import OTHER_SOURCE, LogGroup, LogOffset, Logs
from tutorial_pkg.durable_log.reader import log_options

POLL = Option(
    "pollSeconds",
    integer(0),
    1,
    "stream: how often new splits are looked for, and splits without news are read again",
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


class Pages(SplitCalls):
    """The pages of all splits, in turns; `positions` are those of the next unread pages.

    One of several instances reads its share of the splits, by a hash of their names. A split at its
    end waits for the next look. With `availableNow` there is only one look.
    """

    def __init__(
        self, functions: Functions, context: SplitContext, index: int = 0, count: int = 1
    ) -> None:
        super().__init__(functions, context)
        self.positions: dict[str, Any] = {}
        self.begun = False
        self.dead_letters = 0
        self._index, self._count = index, count
        self._unfinished: list[str] = []
        self._look_at = 0.0

    def mine(self, splits: dict[str, Any]) -> dict[str, Any]:
        mine = [name for name in splits if zlib.crc32(name.encode()) % self._count == self._index]
        return {name: splits[name] for name in mine}

    def look_if_due(self) -> None:
        if time.monotonic() >= self._look_at:
            self.look()

    def look(self) -> None:
        """See which splits exist; one that has vanished keeps its position."""
        offset = dict(self.positions) if self.begun or self.positions else None
        answer = self.ask("splits", SOURCE, offset=offset)
        with self.functions.blamed("splits", SOURCE):
            if not isinstance(answer, str | Mapping):
                answer = dict.fromkeys(answer)
            splits = self.mine(by_name(answer))
            firsts = {split: normalized(first) for split, first in splits.items()}
        self.begun, self.positions = True, firsts | self.positions
        unfinished = [split for split in self._unfinished if split in firsts]
        self._unfinished = list(dict.fromkeys([*unfinished, *firsts]))
        pause = math.inf if self.context.draining else self.context.options.pollSeconds
        self._look_at = time.monotonic() + pause

    def next_page(self) -> Page | None:
        """Return the next page, perhaps without rows; None if all splits are at their end."""
        if not self._unfinished:
            return None
        split = self._unfinished.pop(0)
        page = self.page(split, self.positions[split])
        self.positions[split] = page.end
        if page.end != page.start:
            self._unfinished.append(split)
        return page

    def pages(self, split: str, position: Any) -> Iterator[Page]:
        """Yield the pages of one split from `position` on, until there is nothing more."""
        page = self.page(split, position)
        while page.end != page.start:
            yield page
            page = self.page(split, page.end)

    def page(self, split: str, position: Any) -> Page:
        return self.retries.patiently(lambda: self._page(split, position), self.close)

    def _page(self, split: str, position: Any) -> Page:
        who = f"{split_text(split)} at position {position!r}"
        own = normalized(position)  # which the function may change
        answer = self.functions.call("read", who, self.open(), split, own)
        with self.functions.blamed("read", who):
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise TypeError(f"expected (rows, next position), got {quoted(answer)}")
            buffer = Buffer.of(self.functions.format, self.context)
            batches = list(buffer.pack_all(answer[0], split, position))
            self.dead_letters += buffer.dead_letters
            page = Page(split, position, normalized(answer[1]), batches)
            if page.rows and page.end == position:
                raise ValueError(
                    "it returned rows and the same position, so the rows would be read again and "
                    "again; return the position after them, such as the page's number and how many "
                    "rows of it you have returned"
                )
            if page.end in (None, "") and (page.rows or position not in (page.end, None)):
                raise ValueError(
                    f"the next position is {page.end!r}, where a source begins; at the end of the "
                    "pages return no rows and the same position"
                )
            return page


def normalized(position: Any) -> Any:
    """Return a position as a checkpoint will: a tuple is a list then."""
    return read_json(json.dumps(position, allow_nan=False))


# ---- Through the log -----------------------------------------------------------------------------


class PageBatchReader(Pages, DataSourceReader):
    def partitions(self) -> list[SplitPartition]:
        with closing_with(self.close):
            self.look()
        return [SplitPartition(split, first, None) for split, first in self.positions.items()]

    def _read(self, part: SplitPartition) -> Iterator[pa.RecordBatch]:
        for page in self.pages(part.split, part.start):
            yield from page.batches


class PageInstance(Pages):
    """The state of an instance. After a transient error the instance starts over."""

    def __init__(self, functions: Functions, context: SplitContext, own: SourceContext) -> None:
        super().__init__(replace(functions, retries=NONE), context, own.index, own.count)
        self._recorded = set[str]()  # splits with a position in a snapshot

    def fill(self, buffer: Buffer) -> None:
        self.look_if_due()
        page = self.next_page()
        for batch in page.batches if page else ():
            buffer.add_batch(batch)
        buffer.dead_letters, self.dead_letters = self.dead_letters, 0
        if self.positions.keys() != self._recorded:
            buffer.keep_place()
        if page is None and self.context.draining:
            buffer.close()

    def snapshot(self) -> dict[str, Any]:
        """Look before the first page, too: after a restart the splits may begin elsewhere."""
        if not self.positions:
            self.look()
        self._recorded = set(self.positions)
        return self.positions

    def restore(self, snapshots: list[dict[str, Any]]) -> None:
        self.begun = True  # even if no split is its own
        for positions in snapshots:
            self.positions |= self.mine(positions)


class CursorReader(BuiltStreamReader):
    """With the trigger `availableNow` it goes to the end of each split, once, and then stops."""

    def open_logs(self) -> Logs:
        if self._context.options.path is None:  # which `spark.read` does not need
            raise ValueError(
                f"format `{self._functions.format}`: option `path` is missing; a stream keeps its "
                "pages in a log on disk: name its folder in `load(path)`"
            )
        return super().open_logs()

    def start_producer(self, logs: LogGroup) -> Instances:
        pages: dict[str, Any] = {
            "create": partial(PageInstance, self._functions, self._context),
            "fill": PageInstance.fill,
            "snapshot": PageInstance.snapshot,
            "restore": PageInstance.restore,
            "destroy": PageInstance.close,
        }
        return Instances(replace(self._functions, given=pages), self._context, logs)

    def prepareForTriggerAvailableNow(self) -> None:
        self._context = replace(self._context, draining=True)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._context.draining:
            self._wait_for_pages(self._checked(start))
        return super().latestOffset(start, limit)

    def _wait_for_pages(self, begin: LogOffset) -> None:
        """Return when there are some, or all have come: the same offset would end the query."""
        self._logs().processed(begin)
        while self._drain_to is None:
            self._produce()
            ended = isinstance(self._producer, Instances) and self._producer.ended
            newest = self._logs().sync()
            if ended:
                self._drain_to = newest
            elif newest.positions != begin.positions:
                return
            else:
                self._logs().wait_for_more(begin, LONGEST)


# ---- Without a log -------------------------------------------------------------------------------


class PageReader(Pages, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset has the splits' positions and, for its batch, each split's start and row count.

    So a batch can be repeated from its end alone. Pages without rows move no offset.
    """

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        super().__init__(functions, context)
        self._max_rows: int = context.options.maxRowsPerTrigger
        self._start = self._end = dict[str, Any]()  # of the planned batch
        self._fetched: dict[str, list[pa.RecordBatch]] = {}  # its rows, by split
        self._patience = Patience()

    def initialOffset(self) -> dict[str, Any]:
        return {"positions": {}, "batch": {}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.context = replace(self.context, draining=True)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._start != start or self._end == start:
            self._patience.wait()
            self._plan(start, math.inf if isinstance(limit, ReadAllAvailable) else self._max_rows)
            self._patience.answer(self._end != start)
        return self._end

    def _plan(self, start: dict[str, Any], most: float) -> None:
        """Fetch pages until there are `most` rows, or a second has passed."""
        known = _positions_of(start)
        self.positions = known | self.positions
        self.look_if_due()
        self._fetched, batch, total = {}, dict[str, list[Any]](), 0
        unlimited = most == math.inf or self.context.draining
        deadline = time.monotonic() + (math.inf if unlimited else FETCH_SECONDS)
        while total < most and not (total and time.monotonic() >= deadline):
            page = self.next_page()
            if page is None:
                break
            if page.rows:
                self._fetched.setdefault(page.split, []).extend(page.batches)
                first, rows = batch.get(page.split, (page.start, 0))
                batch[page.split] = [first, rows + page.rows]
                total += page.rows
        moved = batch or self.positions.keys() != known.keys()
        end = {"positions": dict(self.positions), "batch": batch}
        self._start, self._end = start, end if moved else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[SplitPartition]:
        """Hand the rows to the tasks. Without them, another process has planned the batch."""
        _positions_of(end)
        fetched = self._fetched if self._end == end else {}
        return [
            SplitPartition(split, first, rows, payload=fetched.get(split))
            for split, (first, rows, *_) in end["batch"].items()  # formerly with a checksum
        ]

    def _read(self, part: SplitPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows, or read them again. Raises `LookupError` if there are fewer now."""
        if part.payload is not None:
            yield from part.payload
            return
        remaining = part.end
        for page in self.pages(part.split, part.start):
            for batch in page.batches:
                yield batch.slice(0, remaining)
                remaining -= min(remaining, batch.num_rows)
            if not remaining:
                return
        raise LookupError(
            f"{split_text(part.split)}: {remaining} of the {part.end} rows from position "
            f"{part.start!r} on are gone, so the batch cannot be repeated. Keep such pages in a "
            "log: build the source without `.replayable()`, and start with a new checkpoint"
        )

    def stop(self) -> None:
        self.close()


def _positions_of(offset: dict[str, Any]) -> dict[str, Any]:
    if offset.keys() != {"positions", "batch"}:
        raise ValueError(OTHER_SOURCE)
    positions: dict[str, Any] = offset["positions"]
    return positions


# ---- The builder ---------------------------------------------------------------------------------


class CursorSourceBuilder(SplitsDeclaration):
    """Follows `SourceBuilder.cursor(...)`: set functions, then `build()` the `DataSource`."""

    def __init__(self, name: str, schema: Schema, read: Read) -> None:
        super().__init__(name, schema)
        self._count = 1
        self._replayable = False
        self._set("read", read, "context", "split", "position")
        self._set("splits", lambda context: ["all"], "context")

    def splits(self, function: Splits) -> Self:
        """Set `splits(context)`, which names the splits. Each has its own pages.

        Return a list of names, or a dict with first positions. It is called every `pollSeconds`:
        new splits join, vanished ones keep their position. Without it there is one split, `all`.
        """
        return self._set("splits", function, "context", may_yield=True)

    def distributed(self, count: int) -> Self:
        """Share the splits between `count` threads, unless the option `parallelism` says otherwise.

        Each has its own log and connection. With `.replayable()`, one thread reads all pages.
        """
        self._check_count(count, MOST_INSTANCES)
        self._count = count
        return self

    def replayable(self) -> Self:
        """Do without a log: `read` returns the same rows in the same order for the same position.

        docs/builder.md says where that holds. The driver keeps the pages of a batch in memory until
        it is done.
        """
        self._replayable = True
        return self

    def build(self) -> type[DataSource]:
        if self._replayable and self._count > 1:
            raise ValueError(
                f"format `{self._name}`: one thread reads the pages of a `replayable` source; "
                "leave out `distributed`"
            )
        text = "Pages of a service, made by `SourceBuilder.cursor`."
        own = [POLL, PAGES] if self._replayable else self._log_options()
        logs = not self._replayable
        readers = {"batch": PageBatchReader, "stream": CursorReader if logs else PageReader}
        return self._build(BuiltSource, text, "exactly once", *own, readers=readers, reads_log=logs)

    def _log_options(self) -> list[Option]:
        path, *limits = log_options("rows", "instance")
        path = replace(path, default=None, meaning=f"stream: {path.meaning}; required there")
        share = "stream: how many threads share the splits, each with a log"
        threads = Option("parallelism", integer(1, MOST_INSTANCES), self._count, share)
        return [path, threads, POLL, *limits]
