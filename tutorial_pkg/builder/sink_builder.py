"""`SinkBuilder`: rows of a stream to where functions put them, in one step or in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder.built import Built, Parts, data_source
from tutorial_pkg.builder.context import BatchContext, SinkContext
from tutorial_pkg.builder.declaration import Declaration
from tutorial_pkg.builder.functions import Function, Functions, closing_with
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.worker import settle, task_property, this_task

# ---- What is built -------------------------------------------------------------------------------


class BuiltSink(Built):
    """The base of the classes that `SinkBuilder.stream` makes."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> SinkWriter:
        functions = self.parts.functions
        if overwrite:
            raise ValueError(
                f"format `{functions.format}` takes the output mode `append` only; "
                "with `complete` every batch would have to replace all that was written"
            )
        kind = RowWriter if "receive" in functions else BatchWriter
        return kind(functions, self.values())


@dataclass
class Flushed(WriterCommitMessage):
    """What a task that succeeded tells the driver: `handle` is what its `flush` returned."""

    query: str
    handle: Any


class SinkWriter(DataSourceStreamWriter):
    """A task: `create`, all rows, `flush`, `destroy`. The driver: `commit` or `abort`."""

    receive = ""  # the function that takes what the iterator gives

    def __init__(self, functions: Functions, options: OptionValues) -> None:
        self._functions, self._options = functions, options

    def write(self, iterator: Iterator[Any]) -> Flushed:
        settle()
        context = self._context()
        who = f"task {context.index}"
        state = self._functions.call("create", who, context)
        with closing_with(lambda: self._destroy(state, who)):
            self._receive_all(iterator, state, who)
            handle = self._flush(state, who)
        return Flushed(context.query, handle)

    def commit(self, messages: Sequence[Flushed | None], batchId: int) -> None:
        self._tell("commit", messages, batchId)

    def abort(self, messages: Sequence[Flushed | None], batchId: int) -> None:
        self._tell("abort", messages, batchId)

    def _context(self) -> SinkContext:
        query = task_property("sql.streaming.queryId")
        batch = int(task_property("streaming.sql.batchId"))
        return SinkContext(query, batch, this_task().partitionId(), self._options)

    def _receive_all(self, iterator: Iterator[Any], state: Any, who: str) -> None:
        receive: Callable[[Any, Any], object] = self._functions.given[self.receive]
        for rows in iterator:  # whose errors are not those of `receive`
            try:
                receive(state, rows)
            except Exception as error:
                raise self._functions.failure(self.receive, who, error) from error

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

    def _tell(self, name: str, messages: Sequence[Flushed | None], batch: int) -> None:
        sent = [message for message in messages if message is not None]
        if sent and name in self._functions:
            context = BatchContext(sent[0].query, batch, self._options)
            handles = [message.handle for message in sent]
            self._functions.call(name, f"batch {batch}", context, handles)


class RowWriter(SinkWriter):
    """Spark hands over rows."""

    receive = "receive"

    def write(self, iterator: Iterator[Row]) -> Flushed:
        return super().write(iterator)


class BatchWriter(SinkWriter, DataSourceStreamArrowWriter):
    """Spark hands over record batches."""

    receive = "receive_batch"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Flushed:
        return super().write(iterator)


# ---- The builder ---------------------------------------------------------------------------------


class SinkBuilder(Declaration):
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
    each row (or `receive_batch` for some thousand at once), `flush`, `destroy`.

    Guarantee: at least once, if what `flush` has returned from survives a crash: Spark repeats
    tasks that fail, and after a crash the last micro-batch. With `commit`: exactly once, if that
    does its work at one stroke, together with a note of (`context.query`, `context.batch`), and
    nothing if the note is there. Then tasks only prepare (a file beside, rows in a staging table)
    and return from `flush` a *handle*: what `commit` needs to find it. For a database with tables
    `staged(handle, ...)`, `results(...)` and `done(query TEXT, batch INT)`:

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
    it. Tables are made before the query starts. What the contexts have in detail:
    `help(tutorial_pkg.builder.SinkContext)` and `BatchContext`, which has no `index`.

    Functions are pickled: open connections and files in `create`; what cannot travel is refused by
    `build()`. An error in a function ends the query and names it: `last_error(query)`.

    The idea and the names: Hazelcast Jet's `SinkBuilder`; in two steps: Apache Flink.
    """

    @classmethod
    def stream(cls, name: str, create: Function) -> SinkBuilder:
        """A sink whose state in a task is made by `create(context)`.

        `context` has `query`, `batch`, `index` (the partition) and the query's `options`.
        """
        return cls(name)._set("create", create, "context")

    def receive(self, function: Function) -> Self:
        """`receive(state, row)` takes a row, a `pyspark.sql.Row`."""
        return self._set("receive", function, "state", "row")

    def receive_batch(self, function: Function) -> Self:
        """`receive_batch(state, batch)` takes a `pyarrow.RecordBatch`: much faster than rows."""
        return self._set("receive_batch", function, "state", "batch")

    def flush(self, function: Function) -> Self:
        """`flush(state)` puts the task's rows where a crash does not reach them.

        It is called once, behind the last row. What it returns is the handle that `commit` gets:
        anything that can be pickled.
        """
        return self._set("flush", function, "state")

    def destroy(self, function: Function) -> Self:
        """`destroy(state)` closes what `create` opened: once for each, also after an error."""
        return self._set("destroy", function, "state")

    def commit(self, function: Function) -> Self:
        """`commit(context, handles)` makes a micro-batch visible, in the driver.

        `handles` are those of the tasks that count, one for each partition; what repeated or
        failed tasks prepared is not among them. It is called again for the same (`context.query`,
        `context.batch`), with new handles, after a crash between its work and Spark's note of it.
        """
        return self._set("commit", function, "context", "handles")

    def abort(self, function: Function) -> Self:
        """`abort(context, handles)` removes what was prepared, when a task or `commit` failed.

        `handles` may lack some, and a crash calls nothing: sweep by `context.query` as well.
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
        parts = Parts(self._functions(), self._all_options())
        doc = _DOCUMENTATION.format(
            guarantee=_GUARANTEES["commit" in self._given],
            options=parts.options.table() or "    none",
        )
        return data_source(BuiltSink, doc, parts)


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
