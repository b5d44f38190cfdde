"""A source that keeps all promises, and mutants of it: each makes one mistake.

Spark's workers import this module for each query, so it imports as little as possible.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    stream_reader,
)

DOWN, RESTARTED = ".down", ".restarted"  # files that record what happened to the server
Offset = dict[str, Any]


def numbers_in(folder: str) -> list[int]:
    texts = [file.read_text() for file in sorted(Path(folder).glob("*.txt"))]
    return [int(line) for text in texts for line in text.split("\n")[:-1]]


def row(number: int) -> tuple[int, datetime, str]:
    return number, datetime.fromtimestamp(number, UTC), f"the text of row {number}"


@dataclass
class Lines(InputPartition):
    start: int
    end: int


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the numbers in a folder's files; the offset is how many it has read."""

    def __init__(self, options: dict[str, str]) -> None:
        self.path = options["path"]
        self.rows = int(options.get("maxrows", 0))
        self.parallelism = int(options.get("parallelism", 2))
        self.until: int | None = None

    def connect(self) -> None:
        if (Path(self.path) / DOWN).exists():
            raise ConnectionRefusedError("the server is down")

    def numbers(self) -> list[int]:
        self.connect()
        return numbers_in(self.path)

    def count(self) -> int:
        return len(self.numbers())

    def initialOffset(self) -> Offset:
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.rows) if self.rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.count()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        end = max(self.count() if self.until is None else self.until, start["next"])
        return {"next": min(end, start["next"] + self.rows) if self.rows else end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        first, last, parts = start["next"], end["next"], self.parallelism
        cuts = [first + (last - first) * part // parts for part in range(parts + 1)]
        return [Lines(cuts[part], cuts[part + 1]) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from map(row, self.numbers()[partition.start : partition.end])


class Table(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        yield from map(row, numbers_in(self.path))


class Numbers(DataSource):
    """Keeps all promises."""

    stream_reader: type[Reader] = Reader
    table: type[Table] = Table
    types = "value LONG, at TIMESTAMP, text STRING"
    breaks: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}"

    def schema(self) -> str:
        return self.types

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = {name.lower(): value for name, value in self.options.items()}
        return stream_reader(self.stream_reader(options))

    def reader(self, schema: StructType) -> Table:
        return self.table(self.options["path"])


MUTANTS: list[type[Numbers]] = []


def source_of(reader: type[Reader], **changes: Any) -> type[Numbers]:
    return type(reader.__name__, (Numbers,), {"stream_reader": reader, **changes})


def breaks(promise: str) -> Callable[[type[Reader]], type[Reader]]:
    """Register a reader that makes one mistake, which breaks this promise."""

    def add(reader: type[Reader]) -> type[Reader]:
        MUTANTS.append(source_of(reader, breaks=promise))
        return reader

    return add


@breaks("every_row_once")
class OnePage(Reader):
    """Asks for at most 400 rows, and not for more pages."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        end = min(partition.end, partition.start + 400)
        return super().read(Lines(partition.start, end))


@breaks("from_the_first_row")
class StartsAtTheEnd(Reader):
    def initialOffset(self) -> Offset:
        return {"next": self.count()}


@breaks("values")
class ShortTexts(Reader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number, at, text in super().read(partition):
            yield number, at, text[:10]


@breaks("no_empty_batches")
class CountsLooks(Reader):
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return super().latestOffset(start, limit) | {"look": start.get("look", 0) + 1}


@breaks("partial_read")
class RecordsProgress(Reader):
    """Records its position in `read`, and resumes there in the next call."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        note = Path(f"{self.path}/{partition.start}.reached")
        start = int(note.read_text()) if note.exists() else partition.start
        for place, values in enumerate(super().read(Lines(start, partition.end)), start + 1):
            yield values
            if place % 100 == 0:
                note.write_text(str(place))
        note.unlink(missing_ok=True)


@breaks("repeated_batch")
class ReadsPastTheEnd(Reader):
    """Knows the end of a batch only if it has planned it; else it reads all there is."""

    planned = False

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        self.planned = True
        return super().latestOffset(start, limit)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return super().partitions(start, end if self.planned else {"next": self.count()})


@breaks("unfinished_row")
class TakesHalfLines(Reader):
    def numbers(self) -> list[int]:
        self.connect()
        texts = [file.read_text() for file in sorted(Path(self.path).glob("*.txt"))]
        return [int(line) for text in texts for line in text.split()]


@breaks("every_split")
class FirstSplitsOnly(Reader):
    """Looks for splits when a query starts, and not again; a file's name ends with its split."""

    known: set[str] | None = None

    def count(self) -> int:
        self.connect()
        files = sorted(Path(self.path).glob("*.txt"))
        self.known = self.known or {"0", *(file.stem.split("-")[1] for file in files)}
        texts = [file.read_text() for file in files if file.stem.split("-")[1] in self.known]
        return sum(text.count("\n") for text in texts)


@breaks("two_queries")
class SharedRows(Reader):
    """A row is for the query that asks first."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        for values in super().read(partition):
            owner = Path(self.path) / f"owner-{values[0] // 1000}"
            if not owner.exists():
                owner.write_text(query)
            if owner.read_text() == query or values[0] < 1000:
                yield values


@breaks("limit")
class NoLimit(Reader):
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {"next": max(self.count(), start["next"])}


@breaks("available_now")
class OnePageNow(Reader):
    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.count() if self.rows else self.count() // 1000 * 1000


@breaks("other_parallelism")
class OffsetOfTasks(Reader):
    """The offset belongs to a number of tasks; with a different number it begins at 0."""

    def initialOffset(self) -> Offset:
        return {"next": 0, "tasks": self.parallelism}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        return {**super().latestOffset(start, limit), "tasks": self.parallelism}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        same = start["tasks"] == self.parallelism
        return super().partitions(start if same else {"next": 0}, end)


@breaks("read_errors_surface")
class ErrorIsTheEnd(Reader):
    """Takes rows that it can't read for rows that aren't there."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        try:
            numbers = self.numbers()
        except OSError:
            numbers = []
        yield from map(row, numbers[partition.start : partition.end])


@breaks("killed")
class ForgetsOtherSparks(Reader):
    """Keeps its position for this Spark's process only."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        owner, spark = Path(self.path) / ".owner", str(os.getppid())
        if owner.exists() and owner.read_text() != spark:
            start = self.initialOffset()
        owner.write_text(spark)
        return super().partitions(start, end)


@breaks("server_down")
class DropsAfterRestart(Reader):
    """Drops the next rows after the server was restarted."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        restarted = Path(self.path) / RESTARTED
        if restarted.exists() and partition.start < partition.end:
            restarted.unlink(missing_ok=True)
            return iter(())
        return super().read(partition)


class OnePageTable(Table):
    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        yield from map(row, numbers_in(self.path)[:1000])


MUTANTS.append(source_of(Reader, table=OnePageTable, breaks="batch_read"))
