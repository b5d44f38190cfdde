"""`SinkBuilder`: a stream's rows, put where your functions say, in one step or in two."""

from __future__ import annotations

import copy
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    MapType,
    StructType,
    UserDefinedType,
)

from tutorial_pkg.builder.built import Built, Parts, data_source
from tutorial_pkg.builder.context import BatchContext, SinkContext, TargetContext
from tutorial_pkg.builder.declaration import Declaration, State
from tutorial_pkg.builder.functions import Functions, as_cause, closing_with, ran
from tutorial_pkg.core.errors import NOT_THEIRS
from tutorial_pkg.core.spark_versions import DataSourceStreamArrowWriter
from tutorial_pkg.core.worker import freeze_imports, task_property, this_task

NewState = TypeVar("NewState")
_SPARKS_OWN = {"memory", "foreach", "foreachbatch"}  # which `writeStream` does not look up
KEPT_ROWS = 10_000
# Values that `receive` could change.
_CHANGEABLE = (ArrayType, MapType, StructType, BinaryType, UserDefinedType)

# ---- What is built -------------------------------------------------------------------------------


@dataclass(frozen=True)
class SinkParts(Parts):
    """What the builder was given; `overwrite` says whether a batch may replace what is there."""

    overwrite: bool


class BuiltSink(Built):
    """The base of the classes that `SinkBuilder.stream` makes."""

    parts: ClassVar[SinkParts]

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        kind = StreamWriter if "receive" in self.parts.functions else ArrowStreamWriter
        return kind(self.parts.functions, self._target(schema, overwrite, streaming=True))

    def _target(self, schema: StructType, overwrite: bool, streaming: bool) -> TargetContext:
        """Raises `ValueError` for what the sink does not take."""
        functions = self.parts.functions
        target = TargetContext(schema, self.values(), streaming, overwrite)
        if overwrite and not self.parts.overwrite:
            raise ValueError(
                f"format `{functions.format}` takes the output mode `append` only; "
                "with `complete` every batch would have to replace all that was written"
            )
        if "check" in functions and ran("check", functions.given["check"](target)) is False:
            raise ValueError(
                f"format `{functions.format}`: `check` returned False; it must raise `ValueError`"
            )
        return target


class BuiltJobSink(BuiltSink):
    """The base of those that `.also_batch()` makes; the others have no `writer` at all."""

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        kind = JobWriter if "receive" in self.parts.functions else ArrowJobWriter
        return kind(self.parts.functions, self._target(schema, overwrite, streaming=False))


@dataclass
class Flushed(WriterCommitMessage):
    """What a task that succeeded tells the driver: `handle` is what its `flush` returned."""

    query: str
    handle: Any


class Kept:
    """A task's rows, of which the first are kept, so that the task can begin anew with them.

    As many as Spark puts into one record batch, which is in memory anyway. Rows whose values can be
    changed are kept `pickled`, as they were before anybody saw them.
    """

    def __init__(self, rows: Iterator[Any], pickled: bool) -> None:
        self._rows, self._pickled = rows, pickled
        self._first: list[Any] = []
        self._count = 0
        self.written = False

    @property
    def are_all(self) -> bool:
        """Whether no row has passed that is not kept."""
        return self._count <= KEPT_ROWS

    def __iter__(self) -> Iterator[Any]:
        yield from map(pickle.loads, self._first) if self._pickled else self._first
        for rows in self._rows:
            self._count += rows.num_rows if isinstance(rows, pa.RecordBatch) else 1
            if self.are_all:
                self._first.append(pickle.dumps(rows) if self._pickled else rows)
            else:
                self._first.clear()
            yield rows


