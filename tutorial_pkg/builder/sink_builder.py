"""`SinkBuilder`: a sink from a few functions, in one step or with a commit in two."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.context import BatchContext, SinkContext, TargetContext
from tutorial_pkg.builder.dbapi_sink import TABLE, Connect, Insert, insert_rows, publish
from tutorial_pkg.builder.declaration import Built, Declaration, State
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.core.spark_versions import DataSourceStreamArrowWriter
from tutorial_pkg.core.worker import freeze_imports

NewState = TypeVar("NewState")

# ---- The data source -----------------------------------------------------------------------------


class BuiltSink(Built):
    """The base of the classes that `SinkBuilder.stream` makes."""

    overwrites: ClassVar[bool]  # whether it supports the modes that replace rows

    def writer(self, schema: StructType, overwrite: bool) -> SinkWriter:
        return self._writer(TargetContext(schema, self.values(), False, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> SinkWriter:
        return self._writer(TargetContext(schema, self.values(), True, overwrite))

    def _writer(self, target: TargetContext) -> SinkWriter:
        functions = self.functions
        if target.overwrite and not self.overwrites:
            raise ValueError(
                f'format `{functions.format}` only appends: use `.outputMode("append")` or '
                '`.mode("append")`'
            )
        if "check" in functions:
            functions.given["check"](target)
        kind = SinkWriter if "receive" in functions else ArrowSinkWriter
        names = self.options.get("checkpointLocation"), self.options.get("queryName")
        return kind(functions, target, *names)


@dataclass
class Flushed(WriterCommitMessage):
    """The message of a task that succeeded, with what only tasks know."""

    query: str
    run: str
    checkpoints: str | None  # the session's folder
    handle: Any


class SinkWriter(DataSourceStreamWriter, DataSourceWriter):
    """Runs the functions: `commit` and `abort` in the driver, the others in tasks."""

    def __init__(
        self, functions: Functions, target: TargetContext, checkpoint: str | None, name: str | None
    ) -> None:
        self._functions = functions
        self._target = target.options, target.streaming, target.overwrite  # in all contexts
        self._checkpoint, self._name = checkpoint, name
        self._job = "" if target.streaming else str(uuid.uuid4())
        self._retries = functions.retries.of(target.options)

    def write(self, iterator: Iterator[Any]) -> Flushed:
        freeze_imports()
        task: Any = TaskContext.get()
        query = run = self._job
        batch = 0
        if not self._job:
            query = task.getLocalProperty("sql.streaming.queryId")
            run = task.getLocalProperty("spark.jobGroup.id")  # Spark's job group of a query
            batch = int(task.getLocalProperty("streaming.sql.batchId"))
        context = SinkContext(query, batch, task.partitionId(), *self._target)
        handle = self._run(iterator, context)
        checkpoints = task.getLocalProperty("spark.sql.streaming.checkpointLocation")
        return Flushed(query, run, checkpoints, handle)

    def _run(self, iterator: Iterator[Any], context: SinkContext) -> Any:
        functions, who = self._functions, f"task {context.index}"
        receive = "receive" if "receive" in functions else "receive_batch"
        state = self._retries.patiently(lambda: functions.call("create", who, context))
        with closing_with(lambda: functions.call("destroy", who, state)):
            for rows in iterator:  # an error of the query's rows is not one of `receive`
                functions.call(receive, who, state, rows)
            handle = functions.call("flush", who, state)
            with functions.blamed("flush", who):
                cloudpickle.dumps(handle)
        return handle

    def commit(self, messages: Sequence[Flushed | None], batchId: int = 0) -> None:
        self._finish("commit", messages, batchId)

    def abort(self, messages: Sequence[Flushed | None], batchId: int = 0) -> None:
        self._finish("abort", messages, batchId)

    def _finish(self, name: str, messages: Sequence[Flushed | None], batch: int) -> None:
        flushed = [message for message in messages if message is not None]
        first = flushed[0] if flushed else Flushed(self._job, self._job, None, None)
        if name not in self._functions or not first.query:
            return  # if all tasks failed, the query's id is unknown
        checkpoint = self._checkpoint
        if checkpoint is None and self._name and first.checkpoints:
            checkpoint = f"{first.checkpoints}/{self._name}"
        context = BatchContext(first.query, batch, *self._target, first.run, checkpoint)

        def once() -> None:
            handles = [message.handle for message in flushed]  # a new list for each try
            self._functions.call(name, f"batch {batch}", context, handles)

        self._retries.patiently(once)


class ArrowSinkWriter(SinkWriter, DataSourceStreamArrowWriter, DataSourceArrowWriter):
    """Gets record batches from Spark."""


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

    Each partition of each micro-batch calls `create` in a task, then `receive` for every row (or
    `receive_batch` for some thousand at once), `flush`, and `destroy`. Functions are pickled, so
    open connections and files in `create`.

    Guarantee: at least once, because Spark repeats failed tasks, and the last micro-batch after a
    crash. With `.commit`: exactly once, if `commit` publishes the rows and records
    (`context.query`, `context.batch`) in one step, and does nothing if that record exists.
    docs/builder.md has an example. The names are from Hazelcast Jet's `SinkBuilder`, the commit in
    two steps is from Apache Flink.
    """

    @classmethod
    def stream(cls, name: str, create: Callable[[SinkContext], NewState]) -> SinkBuilder[NewState]:
        """Start a sink; `create(context)` makes the state of a task, from a `SinkContext`.

        Return a new state each time: a repeated task receives all its rows again.
        """
        made: SinkBuilder[NewState] = SinkBuilder(name)
        return made._set("create", create, "context")

    @classmethod
    def dbapi(
        cls, name: str, connect: Connect, insert: Insert = insert_rows, begin: str | None = "BEGIN"
    ) -> SinkBuilder[list[pa.RecordBatch]]:
        """Start a sink for the tables of a database, exactly once; `build()` completes it.

            def connect(options):
                return sqlite3.connect(options.file, timeout=60)

            sink = (
                SinkBuilder.dbapi("sqlite", connect, begin="BEGIN IMMEDIATE")
                .option("file", not_empty, REQUIRED, "the database")
                .build()
            )
            writer = stream.writeStream.format("sqlite").option("file", "/shop.db")
            writer.option("table", "orders").option("checkpointLocation", "/checkpoint").start()

        One transaction inserts the rows of a micro-batch and records it in the table
        `spark_batches_written`, which is created beside the target. All rows pass through the
        driver.

        Args:
            connect: `connect(options)` returns a new connection of any DB-API 2 client.
            insert: `insert(cursor, table, batch)` inserts a `pyarrow.RecordBatch`, for an upsert or
                a faster way than `executemany`. By default columns are matched by name.
            begin: the statement that begins a transaction; None if the client begins each one
                itself, with its first statement.
        """
        made: SinkBuilder[list[pa.RecordBatch]] = cls.stream(name, lambda context: [])
        made._set("connect", connect, "options")._set("insert", insert, "cursor", "table", "batch")
        made.receive_batch(list.append).flush(list).options(TABLE)
        return made.commit(
            lambda context, handles: publish(connect, insert, begin, context, handles)
        )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._batch = self._overwrite = False

    def also_batch(self) -> Self:
        """Add `df.write`: a single batch, with `context.streaming` false.

        Each `df.write` is a separate job, so in `foreachBatch` a repeated batch is duplicated.
        """
        self._batch = True
        return self

    def also_overwrite(self) -> Self:
        """Add a stream's output mode `complete` and `df.write.mode("overwrite")`.

        With `context.overwrite`, delete the existing rows in `commit`.
        """
        self._overwrite = True
        return self

    def check(self, function: Callable[[TargetContext], object]) -> Self:
        """Set `check(context)`, which raises `ValueError` before the query runs.

        `context` is a `TargetContext`.
        """
        return self._set("check", function, "context")

    def receive(self, function: Callable[[State, Row], object]) -> Self:
        """Set `receive(state, row)`, which takes a `pyspark.sql.Row`.

        Write `row["count"]` for a column of this name: `row.count` is a method of every tuple. A
        TIMESTAMP is in the local time of the task.
        """
        return self._set("receive", function, "state", "row")

    def receive_batch(self, function: Callable[[State, pa.RecordBatch], object]) -> Self:
        """Set `receive_batch(state, batch)`, which takes a `pyarrow.RecordBatch`: much faster.

        `batch.to_pandas(types_mapper=pandas.ArrowDtype)` keeps integers beside nulls.
        """
        return self._set("receive_batch", function, "state", "batch")

    def flush(self, function: Callable[[State], Any]) -> Self:
        """Set `flush(state)`, which stores the task's rows where they survive a crash.

        It is called once, after the last row. Return the handle that `commit` needs; it is pickled.
        """
        return self._set("flush", function, "state")

    def destroy(self, function: Callable[[State], object]) -> Self:
        """Set `destroy(state)`, which closes what `create` opened: once, even after an error."""
        return self._set("destroy", function, "state")

    def commit(self, function: Callable[[BatchContext, list[Any]], object]) -> Self:
        """Set `commit(context, handles)`, which makes a micro-batch visible, beside the driver.

        There is one handle for each partition, of the attempt that succeeded. After a crash, or a
        retried error, `commit` is called again for the same (`context.query`, `context.batch`).
        """
        return self._set("commit", function, "context", "handles")

    def abort(self, function: Callable[[BatchContext, list[Any]], object]) -> Self:
        """Set `abort(context, handles)`, which deletes staged rows if a task or `commit` failed.

        Some handles may be missing, and after a crash it is not called at all. So also look for
        staged rows by `context.query`.
        """
        return self._set("abort", function, "context", "handles")

    def build(self) -> type[DataSource]:
        if ("receive" in self._given) == ("receive_batch" in self._given):
            raise ValueError(
                f"format `{self._name}`: set one of `receive` and `receive_batch`, "
                f"got {'both' if 'receive' in self._given else 'none'}"
            )
        if "commit" in self._given:
            self._require("flush")
        text = "A sink for streams, made by `SinkBuilder.stream`."
        guarantee = "exactly once" if "commit" in self._given else "at least once"
        more: dict[str, Any] = {} if self._batch else {"writer": DataSource.writer}
        return self._build(BuiltSink, text, guarantee, overwrites=self._overwrite, **more)
