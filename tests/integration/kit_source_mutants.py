"""A source that keeps all promises, and for each promise one or more that break just this one.

Spark's workers import this module for each query, so it imports no more than it must.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
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

TIME = pa.timestamp("us", "UTC")
KNOWN = {"path", "maxrows", "parallelism"}
DOWN, AWAY, RESTARTED, SLOW = ".down", ".away", ".restarted", ".slow"  # a server, in files


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
    """Reads the numbers in a folder's files: the offset is how many were read."""

    def __init__(self, options: dict[str, str]) -> None:
        self.path = options["path"]
        self.rows = int(options.get("maxrows", 0))
        self.parallelism = int(options.get("parallelism", 2))
        self.until: int | None = None
        self.counted: dict[tuple[str, int], int] = {}

    def numbers(self) -> list[int]:
        self.connect()
        return numbers_in(self.path)

    def connect(self) -> None:
        if (Path(self.path) / DOWN).exists():
            raise ConnectionRefusedError("the server is away")

    def count(self) -> int:
        self.connect()
        files = {(file.name, file.stat().st_size): file for file in Path(self.path).glob("*.txt")}
        for key in files.keys() - self.counted.keys():
            self.counted[key] = files[key].read_text().count("\n")
        return sum(self.counted[key] for key in files)

    def initialOffset(self) -> dict[str, Any]:
        return {"next": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.rows) if self.rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.count()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = max(self.count() if self.until is None else self.until, start["next"])
        return {"next": min(end, start["next"] + self.rows) if self.rows else end}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last, parts = start["next"], end["next"], self.parallelism
        cuts = [first + (last - first) * part // parts for part in range(parts + 1)]
        return [Lines(cuts[part], cuts[part + 1]) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from map(row, self.numbers()[partition.start : partition.end])


class Table(DataSourceReader):
    """All rows at once."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        yield from map(row, numbers_in(self.path))


class Numbers(DataSource):
    """All promises kept; each source below has another reader, or overrides `check`."""

    stream_reader: type[Reader] = Reader
    table: type[Table] = Table
    breaks: ClassVar[str] = ""  # the promise, if the class is not called like it

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}"

    def schema(self) -> str:
        self.check()
        return "value LONG, at TIMESTAMP, text STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = {name.lower(): value for name, value in self.options.items()}
        return stream_reader(self.stream_reader(options))

    def reader(self, schema: StructType) -> Table:
        return self.table(self.options["path"])

    def check(self) -> None:
        for name in {name.lower() for name in self.options} - KNOWN:
            raise ValueError(f"unknown option `{name}`")


class every_row_once(Numbers):
    class stream_reader(Reader):
        """Asks for at most 400 rows, and does not ask again."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            end = min(partition.end, partition.start + 400)
            return super().read(Lines(partition.start, end))


class one_row(Numbers):
    breaks = "every_row_once"

    class stream_reader(Reader):
        """Takes a list of one row for a row, which has no length."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            start = end if end["next"] - start["next"] == 1 else start
            return super().partitions(start, end)


class remainder(Numbers):
    breaks = "every_row_once"

    class stream_reader(Reader):
        """Gives each of four tasks a quarter, and nobody the rest."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            first, size = start["next"], (end["next"] - start["next"]) // 4
            return [Lines(first + size * part, first + size * (part + 1)) for part in range(4)]


class hangs(Numbers):
    breaks = "every_row_once"

    class stream_reader(Reader):
        """Waits for a row that does not come."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            while partition.start < partition.end:
                time.sleep(0.1)
            return super().read(partition)


class null_in_not_null(Numbers):
    breaks = "every_row_once"

    def schema(self) -> str:
        return "value LONG NOT NULL, at TIMESTAMP, text STRING"

    class stream_reader(Reader):
        """Has a null where it promises none; the batches of Arrow reach the JVM as they are."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for _, at, text in super().read(partition):
                columns = [pa.array([None], pa.int64()), pa.array([at], TIME), pa.array([text])]
                yield pa.RecordBatch.from_arrays(columns, ["value", "at", "text"])


class at_rest(Numbers):
    class stream_reader(Reader):
        """Its offset rises with each look, whether or not anything came."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return super().latestOffset(start, limit) | {"look": start.get("look", 0) + 1}


class values(Numbers):
    class stream_reader(Reader):
        """Has room for ten letters."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for number, at, text in super().read(partition):
                yield number, at, text[:10]


class some_values(Numbers):
    breaks = "values"

    class stream_reader(Reader):
        """Has another text for some rows."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for number, at, text in super().read(partition):
                yield number, at, text if number % 500 != 250 else text.upper()


class from_the_first_row(Numbers):
    class stream_reader(Reader):
        """Begins with what comes next, without a word."""

        def initialOffset(self) -> dict[str, Any]:
            return {"next": self.count()}


class any_zone(Numbers):
    class stream_reader(Reader):
        """Takes Greenwich's time for the local one."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for number, at, text in super().read(partition):
                yield number, at.replace(tzinfo=None), text


class local_day(Numbers):
    breaks = "any_zone"

    def schema(self) -> str:
        return f"{super().schema()}, day DATE"

    class stream_reader(Reader):
        """Takes the day of midnight in Greenwich: east of it that is right, too."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for values in super().read(partition):
                yield *values, date.fromtimestamp(values[0] * 86_400)

    class table(Table):
        """Does the same."""

        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            for values in super().read(partition):
                yield *values, date.fromtimestamp(values[0] * 86_400)


class same_rows_again(Numbers):
    class stream_reader(Reader):
        """Its cache hands out each row once to a run of the query."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            run = TaskContext.get().getLocalProperty("spark.jobGroup.id")
            used = Path(f"{self.path}/used-{run}-{partition.start}-{partition.end}")
            if not used.exists():
                yield from super().read(partition)
                used.touch()


class shuffled(Numbers):
    breaks = "same_rows_again"

    class stream_reader(Reader):
        """Threads, as it were, hand over the rows."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            rows = list(super().read(partition))
            return iter(random.sample(rows, len(rows)))


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


class forking(Numbers):
    class stream_reader(Reader):
        """A task forks a helper, which is called like Spark's own, and forgets it."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            if partition.start == 0 < partition.end and os.fork() == 0:
                time.sleep(600)
                os._exit(0)
            return super().read(partition)


class rows_fit_schema(Numbers):
    def schema(self) -> str:
        return f"{super().schema()}, size LONG"

    class stream_reader(Reader):
        """Has halves, and has promised whole numbers: Spark cuts them off without a word."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for values in super().read(partition):
                yield *values, values[0] + 0.5

    class table(Table):
        """Has what it promised."""

        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            for values in super().read(partition):
                yield *values, values[0]


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


class late_rows(Numbers):
    class stream_reader(Reader):
        """Its offset is the largest number so far."""

        def count(self) -> int:
            return max(numbers_in(self.path), default=-1) + 1

        def read(self, partition: InputPartition) -> Iterator[Any]:
            wanted = range(partition.start, partition.end)
            yield from (row(number) for number in self.numbers() if number in wanted)


class unfinished_row(Numbers):
    class stream_reader(Reader):
        """Takes the last line as it is."""

        def numbers(self) -> list[int]:
            texts = [file.read_text() for file in sorted(Path(self.path).glob("*.txt"))]
            return [int(line) for text in texts for line in text.split()]

        def count(self) -> int:
            return len(self.numbers())


class every_split(Numbers):
    class stream_reader(Reader):
        """Looks for splits when a query starts, and not again; a file's name ends with its own."""

        known: set[str] | None = None

        def files(self) -> list[Path]:
            return sorted(Path(self.path).glob("*.txt"))

        def count(self) -> int:
            splits = {file.stem.split("-")[1] for file in self.files()}
            self.known = self.known or {"0", *splits}
            return sum(
                file.read_text().count("\n")
                for file in self.files()
                if file.stem.split("-")[1] in self.known
            )


class two_queries(Numbers):
    class stream_reader(Reader):
        """A row is for the query that asks first; and beside one that came earlier it gets none."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
            for values in super().read(partition):
                owner = Path(self.path) / f"owner-{values[0] // 1000}"
                if not owner.exists():
                    owner.write_text(query)
                if owner.read_text() == query or values[0] < 1000:
                    yield values


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


class steady(Numbers):
    class stream_reader(Reader):
        """Each look starts a thread that stays."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            return super().latestOffset(start, limit)


KEPT: list[bytes] = []


class grows(Numbers):
    breaks = "steady"

    class stream_reader(Reader):
        """Keeps what has passed: with these rows it would take long to show, so each is large."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            KEPT.append(random.randbytes(16 * 2**20))
            return super().partitions(start, end)


class linear(Numbers):
    class stream_reader(Reader):
        """Looks for doubles: for each row it goes through all rows of the batch."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            rows = list(super().read(partition))
            yield from (row for row in rows if len([one for one in rows if one == row]) == 1)


class limit(Numbers):
    class stream_reader(Reader):
        """Takes all there is."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            return {"next": max(self.count(), start["next"])}


class cut(Numbers):
    breaks = "limit"

    class stream_reader(Reader):
        """Loses the last row of a batch that its limit has cut."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            full = self.until is None and end["next"] - start["next"] == self.rows
            return super().partitions(start, {"next": end["next"] - full})


@dataclass
class SplitLines(Lines):
    split: str


class beyond(Numbers):
    breaks = "limit"

    class stream_reader(Reader):
        """A split for which the limit leaves nothing goes to its end, and so beyond the limit."""

        def counts(self) -> dict[str, int]:
            self.count()
            found: dict[str, int] = {}
            for file in sorted(Path(self.path).glob("*.txt")):
                split = file.stem.split("-")[1]
                lines = self.counted.get((file.name, file.stat().st_size), 0)
                found[split] = found.get(split, 0) + lines
            return found

        def initialOffset(self) -> dict[str, Any]:
            return {}

        def prepareForTriggerAvailableNow(self) -> None:
            self.there = self.counts()

        there: dict[str, int] | None = None

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            end, left = dict(start), self.rows or 2**31
            there = self.counts() if self.there is None else self.there
            for split, count in sorted(there.items()):
                taken = min(max(0, count - start.get(split, 0)), left)
                end[split] = start.get(split, 0) + taken if left else count
                left -= taken
            return end

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            return [SplitLines(start.get(split, 0), at, split) for split, at in end.items()]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            self.connect()
            files = sorted(Path(self.path).glob(f"*-{partition.split}.txt"))
            lines = [line for file in files for line in file.read_text().split("\n")[:-1]]
            yield from map(row, map(int, lines[partition.start : partition.end]))


class leftover(Numbers):
    breaks = "limit"

    class stream_reader(Reader):
        """Has fetched all there is; what a limit cuts waits in the reader, behind the offset."""

        def __init__(self, options: dict[str, str]) -> None:
            super().__init__(options)
            self.waiting: list[int] = []
            self.at: int | None = None

        def initialOffset(self) -> dict[str, Any]:
            return {"next": 0, "part": 0}

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            before = start["next"] if self.at is None else self.at
            self.at = max(before, self.count() if self.until is None else self.until)
            self.waiting += range(before, self.at)
            return {"next": self.at, "part": start["part"] + 1} if self.waiting else start

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            if self.at is None:
                return [Lines(start["next"], end["next"])]
            size = self.rows or len(self.waiting)
            taken, self.waiting = self.waiting[:size], self.waiting[size:]
            return [Lines(taken[0], taken[-1] + 1)] if taken else []


class available_now(Numbers):
    class stream_reader(Reader):
        """Asks for one page of a thousand rows."""

        def prepareForTriggerAvailableNow(self) -> None:
            self.until = self.count() if self.rows else self.count() // 1000 * 1000


class limited_available_now(Numbers):
    class stream_reader(Reader):
        """Has its one batch, and thinks that this was all."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            end = super().latestOffset(start, limit)
            if self.until and self.rows:
                self.until = end["next"]
            return end


class endless(Numbers):
    breaks = "limited_available_now"

    class stream_reader(Reader):
        """Goes on as long as something comes."""

        def prepareForTriggerAvailableNow(self) -> None:
            """What is there now is not noted."""


class batch_read(Numbers):
    class table(Table):
        """Reads one page."""

        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            yield from map(row, numbers_in(self.path)[:1000])


class table_values(Numbers):
    breaks = "batch_read"

    class table(Table):
        """Has room for ten letters."""

        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            for number, at, text in super().read(partition):
                yield number, at, text[:10]


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


class errors_told(Numbers):
    class stream_reader(Reader):
        """Thinks that what cannot be read is not there."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            try:
                numbers = self.numbers()
            except OSError:
                numbers = []
            yield from map(row, numbers[partition.start : partition.end])


class rows_again(Numbers):
    breaks = "errors_told"

    class stream_reader(Reader):
        """Tries again, from its first row on, whatever it has given already."""

        def read(self, partition: InputPartition) -> Iterator[Any]:
            try:
                for number in self.numbers()[partition.start : partition.end]:
                    values = row(number)
                    yield values
            except OSError:
                yield from super().read(partition)


class nothing_planned(Numbers):
    breaks = "errors_told"

    class stream_reader(Reader):
        """Thinks that what it cannot look at has no rows."""

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            try:
                self.connect()
                return super().partitions(start, end)
            except OSError:
                return []


class nothing_there(Numbers):
    breaks = "errors_told"

    class stream_reader(Reader):
        """Thinks that where it cannot look there is nothing."""

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            self.connect()
            try:
                return super().latestOffset(start, limit)
            except OSError:
                return self.initialOffset()


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
            OPEN.extend(file.open() for file in [*Path(self.path).glob("*.txt")][:1])
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
            there = len(list(Path(self.path).glob("*.txt")))
            for number, file in enumerate(sorted(self.inbox.glob("*.txt")), there):
                file.rename(Path(self.path) / f"{number:06}.txt")
            return super().count()

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            if start["next"] > self.count():
                raise ValueError(f"{self.path} has no row {start['next']}")
            return super().latestOffset(start, limit)

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Any]:
            self.count()
            parts = super().partitions(start, end)
            return [Moved(part.start, part.end, self.path) for part in parts]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            yield from map(row, numbers_in(partition.folder)[partition.start : partition.end])

    class table(Table):
        """Looks there, too."""

        def read(self, partition: InputPartition | None) -> Iterator[Any]:
            for folder in Path(self.path).glob("spark-*"):
                yield from map(row, numbers_in(str(folder)))
            yield from super().read(partition)


class Passing(Reader):
    """After something has happened to the server, it takes no notice of the next rows."""

    event = RESTARTED

    def read(self, partition: InputPartition) -> Iterator[Any]:
        happened = Path(self.path) / self.event
        if happened.exists() and partition.start < partition.end:
            happened.unlink(missing_ok=True)
            return iter(())
        return super().read(partition)


class server_restarted(Numbers):
    stream_reader = Passing


class server_slow(Numbers):
    class stream_reader(Passing):
        event = SLOW


class server_away(Numbers):
    class stream_reader(Passing):
        event = AWAY


MUTANTS = [
    kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Numbers)
    if kind not in (Numbers, flaky, forking, hangs)
]