class SinkWriter:
    """A task: `create`, all rows, `flush`, `destroy`. The driver: `commit` or `abort`."""

    def __init__(self, functions: Functions, target: TargetContext) -> None:
        self._functions, self._target = functions, target
        self._retries = functions.retries.of(target.options)

    def _work(self) -> tuple[str, int]:
        """The query and the micro-batch that this task works for."""
        return task_property("sql.streaming.queryId"), int(task_property("streaming.sql.batchId"))

    def write(self, iterator: Iterator[Any]) -> Flushed:
        freeze_imports()
        changeable = any(isinstance(field.dataType, _CHANGEABLE) for field in self._target.schema)
        kept = Kept(iterator, pickled=changeable and "receive" in self._functions)
        return self._retries.patiently(
            lambda: self._write(kept), also_if=lambda: kept.are_all and not kept.written
        )

    def _write(self, rows: Kept) -> Flushed:
        context = self._context()
        who = f"task {context.index}"
        state = self._functions.call("create", who, context)
        with closing_with(lambda: self._destroy(state, who)):
            self._receive_all(rows, state, who)
            handle = self._flush(state, who)
            rows.written = True
        return Flushed(context.query, handle)

    def _context(self) -> SinkContext:
        target, index = self._target, this_task().partitionId()
        options = copy.deepcopy(target.options)  # which `create` may change
        return SinkContext(*self._work(), index, options, target.streaming, target.overwrite)

    def _receive_all(self, kept: Kept, state: Any, who: str) -> None:
        name = "receive" if "receive" in self._functions else "receive_batch"
        receive: Callable[[Any, Any], object] = self._functions.given[name]
        waits = "flush" in self._functions  # for what `receive` has begun
        for rows in kept:  # whose errors are not those of `receive`
            try:
                ran(name if waits else "flush", receive(state, rows))
            except NOT_THEIRS:
                raise
            except BaseException as error:
                raise self._functions.failure(name, who, error) from as_cause(error)

    def _flush(self, state: Any, who: str) -> Any:
        if "flush" not in self._functions:
            return None
        handle = self._functions.call("flush", who, state)
        with self._functions.blamed("flush", who):
            cloudpickle.dumps(handle)
        return handle

    def _destroy(self, state: Any, who: str) -> None:
        if "destroy" in self._functions:
            self._functions.call("destroy", who, state)

    def _tell(self, name: str, messages: Sequence[Flushed | None], query: str, batch: int) -> None:
        """A function may change what it gets, so each try has its own copy."""
        if name in self._functions:
            target = self._target
            context = BatchContext(query, batch, target.options, target.streaming, target.overwrite)
            handles = [message.handle for message in messages if message is not None]
            told = cloudpickle.dumps((context, handles))
            self._retries.patiently(
                lambda: self._functions.call(name, f"batch {batch}", *cloudpickle.loads(told))
            )


class StreamWriter(SinkWriter, DataSourceStreamWriter):
    """For a stream. As long as no task has ended, nobody knows the query."""

    def commit(self, messages: Sequence[Flushed | None], batchId: int) -> None:
        self._tell_query("commit", messages, batchId)

    def abort(self, messages: Sequence[Flushed | None], batchId: int) -> None:
        self._tell_query("abort", messages, batchId)

    def _tell_query(self, name: str, messages: Sequence[Flushed | None], batch: int) -> None:
        known = [message.query for message in messages if message is not None]
        if known:
            self._tell(name, messages, known[0], batch)


class ArrowStreamWriter(StreamWriter, DataSourceStreamArrowWriter):
    """Spark hands over record batches."""


class JobWriter(SinkWriter, DataSourceWriter):
    """For `df.write`: one batch, which Spark never repeats."""

    def __init__(self, functions: Functions, target: TargetContext) -> None:
        super().__init__(functions, target)
        self._job = str(uuid.uuid4())

    def _work(self) -> tuple[str, int]:
        return self._job, 0

    def commit(self, messages: Sequence[Flushed | None]) -> None:
        self._tell("commit", messages, self._job, 0)

    def abort(self, messages: Sequence[Flushed | None]) -> None:
        self._tell("abort", messages, self._job, 0)


