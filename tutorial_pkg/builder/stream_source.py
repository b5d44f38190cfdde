"""`SourceBuilder.stream`: rows that functions add, through a log on disk, to Spark.

A row's way: `fill` → `Buffer` → `Instance` (one frame with the snapshot) → the segment log of
`durable_log`, one for each instance → `BuiltStreamReader` (offsets, tasks) → record batches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType, TimestampType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.built import BuiltSource, Schema, SourceParts, data_source, schema_text
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.declaration import InstancesDeclaration, State
from tutorial_pkg.builder.frames import batches_of
from tutorial_pkg.builder.functions import Functions
from tutorial_pkg.builder.instance import Plan
from tutorial_pkg.builder.instances import Instances
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.spark_versions import stream_reader
from tutorial_pkg.durable_log.group import Backlog, LogGroup
from tutorial_pkg.durable_log.reader import Framed, LogReader, log_options

# ---- What is built -------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamParts(SourceParts):
    """What the builder was given."""

    time_column: str | None
    heartbeat_seconds: float | None


class BuiltStreamSource(BuiltSource):
    """The base of the classes that `SourceBuilder.stream` makes."""

    parts: ClassVar[StreamParts]
    reads_log = True

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(BuiltStreamReader(self.parts, schema, self.values()))


class BuiltStreamReader(LogReader):
    """A log for each instance; their `fill` functions append to them."""

    def __init__(self, parts: StreamParts, schema: StructType, options: OptionValues) -> None:
        super().__init__(options, range(options.parallelism), "instance")
        self._parts, self._schema, self._values = parts, schema, options

    def start_producer(self, logs: LogGroup, backlog: Backlog) -> Instances:
        _check_time(self._parts, self._schema)
        column, seconds = self._parts.time_column, self._parts.heartbeat_seconds
        heartbeat = (column, seconds) if column and seconds else None
        plan = Plan(self.functions(), RowPacker(self._schema), self._values, heartbeat)
        return Instances(plan, logs, backlog, self._values.parallelism)

    def functions(self) -> Functions:
        """What the instances call."""
        return self._parts.functions

    def to_batch(self, found: list[Framed], number: int) -> pa.RecordBatch:
        wanted = RowPacker(self._schema).arrow_schema
        all_of_them = [batch for _, payload in found for batch in batches_of(payload)]
        batches = [each for each in all_of_them if each.num_rows] or all_of_them[:1]
        for batch in batches:
            if not batch.schema.equals(wanted):
                raise ValueError(_schema_text(self._parts, batch.schema, wanted))
        return batches[0] if len(batches) == 1 else _joined(batches)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _schema_text(parts: StreamParts, logged: pa.Schema, wanted: pa.Schema) -> str:
    return (
        f"format `{parts.functions.format}`: the log holds rows with the columns "
        f"({_columns(logged)}), but the source has ({_columns(wanted)}) now. Read the log to its "
        "end with the old source (`availableNow`), or start anew with a new log and checkpoint"
    )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _check_time(parts: StreamParts, schema: StructType) -> None:
    name = parts.functions.format
    if parts.time_column is None:
        return
    kinds = {field.name: field.dataType for field in schema}
    if not isinstance(kinds.get(parts.time_column), TimestampType):
        raise ValueError(
            f"format `{name}`: `timestamps` must name a TIMESTAMP column of the schema, got "
            f"{parts.time_column!r}"
        )
    others = [field.name for field in schema if not field.nullable]
    if parts.heartbeat_seconds and set(others) - {parts.time_column}:
        raise ValueError(
            f"format `{name}`: a heartbeat has nothing but the time, so no other column may be NOT "
            f"NULL: {others}"
        )


# ---- The builder ---------------------------------------------------------------------------------


class StreamSourceBuilder(InstancesDeclaration[State]):
    """What follows `SourceBuilder.stream(...)`: give functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = 64

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema, create)
        self._time_column: str | None = None
        self._heartbeat_seconds: float | None = None

    def fill(self, function: Callable[[State, Buffer], object]) -> Self:
        """`fill(state, buffer)` adds the rows that are available now, and returns; none is fine.

        It is called again immediately if it added something, otherwise after a pause of 1 to 50 ms.
        The rows of one call and the snapshot after them are one frame: both are in the log, or
        neither is. So add some thousand rows at most, and wait for new ones for a second at most.
        If a thread of yours receives them, have `fill` raise the error that ended it. Otherwise the
        source merely looks idle.

        Add only what is complete: of a file that is being written, `for line in file` gives half a
        line, and the other half later. Keep what has no line end yet, or use `file_lines`.
        """
        return self._set("fill", function, "state", "buffer")

    def snapshot(self, function: Callable[[State], Any]) -> Self:
        """`snapshot(state)` returns where the source stands: anything that JSON can hold.

        It is called after `create` and `restore`, and after each `fill` that added rows or said
        `buffer.keep_place()`. It must not be ahead of them: what `fill` has taken and keeps for
        later is in no log, so after a restart it must be taken again.
        """
        return self._set("snapshot", function, "state")

    def restore(self, function: Callable[[State, list[Any]], object]) -> Self:
        """`restore(state, snapshots)` goes to where the last run ended, after a restart.

        `snapshots` is the list of the snapshots of *all* instances, by their index, as JSON gives
        them back: tuples are lists now, and a dict's keys are texts, so 0 is "0". The last run may
        have had another number of instances, and other options: nobody but you can tell whether the
        log in `path` is from the same server, table or folder. So keep its name in the snapshot,
        and raise `ValueError` here for another one.
        """
        return self._set("restore", function, "state", "snapshots")

    def acknowledge(self, function: Callable[[State, list[Any]], object]) -> Self:
        """`acknowledge(state, tokens)`: the rows that were added with these tokens are on disk.

        Rows added without a token are never confirmed, and the other side may send them again.
        It runs between two calls of `fill`, in the same thread. When it raises, it is called
        again with the same tokens and newer ones, for half a minute; then the query ends with that
        error. A crash may come between the write to disk and the call, so the other side may send
        those rows again: keep the last message's id in the snapshot, and skip what you have seen.
        """
        return self._set("acknowledge", function, "state", "tokens")

    def timestamps(self, column: str) -> Self:
        """The TIMESTAMP column with the rows' event time: the one for `withWatermark`.

        Its type is checked when a query starts; `heartbeat` sets it.
        """
        self._time_column = column
        return self

    def heartbeat(self, seconds: float) -> Self:
        """After this many seconds without a row, an instance adds a row with only the current time.

        Spark's watermark follows the newest event time among the rows of a source, and the slowest
        one among several sources in one query (a union, a join). A source that falls silent holds
        the watermark back, and the last windows stay open; heartbeats close them. So they are for
        sources whose event time is about now: rows that are older than the watermark are dropped.

        Keep heartbeats out of counts by a column that real rows never leave null:
        `count("number")`, and after it `.where("count > 0")`. Filtering the rows themselves would
        not do: Spark moves `.where("number IS NOT NULL")` in front of `withWatermark`, and there it
        takes the heartbeats away.
        """
        if not seconds > 0:
            raise ValueError(
                f"format `{self._name}`: `heartbeat` takes seconds, more than 0, got {seconds!r}"
            )
        self._heartbeat_seconds = float(seconds)
        return self

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that are missing, or cannot travel to other processes.
        """
        self._check()
        parallelism = self._parallelism("how many instances, each with a log and a thread")
        path, *limits = log_options("rows", "instance")
        options = self._all_options(path, parallelism, *limits)
        time = self._time_column, self._heartbeat_seconds
        parts = StreamParts(self._functions(), options, self._schema, *time)
        return data_source(BuiltStreamSource, _documentation(parts), parts)

    def _check(self) -> None:
        self._require("fill")
        if "snapshot" in self._given or "restore" in self._given:
            self._require("snapshot", "restore")
        if self._heartbeat_seconds and not self._time_column:
            raise ValueError(
                f"format `{self._name}`: `heartbeat` needs to know the time's column: add "
                '`.timestamps("column")`'
            )


_DOCUMENTATION = """A stream of rows that functions add: made by `SourceBuilder.stream`.

Parallelism: `parallelism` instances in the driver; tasks read slices of the log, which they must
    see under the same name.
Replay: any batch that the source has not been told to forget (Spark's commit).
Guarantee: {guarantee}

Options:
{options}

Schema: {schema}
"""

_GUARANTEES = {
    "snapshot": "exactly once, with a checkpoint and an idempotent or transactional sink: after a "
    "restart `restore` goes to the snapshot that belongs to the last row in the log.",
    "acknowledge": "at least once: what was not acknowledged is sent again, also if it is in the "
    "log already.",
    "fill": "exactly once from the log on. What had not been added when the process died is "
    "missing, unless `create` finds it again.",
}


def _documentation(parts: StreamParts) -> str:
    strongest = next(name for name in _GUARANTEES if name in parts.functions)
    guarantee, table = _GUARANTEES[strongest], parts.options.table()
    return _DOCUMENTATION.format(
        guarantee=guarantee, options=table, schema=schema_text(parts.schema)
    )
