"""A sink that keeps all promises, and for each promise one that breaks just this one.

Spark's workers import this module for each query, so it imports no more than it must.
"""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType


@dataclass
class Staged(WriterCommitMessage):
    query: str
    file: Path


class Writer(DataSourceStreamWriter):
    """A JSON file for each batch; its name says which batch of which query it holds."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, iterator: Iterator[Row]) -> Staged:
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        values = [row.value for row in iterator]
        file = self.path / f".{uuid.uuid4()}.staged"
        file.write_text(json.dumps(values))
        return Staged(query, file)

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        self.publish(self.name_of(messages, batchId), self.values_of(messages))
        for message in messages:
            message.file.unlink()

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        for message in filter(None, messages):
            message.file.unlink()

    def name_of(self, messages: Sequence[Any], batch: int) -> str:
        return f"{messages[0].query}-{batch}"

    def values_of(self, messages: Sequence[Any]) -> list[str | None]:
        return [value for staged in messages for value in json.loads(staged.file.read_text())]

    def publish(self, name: str, values: list[str | None]) -> None:
        """A batch that is repeated replaces itself, in one step."""
        draft = self.path / f".{name}.draft"
        draft.write_text(json.dumps(values))
        draft.replace(self.path / f"{name}.json")


class Files(DataSource):
    """All promises kept; each sink below has another writer, or lacks a check."""

    stream_writer: type[Writer] = Writer

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}_sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:
        self.check_mode(overwrite)
        self.check_options()
        return self.stream_writer(self.options["path"])

    def check_mode(self, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("use the output mode `append`")

    def check_options(self) -> None:
        known = {"path", "checkpointlocation"}
        for name in {name.lower() for name in self.options} - known:
            raise ValueError(f"unknown option `{name}`")


class every_row_once(Files):
    class stream_writer(Writer):
        """Its buffer takes 200 rows."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            return super().write(iter(list(iterator)[:200]))


class whole_batches(Files):
    class stream_writer(Writer):
        """Publishes what each task wrote by itself."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            for part, message in enumerate(messages):
                name = f"{self.name_of(messages, batchId)}-{part}"
                self.publish(name, self.values_of([message]))
                time.sleep(0.2)


class never_taken_back(Files):
    class stream_writer(Writer):
        """Takes the earlier batches away while it publishes one."""

        def publish(self, name: str, values: list[str | None]) -> None:
            earlier = list(self.path.glob("*.json"))
            for file in earlier:
                file.rename(file.with_suffix(".aside"))
            super().publish(name, values)
            time.sleep(0.2)
            for file in earlier:
                if file.stem != name:
                    file.with_suffix(".aside").rename(file)


class empty_batch(Files):
    class stream_writer(Writer):
        """Looks at the first row before it asks whether there is one."""

        def publish(self, name: str, values: list[str | None]) -> None:
            first = values[0]
            super().publish(name, [first, *values[1:]])


class awkward_text(Files):
    class stream_writer(Writer):
        """One row is one line, so line ends in text must go."""

        def values_of(self, messages: Sequence[Any]) -> list[str | None]:
            values = super().values_of(messages)
            return [value and value.replace("\n", " ") for value in values]


class nulls(Files):
    class stream_writer(Writer):
        """Makes text of whatever comes."""

        def values_of(self, messages: Sequence[Any]) -> list[str | None]:
            return [str(value) for value in super().values_of(messages)]


class repeated_batch(Files):
    class stream_writer(Writer):
        """Takes every commit for a new batch."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return str(uuid.uuid4())


class failed_batch(Files):
    class stream_writer(Writer):
        """Publishes all that is staged, whoever has staged it."""

        def values_of(self, messages: Sequence[Any]) -> list[str | None]:
            staged = list(self.path.glob(".*.staged"))
            return [value for file in staged for value in json.loads(file.read_text())]

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            """Leaves clearing up to the next commit."""


class new_query(Files):
    class stream_writer(Writer):
        """Knows a batch by its number, and any query's batch 0 is batch 0."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return str(batch)


class two_queries(Files):
    class stream_writer(Writer):
        """One name for the drafts of all."""

        def publish(self, name: str, values: list[str | None]) -> None:
            draft = self.path / ".draft"
            draft.write_text(json.dumps(values))
            time.sleep(0.5)
            draft.replace(self.path / f"{name}.json")


class other_writers(Files):
    class stream_writer(Writer):
        """Has room for the messages of three tasks."""

        def values_of(self, messages: Sequence[Any]) -> list[str | None]:
            return super().values_of(messages[:3])


class complete_mode(Files):
    def check_mode(self, overwrite: bool) -> None:
        """Appends, whatever is wanted."""


class unknown_option(Files):
    def check_options(self) -> None:
        """Takes whatever comes."""


class nothing_left(Files):
    class stream_writer(Writer):
        """Starts a helper in each task, and forgets it."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            subprocess.Popen(["sleep", "600"], start_new_session=True)
            return super().write(iterator)


OPEN: list[Any] = []  # of a worker, which lives longer than the query


class nothing_open(Files):
    class stream_writer(Writer):
        """Opens a file, and forgets it."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            staged = super().write(iterator)
            OPEN.append(staged.file.open())
            return staged


class killed(Files):
    class stream_writer(Writer):
        """Publishes, and a moment later notes that it has."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            note = self.path / f".done-{self.name_of(messages, batchId)}"
            if not note.exists():
                self.publish(str(uuid.uuid4()), self.values_of(messages))
                time.sleep(0.5)
                note.touch()


MUTANTS = [
    every_row_once,
    whole_batches,
    never_taken_back,
    empty_batch,
    awkward_text,
    nulls,
    repeated_batch,
    failed_batch,
    new_query,
    two_queries,
    other_writers,
    complete_mode,
    unknown_option,
    nothing_left,
    nothing_open,
    killed,
]
