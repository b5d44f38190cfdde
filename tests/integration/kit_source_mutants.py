"""A source that keeps all promises, and for each promise one that breaks just this one.

Spark's workers import this module for each query, so it imports no more than it must.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

KNOWN = {"path", "maxrows", "parallelism"}


def numbers_in(folder: str) -> list[int]:
    texts = [file.read_text() for file in sorted(Path(folder).glob("*.txt"))]
    return [int(line) for text in texts for line in text.split()]


@dataclass
class Lines(InputPartition):
    start: int
    end: int


class Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the numbers in a folder's files: the offset is how many were read."""

    def __init__(self, options: dict[str, str]) -> None:
        self.path = options["path"]
        self.rows = int(options.get("maxrows", 0))
        self.parallelism = int(options.get("parallelism", 2))
        self.until: int | None = None
        self.counted: dict[str, int] = {}

    def count(self) -> int:
        if self.until is not None:
            return self.until
        for file in Path(self.path).glob("*.txt"):
            if file.name not in self.counted:
                self.counted[file.name] = file.read_text().count("\n")
        return sum(self.counted.values())

    def initialOffset(self) -> dict[str, Any]:
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.rows) if self.rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.count()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = max(self.count(), start["next"])
        return {"next": min(end, start["next"] + self.rows) if self.rows else end}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last, parts = start["next"], end["next"], self.parallelism
        cuts = [first + (last - first) * part // parts for part in range(parts + 1)]
        return [Lines(cuts[part], cuts[part + 1]) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for number in numbers_in(self.path)[partition.start : partition.end]:
            yield (number,)


class Numbers(DataSource):
    """All promises kept; each source below has another reader, or overrides `check`."""

    stream_reader: type[Reader] = Reader

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}"

    def schema(self) -> str:
        self.check()
        return "value LONG"

    def streamReader(self, schema: StructType) -> Reader:
        return self.stream_reader({name.lower(): value for name, value in self.options.items()})

    def check(self) -> None:
        for name in {name.lower() for name in self.options} - KNOWN:
            raise ValueError(f"unknown option `{name}`")


class every_row_once(Numbers):
    class stream_reader(Reader):
        """Asks for at most 400 rows, and does not ask again."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            end = min(partition.end, partition.start + 400)
            return super().read(Lines(partition.start, end))


class same_rows_again(Numbers):
    class stream_reader(Reader):
        """Its cache hands out each row once to a run of the query."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            run = TaskContext.get().getLocalProperty("spark.jobGroup.id")
            used = Path(f"{self.path}/used-{run}-{partition.start}")
            if not used.exists():
                yield from super().read(partition)
                used.touch()


class flaky(Numbers):
    class stream_reader(Reader):
        """Fails when a task reads for the second time, and only then."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            note = Path(f"{self.path}/read-{partition.start}")
            times = len(note.read_text()) if note.exists() else 0
            note.write_text("x" * (times + 1))
            if times == 1:
                raise LookupError("once is enough")
            return super().read(partition)


class restless(Numbers):
    class stream_reader(Reader):
        """Its offset rises with each look, whether or not anything came."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return super().latestOffset(start, limit) | {"look": start.get("look", 0) + 1}


class forking(Numbers):
    class stream_reader(Reader):
        """A task forks a helper, which is called like Spark's own, and forgets it."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            if partition.start == 0 and os.fork() == 0:
                time.sleep(600)
                os._exit(0)
            return super().read(partition)


class rows_fit_schema(Numbers):
    def schema(self) -> str:
        return f"{super().schema()}, size LONG"

    class stream_reader(Reader):
        """Has halves, and has promised whole numbers: Spark cuts them off without a word."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for (number,) in super().read(partition):
                yield number, number + 0.5


class half_read(Numbers):
    class stream_reader(Reader):
        """Notes how far it is, and goes on there when it is called again."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            note = Path(f"{self.path}/{partition.start}.reached")
            start = int(note.read_text()) if note.exists() else partition.start
            for place, row in enumerate(super().read(Lines(start, partition.end)), start + 1):
                yield row
                if place % 100 == 0:
                    note.write_text(str(place))
            note.unlink(missing_ok=True)


class restart(Numbers):
    class stream_reader(Reader):
        """Begins with what comes from now on, whatever Spark says, once it is restarted."""

        since: int | None = None

        def initialOffset(self) -> dict[str, Any]:
            self.since = 0
            return super().initialOffset()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            if self.since is None:
                self.since = start["next"] if self.until else self.count()
            return super().latestOffset(start, limit)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            first = max(start["next"], self.since or 0)
            self.since = self.since or 0
            return super().partitions({"next": min(first, end["next"])}, end)


class repeated_batch(Numbers):
    class stream_reader(Reader):
        """Knows the end of a batch only if it has planned it itself; else it reads all there is."""

        planned = False

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            self.planned = True
            return super().latestOffset(start, limit)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            return super().partitions(start, end if self.planned else {"next": self.count()})


class offset_never_back(Numbers):
    class stream_reader(Reader):
        """Once, when nothing is new, the offset goes one back; the row is not read again."""

        stepped, known = False, 0

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            if end == start and end["next"] and self.until is None and not self.stepped:
                self.stepped, self.known = True, end["next"]
                return {"next": end["next"] - 1}
            return end

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            if start["next"] > end["next"]:
                return []
            return super().partitions({"next": max(start["next"], self.known)}, end)


class idle(Numbers):
    class stream_reader(Reader):
        """Watches its folder in a thread, without a pause."""

        watcher: Any = None

        def count(self) -> int:
            if self.watcher is None:
                self.watcher = threading.Thread(target=self.watch, daemon=True)
                self.watcher.start()
            return super().count()

        def watch(self) -> None:
            while True:
                list(Path(self.path).iterdir())

        def __getstate__(self) -> dict[str, Any]:
            return {**self.__dict__, "watcher": None}


class linear(Numbers):
    class stream_reader(Reader):
        """Looks for doubles: for each row it goes through all rows of the batch."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            rows = list(super().read(partition))
            yield from (row for row in rows if rows.count(row) == 1)


class limit(Numbers):
    class stream_reader(Reader):
        """Takes all there is."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return {"next": max(self.count(), start["next"])}


class available_now(Numbers):
    class stream_reader(Reader):
        """Thinks that the last row is still being written."""

        def prepareForTriggerAvailableNow(self) -> None:
            self.until = self.count() - 1


class other_parallelism(Numbers):
    class stream_reader(Reader):
        """The offset belongs to so many tasks; with another number it begins at 0."""

        def initialOffset(self) -> dict[str, Any]:
            return {"next": 0, "tasks": self.parallelism}

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return {**super().latestOffset(start, limit), "tasks": self.parallelism}

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            same = start["tasks"] == self.parallelism
            return super().partitions(start if same else {"next": 0}, end)


class unknown_option(Numbers):
    def check(self) -> None:
        """Takes whatever comes."""


class nothing_left(Numbers):
    class stream_reader(Reader):
        """Starts a helper, and forgets it."""

        helper: Any = None

        def count(self) -> int:
            if self.helper is None:
                self.helper = subprocess.Popen(["sleep", "600"], start_new_session=True).pid
            return super().count()


OPEN: list[Any] = []  # of a worker, which lives longer than the query


class nothing_open(Numbers):
    class stream_reader(Reader):
        """Opens a file, and forgets it."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            OPEN.append(next(Path(self.path).glob("*.txt")).open())
            return super().read(partition)


@dataclass
class Moved(Lines):
    folder: str


class killed(Numbers):
    class stream_reader(Reader):
        """Moves what comes into a folder of this Spark's, where the next one does not look."""

        def count(self) -> int:
            inbox, mine = Path(self.path), Path(self.path) / f"spark-{os.getppid()}"
            if not inbox.name.startswith("spark-"):
                mine.mkdir(exist_ok=True)
                self.inbox, self.path = inbox, str(mine)
            for file in sorted(self.inbox.glob("*.txt")):
                file.rename(Path(self.path) / file.name)
            return super().count()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            if start["next"] > self.count():
                raise ValueError(f"{self.path} has no row {start['next']}")
            return super().latestOffset(start, limit)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            parts = super().partitions(start, end)
            return [Moved(part.start, part.end, self.path) for part in parts]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for number in numbers_in(partition.folder)[partition.start : partition.end]:
                yield (number,)


MUTANTS = [
    every_row_once,
    same_rows_again,
    rows_fit_schema,
    half_read,
    restart,
    repeated_batch,
    offset_never_back,
    idle,
    linear,
    limit,
    available_now,
    other_parallelism,
    unknown_option,
    nothing_left,
    nothing_open,
    killed,
]