class ArrowJobWriter(JobWriter, DataSourceArrowWriter):
    """Spark hands over record batches."""


# ---- The builder ---------------------------------------------------------------------------------


class SinkBuilder(Declaration, Generic[State]):
    """Builds a Spark sink from a few functions.

        class Lines:
            def __init__(self, index):
                self.file = open(f"/tmp/lines.{index}", "a")

        sink = (
            SinkBuilder.stream("lines", create=lambda context: Lines(context.index))
            .receive(lambda lines, row: print(row.value, file=lines.file))
            .flush(lambda lines: lines.file.flush())
            .destroy(lambda lines: lines.file.close())
            .build()
        )
        spark.dataSource.register(sink)
        stream.writeStream.format("lines").option("checkpointLocation", "/a/folder").start()

    The functions run in tasks: for each partition of each micro-batch `create`, one `receive` for
    each row (or `receive_batch` for some thousand at once), `flush`, `destroy`. A second function
    for one of them replaces the first.

    Guarantee: at least once, if what `flush` has written survives a crash: Spark repeats
    tasks that fail, and after a crash the last micro-batch. With `commit`: exactly once, if
    `commit` does its work and records (`context.query`, `context.batch`) in one step, and does
    nothing if that record exists. Then tasks only prepare (a hidden file, rows in a staging table)
    and return a *handle* from `flush`: what `commit` needs to find what they have prepared. For a
    database with tables `staged(handle, ...)`, `results(...)` and `done(query TEXT, batch INT)`:

        def flush(task):  # one transaction; a repeated task has a new `uuid4().hex` as its handle
            insert_all(task.connection, "staged", task.handle, task.rows)
            return task.handle

        def commit(context, handles):
            work = (context.query, context.batch)
            with connect(context.options) as database:  # one transaction
                if not is_done(database, work):  # a row with it in table `done`
                    move_staged_to_results(database, handles)
                    database.execute("INSERT INTO done VALUES (?, ?)", work)

    What no `commit` took is rubbish: delete it in `commit` and `abort`, by the query that staged
    it. Create the tables before the query starts. For what the contexts have, see
    `help(tutorial_pkg.builder.SinkContext)` and `BatchContext`, which has no `index`. `.check`
    refuses rows that do not fit before anything runs; `.also_batch()` adds `df.write`, and
    `.also_overwrite()` the modes that replace.

    Functions are pickled: open connections and files in `create`; what cannot travel is refused by
    `build()`. A variable that they use has the value that it had when the sink was registered. An
    error in a function ends the query and names it: `last_error(query)`.

    The idea and the names: Hazelcast Jet's `SinkBuilder`; in two steps: Apache Flink.
    """

    @classmethod
    def stream(cls, name: str, create: Callable[[SinkContext], NewState]) -> SinkBuilder[NewState]:
        """A sink whose state in a task is made by `create(context)`.

        `context` has `query`, `batch`, `index` (the partition) and the query's `options`. The state
        must be a new one each time: a task that is tried again has all its rows once more. So must
        all that is in it. A worker runs one task after the other, and a list that belongs to a
        class or a module, or is the default of a parameter, still holds the rows of earlier tasks.
        """
        made: SinkBuilder[NewState] = SinkBuilder(name)
        return made._set("create", create, "context")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if name.lower() in _SPARKS_OWN:
            raise ValueError(
                f"a stream to `{name}` goes to Spark's sink of that name: choose another"
            )
        self._jobs = self._overwrite = False

    def also_batch(self) -> Self:
        """`df.write` works, too: as one batch, with `context.streaming` false.

        Each `df.write` is a job of its own. So in `foreachBatch`, where Spark repeats a batch after
        an error, its rows are written once more: `commit` cannot know them again. Use
        `writeStream.format(...)`, or tell the batch by an option that your `commit` records.
        """
        self._jobs = True
        return self

    def also_overwrite(self) -> Self:
        """The functions heed `context.overwrite`: a batch's rows replace all that are there.

        That is so with a stream's output mode `complete`, and with `df.write.mode("overwrite")`.
        Replace in `commit`. Tasks run side by side, and one that deletes in `create` takes away
        what others have written.
        """
        self._overwrite = True
        return self

    def check(self, function: Callable[[TargetContext], object]) -> Self:
        """`check(context)` raises `ValueError` for rows or options that the sink does not take.

        It runs in the driver, before a query does. `context` has the `schema` of the rows,
        `options`, `streaming` and `overwrite`.
        """
        return self._set("check", function, "context")

    def receive(self, function: Callable[[State, Row], object]) -> Self:
        """`receive(state, row)` takes a row, a `pyspark.sql.Row`.

        Write `row["count"]` and `row["index"]` for columns of these names: `row.count` is a method
        that every tuple has.

        Spark gives a TIMESTAMP as the time that a clock shows in the task's zone. So in the hour
        that is repeated when summer ends, two moments look alike. If rows may have such times, run
        workers with `TZ=UTC` in their environment, or take `receive_batch`, whose times have a
        zone.
        """
        return self._set("receive", function, "state", "row")

    def receive_batch(self, function: Callable[[State, pa.RecordBatch], object]) -> Self:
        """`receive_batch(state, batch)` takes a `pyarrow.RecordBatch`: much faster than rows.

        `batch.to_pandas()` turns whole numbers into floats where a null is among them, and large
        ones change. Say `batch.to_pandas(types_mapper=pandas.ArrowDtype)`, or `batch.to_pylist()`.
        """
        return self._set("receive_batch", function, "state", "batch")

    def flush(self, function: Callable[[State], Any]) -> Self:
        """`flush(state)` puts the task's rows where a crash does not reach them.

        It is called once, after the last row. What it returns is the handle that `commit` gets:
        anything that can be pickled. Without a `return` that is None, so a `commit` that looks for
        what was prepared by its handle should raise an error for None.
        """
        return self._set("flush", function, "state")

    def destroy(self, function: Callable[[State], object]) -> Self:
        """`destroy(state)` closes what `create` opened: once per state, even after an error."""
        return self._set("destroy", function, "state")

    def commit(self, function: Callable[[BatchContext, list[Any]], object]) -> Self:
        """`commit(context, handles)` makes a micro-batch visible, in a process beside the driver.

        `handles` has one for each partition, from the attempt that succeeded; it has none from
        failed attempts. After a crash between its work and Spark's record of it, `commit` is called
        again for the same (`context.query`, `context.batch`), with new handles.
        """
        return self._set("commit", function, "context", "handles")

    def abort(self, function: Callable[[BatchContext, list[Any]], object]) -> Self:
        """`abort(context, handles)` removes what was prepared, when a task or `commit` failed.

        `handles` may lack some, and after a crash `abort` is not called: clean up by
        `context.query` as well.
        """
        return self._set("abort", function, "context", "handles")

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that are missing, or cannot travel to other processes.
        """
        if ("receive" in self._given) == ("receive_batch" in self._given):
            raise ValueError(
                f"format `{self._name}`: give one of `receive` and `receive_batch`, "
                f"got {'both' if 'receive' in self._given else 'none'}"
            )
        if "commit" in self._given:
            self._require("flush")
        parts = SinkParts(self._functions(), self._all_options(), self._overwrite)
        doc = _DOCUMENTATION.format(
            guarantee=_GUARANTEES["commit" in self._given],
            options=parts.options.table() or "    none",
        )
        return data_source(BuiltJobSink if self._jobs else BuiltSink, doc, parts)


_GUARANTEES = {
    False: "at least once",
    True: "exactly once, if `commit` is atomic and idempotent",
}

_DOCUMENTATION = """A sink for a stream's rows: made by `SinkBuilder.stream`.

Parallelism: a task for each partition of the DataFrame.
Guarantee: {guarantee}.

Options:
{options}
"""
