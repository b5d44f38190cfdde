"""`SourceBuilder.stream` and `.batch`: rows that functions add.

In a stream a row goes this way: `fill` → `Buffer` → `Instance` (one frame with the snapshot) → a
segment log → `BuiltStreamReader` → record batches. In a batch the instances run in tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader

from tutorial_pkg.builder.context import SourceContext, SplitContext
from tutorial_pkg.builder.declaration import BuiltSource, InstancesDeclaration, Schema, State
from tutorial_pkg.builder.frames import batches_of
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.instances import Instances
from tutorial_pkg.builder.replayable_source import SplitCalls, SplitPartition
from tutorial_pkg.builder.rows import Buffer, RowPacker
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.reader import Framed, LogReader, log_options

MOST_INSTANCES = 64
PAUSE_SECONDS = 0.01  # of a batch, after a `fill` that added nothing


# ---- Streams -------------------------------------------------------------------------------------


class BuiltStreamReader(LogReader):
    """Reads the logs that the instances append to."""

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        super().__init__(context.options, range(context.options.parallelism), "instance")
        self._functions, self._context = functions, context

    def start_producer(self, logs: LogGroup) -> Instances:
        return Instances(self._functions, self._context, logs)

    def to_batch(self, found: list[Framed], number: str) -> pa.RecordBatch:
        expected = RowPacker(self._context.schema).arrow_schema
        logged = [batch for _, payload in found for batch in batches_of(payload)]
        try:
            rows = pa.Table.from_batches([batch for batch in logged if batch.num_rows], expected)
        except pa.ArrowInvalid as error:
            difference = " ".join(str(error).split())
            raise ValueError(
                f"format `{self._functions.format}`: the log has other columns. {difference}. Read "
                "it to its end with the earlier source (`availableNow`), or start with a new log "
                "and a new checkpoint"
            ) from None
        batches = rows.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], expected)


class StreamSourceBuilder(InstancesDeclaration[State]):
    """Follows `SourceBuilder.stream(...)`: set functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = MOST_INSTANCES

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema, create)
        self._time_column: str | None = None
        self._heartbeat_seconds: float | None = None

    def snapshot(self, function: Callable[[State], Any]) -> Self:
        """Set `snapshot(state)`, which returns the position to resume from, as any JSON value.

        The builder calls it after `create`, after `restore`, and after every `fill` that added rows
        (or called `buffer.keep_place()`). Return the position *after the last row you added*: rows
        that `fill` has fetched but not yet added have to be fetched again.
        """
        return self._set("snapshot", function, "state")

    def restore(self, function: Callable[[State, list[Any]], object]) -> Self:
        """Set `restore(state, snapshots)`, which resumes from the positions of the last run.

        `snapshots` has the snapshots of *all* instances, by index. The last run may have had a
        different number of them, and different options: put the name of the server or table into
        the snapshot, and raise `ValueError` here if it is a different one.

        It runs after `create`, but not at the first start. If a connection needs the position, open
        it in the first `fill`.
        """
        return self._set("restore", function, "state", "snapshots")

    def acknowledge(self, function: Callable[[State, list[Any]], object]) -> Self:
        """Set `acknowledge(state, tokens)`, which confirms rows that are on disk.

        `tokens` are those that you passed to `buffer.add`; rows without a token are never
        confirmed. It runs after `fill`, in the same thread. After a crash or an error, the other
        side may send rows again that are in the log. To skip them, keep the id of the last message
        in the snapshot.
        """
        return self._set("acknowledge", function, "state", "tokens")

    def timestamps(self, column: str) -> Self:
        """Name the TIMESTAMP column with the event time, for `heartbeat` and `withWatermark`."""
        self._time_column = column
        return self

    def heartbeat(self, seconds: float) -> Self:
        """Add a row with only the current time after this many seconds without a row.

        It moves the watermark on, so that the last windows close. docs/builder.md explains when to
        use heartbeats, and how to keep them out of counts.
        """
        if not seconds > 0:
            raise ValueError(
                f"format `{self._name}`: `heartbeat` takes seconds, more than 0, got {seconds!r}"
            )
        self._heartbeat_seconds = float(seconds)
        return self

    def build(self) -> type[DataSource]:
        self._require("fill")
        if "snapshot" in self._given or "restore" in self._given:
            self._require("snapshot", "restore")
        column, seconds = self._time_column, self._heartbeat_seconds
        if seconds:
            if not column:
                raise ValueError(
                    f"format `{self._name}`: `heartbeat` needs a time column: add "
                    '`.timestamps("column")`'
                )
            self._given["heartbeat"] = partial(_heartbeat, column, seconds)
        path, *limits = log_options("rows", "instance")
        instances = self._parallelism("how many instances, each with a log and a thread")
        return self._build(
            BuiltSource,
            "Rows that functions add, through a log, made by `SourceBuilder.stream`.",
            next(text for name, text in _GUARANTEES.items() if name in self._given),
            *(path, instances, *limits),
            readers={"stream": BuiltStreamReader},
            reads_log=True,
        )


def _heartbeat(column: str, seconds: float, idle: float) -> dict[str, datetime] | None:
    return {column: datetime.now(UTC)} if idle >= seconds else None


_GUARANTEES = {
    "snapshot": "exactly once",
    "acknowledge": "at least once",
    "fill": "exactly once from the log on",
}


# ---- Batches -------------------------------------------------------------------------------------


class InstanceReader(SplitCalls, DataSourceReader):
    """A task for each instance."""

    def partitions(self) -> list[SplitPartition]:
        count = self.context.options.parallelism
        return [SplitPartition(f"instance {index}", index, count) for index in range(count)]

    def _read(self, part: SplitPartition) -> Iterator[pa.RecordBatch]:
        """Run it from `create` to `destroy`; each `fill` follows when Spark has its rows."""
        functions, context, who = self.functions, self.context, part.split
        own = SourceContext(part.start, part.end, context.options)
        state = functions.call("create", who, own)
        buffer, count = Buffer.of(functions.format, self.context), 0
        with closing_with(lambda: functions.call("destroy", who, state)):
            while not buffer.closed:
                returned = functions.call("fill", who, state, buffer)
                with functions.blamed("fill", who):
                    buffer.check_returned(returned)
                    batches, _ = buffer.take(part.split, part.end, count)
                yield from batches
                count += 1
                if not batches and not buffer.closed:
                    time.sleep(PAUSE_SECONDS)


class BatchSourceBuilder(InstancesDeclaration[State]):
    """Follows `SourceBuilder.batch(...)`: set functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = 10_000

    def build(self) -> type[DataSource]:
        self._require("fill")
        instances = self._parallelism("how many instances, a task each")
        text = "Rows that functions add until they are done, made by `SourceBuilder.batch`."
        readers = {"batch": InstanceReader}
        return self._build(BuiltSource, text, "exactly once", instances, readers=readers)
