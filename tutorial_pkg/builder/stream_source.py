"""`SourceBuilder.stream`: rows that functions add, through a log on disk, to Spark.

A row's way: `fill` → `Buffer` → `Instance` (one frame with the snapshot) → one segment log per
instance → `BuiltStreamReader` (offsets, tasks) → record batches.
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

# ---- The data source -----------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamParts(SourceParts):
    """The parts of a stream source."""

    time_column: str | None
    heartbeat_seconds: float | None


class BuiltStreamSource(BuiltSource):
    """The base of the classes that `SourceBuilder.stream` makes."""

    parts: ClassVar[StreamParts]
    reads_log = True

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(BuiltStreamReader(self.parts, schema, self.values()))


class BuiltStreamReader(LogReader):
    """Reads the logs that the instances append to."""

    def __init__(self, parts: StreamParts, schema: StructType, options: OptionValues) -> None:
        super().__init__(options, range(options.parallelism), "instance")
        self._parts, self._schema, self._values = parts, schema, options

    def start_producer(self, logs: LogGroup, backlog: Backlog) -> Instances:
        self._check_time_column()
        column, seconds = self._parts.time_column, self._parts.heartbeat_seconds
        heartbeat = (column, seconds) if column and seconds else None
        plan = Plan(self.functions(), RowPacker(self._schema), self._values, heartbeat)
        return Instances(plan, logs, backlog, self._values.parallelism)

    def functions(self) -> Functions:
        """Return the functions that instances call."""
        return self._parts.functions

    def to_batch(self, found: list[Framed], number: int) -> pa.RecordBatch:
        expected = RowPacker(self._schema).arrow_schema
        logged = [batch for _, payload in found for batch in batches_of(payload)]
        batches = [batch for batch in logged if batch.num_rows] or logged[:1]
        for batch in batches:
            if not batch.schema.equals(expected):
                raise ValueError(
                    f"format `{self._parts.functions.format}`: expected the columns "
                    f"({_columns(expected)}), got ({_columns(batch.schema)}) in the log. Read the "
                    "log to its end with the earlier source (`availableNow`), or start with a new "
                    "log and a new checkpoint"
                )
        if len(batches) == 1:
            return batches[0]
        return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

    def _check_time_column(self) -> None:
        name, column = self._parts.functions.format, self._parts.time_column
        if column is None:
            return
        kinds = {field.name: field.dataType for field in self._schema}
        if not isinstance(kinds.get(column), TimestampType):
            raise ValueError(
                f"format `{name}`: `timestamps` must name a TIMESTAMP column of the schema, got "
                f"{column!r}"
            )
        others = [field.name for field in self._schema if not field.nullable]
        if self._parts.heartbeat_seconds and set(others) - {column}:
            raise ValueError(
                f"format `{name}`: heartbeat rows contain only the time, so all other columns must "
                f"be nullable, got NOT NULL columns {others}"
            )


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


# ---- The builder ---------------------------------------------------------------------------------


class StreamSourceBuilder(InstancesDeclaration[State]):
    """Follows `SourceBuilder.stream(...)`: set functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = 64

    def __init__(self, name: str, schema: Schema, create: Callable[[SourceContext], State]) -> None:
        super().__init__(name, schema, create)
        self._time_column: str | None = None
        self._heartbeat_seconds: float | None = None

    def fill(self, function: Callable[[State, Buffer], object]) -> Self:
        """Set `fill(state, buffer)`, which adds the rows that are available now, and returns.

        It may add none. It is called again at once if it added rows, otherwise after 1 to 50 ms.
        The rows of one call and the snapshot after them become one frame, which is either in the
        log or not. So add some thousand rows at most, and wait for new ones for a second at most.
        If a thread of yours receives the rows, raise its error in `fill`; otherwise the source
        seems to be idle.

        Add complete rows only: while a file is being written, `for line in file` returns half a
        line, and the other half later.
        """
        return self._set("fill", function, "state", "buffer")

    def snapshot(self, function: Callable[[State], Any]) -> Self:
        """Set `snapshot(state)`, which returns the position to resume from, as any JSON value.

        The builder calls it after `create`, after `restore`, and after every `fill` that added rows
        (or called `buffer.keep_place()`). Return the position *after the last row you added*.
        Don't count rows that `fill` has fetched but not yet added: they aren't in the log, so they
        have to be fetched again.
        """
        return self._set("snapshot", function, "state")

    def restore(self, function: Callable[[State, list[Any]], object]) -> Self:
        """Set `restore(state, snapshots)`, which resumes from the positions of the last run.

        `snapshots` has the snapshots of *all* instances, by index, after a round trip through JSON:
        tuples are lists, and the keys of a dict are strings. The last run may have had a different
        number of instances, and different options. So put the name of the server, table or folder
        into the snapshot, and raise `ValueError` here if it is a different one.
        """
        return self._set("restore", function, "state", "snapshots")

    def acknowledge(self, function: Callable[[State, list[Any]], object]) -> Self:
        """Set `acknowledge(state, tokens)`, which confirms rows that are on disk.

        `tokens` are those that you passed to `buffer.add`; rows without a token are never
        confirmed. It runs between two calls of `fill`, in the same thread. If it raises an error,
        it is called again with the same and newer tokens, for half a minute. Then the query ends.
        After a crash, the other side may send rows again that are in the log. To skip them, keep
        the id of the last message in the snapshot.
        """
        return self._set("acknowledge", function, "state", "tokens")

    def timestamps(self, column: str) -> Self:
        """Name the TIMESTAMP column with the event time, for `heartbeat` and `withWatermark`."""
        self._time_column = column
        return self

    def heartbeat(self, seconds: float) -> Self:
        """Add a row with only the current time after this many seconds without a row.

        Spark's watermark follows the newest event time of a source, and the slowest source of a
        union or join. While a source is silent, the watermark stops, and the last windows stay
        open; heartbeats close them. Use them only if the event time is about now: rows older than
        the watermark are dropped.

        To keep heartbeats out of counts, count a column that real rows never leave null:
        `count("number")`, followed by `.where("count > 0")`. Don't filter the rows themselves:
        Spark moves `.where("number IS NOT NULL")` before `withWatermark`, and it would remove the
        heartbeats.
        """
        if not seconds > 0:
            raise ValueError(
                f"format `{self._name}`: `heartbeat` takes seconds, more than 0, got {seconds!r}"
            )
        self._heartbeat_seconds = float(seconds)
        return self

    def build(self) -> type[DataSource]:
        """Return the class for `spark.dataSource.register`.

        Raises:
            ValueError: A function is missing, or cannot be pickled.
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
                f"format `{self._name}`: `heartbeat` needs a time column: add "
                '`.timestamps("column")`'
            )


_DOCUMENTATION = """A stream of rows that functions add, made by `SourceBuilder.stream`.

Parallelism: `parallelism` instances in the driver; tasks read slices of the log, so all machines
    must see its folder under the same name.
Replay: any batch, until Spark has committed it.
Guarantee: {guarantee}

Options:
{options}

Schema: {schema}
"""

_GUARANTEES = {
    "snapshot": "exactly once, with a checkpoint and an idempotent or transactional sink. After a "
    "restart, the source resumes after the last row in the log.",
    "acknowledge": "at least once: rows that were not acknowledged are sent again, even if they "
    "are in the log.",
    "fill": "exactly once from the log on. Rows that were not yet added when the process died are "
    "missing, unless `create` finds them again.",
}


def _documentation(parts: StreamParts) -> str:
    strongest = next(name for name in _GUARANTEES if name in parts.functions)
    guarantee, table = _GUARANTEES[strongest], parts.options.table()
    return _DOCUMENTATION.format(
        guarantee=guarantee, options=table, schema=schema_text(parts.schema)
    )
