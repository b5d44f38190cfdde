"""A sink that keeps all promises, and mutants of it: each makes one mistake.

Spark's workers import this module for each query, so it imports as little as possible.
"""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType

DOWN, RESTARTED = ".down", ".restarted"  # files that record what happened to the server

Rows = list[tuple[Any, ...]]


@dataclass
class Staged(WriterCommitMessage):
    query: str
    file: Path


class Writer(DataSourceStreamWriter):
    """Writes a file for each batch; its name has the query's id and the batch's number."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, iterator: Iterator[Row]) -> Staged:
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        file = self.path / f".{uuid.uuid4()}.staged"
        file.write_bytes(pickle.dumps(self.taken(iterator)))
        return Staged(query or "", file)

    def taken(self, iterator: Iterator[Row]) -> Rows:
        return [tuple(map(self.kept, row)) for row in iterator]

    def kept(self, value: Any) -> Any:
        """Give a time its zone: it comes as the local one of the task's process."""
        return value.astimezone(UTC) if isinstance(value, datetime) else value

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        self.connect()
        self.publish(self.name_of(messages, batchId), self.rows_of(messages))
        for message in messages:
            message.file.unlink()

    def connect(self) -> None:
        if (self.path / DOWN).exists():
            raise ConnectionRefusedError("the server is down")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        for message in filter(None, messages):
            message.file.unlink()

    def name_of(self, messages: Sequence[Any], batch: int) -> str:
        return f"{messages[0].query}-{batch}"

    def rows_of(self, messages: Sequence[Any]) -> Rows:
        return [row for staged in messages for row in pickle.loads(staged.file.read_bytes())]

    def publish(self, name: str, rows: Rows) -> None:
        draft = self.path / f".{name}.draft"
        draft.write_bytes(pickle.dumps(rows))
        draft.replace(self.path / f"{name}.rows")


class Table(DataSourceWriter):
    def __init__(self, path: str) -> None:
        self.stream = Writer(path)

    def write(self, iterator: Iterator[Row]) -> Staged:
        return self.stream.write(iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        self.stream.publish(str(uuid.uuid4()), self.stream.rows_of(messages))


class Files(DataSource):
    """Keeps all promises."""

    stream_writer: type[Writer] = Writer
    table: type[Table] = Table
    breaks: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}_sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:
        return self.stream_writer(self.options["path"])

    def writer(self, schema: StructType, overwrite: bool) -> Table:
        return self.table(self.options["path"])


MUTANTS: list[type[Files]] = []


def sink_of(writer: type[Writer], **changes: Any) -> type[Files]:
    return type(writer.__name__, (Files,), {"stream_writer": writer, **changes})


def breaks(promise: str) -> Callable[[type[Writer]], type[Writer]]:
    """Register a writer that makes one mistake, which breaks this promise."""

    def add(writer: type[Writer]) -> type[Writer]:
        MUTANTS.append(sink_of(writer, breaks=promise))
        return writer

    return add


@breaks("every_row_once")
class FullBuffer(Writer):
    def taken(self, iterator: Iterator[Row]) -> Rows:
        return super().taken(iterator)[:4096]


@breaks("whole_batches")
class PartByPart(Writer):
    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        for part, message in enumerate(messages):
            name = f"{self.name_of(messages, batchId)}-{part}"
            self.publish(name, self.rows_of([message]))
            time.sleep(0.2)


@breaks("no_retraction")
class TakesAway(Writer):
    """Moves the earlier batches away while it publishes one."""

    def publish(self, name: str, rows: Rows) -> None:
        earlier = list(self.path.glob("*.rows"))
        for file in earlier:
            file.rename(file.with_suffix(".aside"))
        super().publish(name, rows)
        time.sleep(0.2)
        for file in earlier:
            if file.stem != name:
                file.with_suffix(".aside").rename(file)


@breaks("values")
class EmptyIsNull(Writer):
    def kept(self, value: Any) -> Any:
        return super().kept(None if value == "" else value)


@breaks("repeated_batch")
class NewName(Writer):
    def name_of(self, messages: Sequence[Any], batch: int) -> str:
        return str(uuid.uuid4())


@breaks("crash_in_commit")
class RenamesOneByOne(Writer):
    """Publishes one file after the other, so quickly that no reader sees it."""

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        self.connect()
        name = self.name_of(messages, batchId)
        for part, message in enumerate(messages):
            message.file.replace(self.path / f"{name}-{part}.rows")


@breaks("write_errors_surface")
class IgnoresErrors(Writer):
    def publish(self, name: str, rows: Rows) -> None:
        try:
            super().publish(name, rows)
        except OSError:
            """There will be another batch."""


@breaks("new_query")
class NumberOnly(Writer):
    def name_of(self, messages: Sequence[Any], batch: int) -> str:
        return str(batch)


@breaks("other_writers")
class FourTasks(Writer):
    def rows_of(self, messages: Sequence[Any]) -> Rows:
        return super().rows_of(messages[:4])


@breaks("killed")
class NotesLater(Writer):
    """Publishes a batch, and records later that it is done: seconds later the first time."""

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        note = self.path / f".done-{self.name_of(messages, batchId)}"
        if not note.exists():
            self.publish(str(uuid.uuid4()), self.rows_of(messages))
            time.sleep(0 if any(self.path.glob(".done-*")) else 4)
            note.touch()


@breaks("two_queries")
class RewritesAll(Writer):
    """Reads all batches and writes them again; what another query writes meanwhile is lost."""

    def publish(self, name: str, rows: Rows) -> None:
        state = self.path / ".state"
        batches = pickle.loads(state.read_bytes()) if state.exists() else {}
        time.sleep(1)  # long enough for the other query's batch on a busy machine, too
        draft = self.path / f".{name}.draft"
        draft.write_bytes(pickle.dumps({**batches, name: rows}))
        draft.replace(state)
        super().publish("all", [row for part in {**batches, name: rows}.values() for row in part])


@breaks("server_down")
class DropsAfterRestart(Writer):
    """Takes the next batch for done after the server was restarted."""

    def publish(self, name: str, rows: Rows) -> None:
        restarted = self.path / RESTARTED
        if restarted.exists():
            restarted.unlink()
        else:
            super().publish(name, rows)


class ForgetsToCommit(Table):
    def commit(self, messages: Sequence[Any]) -> None:
        """It thinks that `write` has published."""


MUTANTS.append(sink_of(Writer, table=ForgetsToCommit, breaks="batch_write"))
