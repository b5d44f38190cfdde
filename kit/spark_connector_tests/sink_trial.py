"""The life of one sink under trial: it is written to in numbered batches, and read all the time."""

from __future__ import annotations

import json
import math
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

from pyspark.sql import SparkSession

from spark_connector_tests.described import DescribeSink, as_options
from spark_connector_tests.driver import Drivers
from spark_connector_tests.processes import context_of
from spark_connector_tests.promise import Broken, Mistake, check_once
from spark_connector_tests.queries import PART, WRITERS, SinkQuery, keys_of_parts
from spark_connector_tests.trial import QUIET, Trial
from spark_connector_tests.values import comparable

# Rows. Odd numbers: what loses a last buffer, or what does not fit one, is to be seen.
BATCH = 37
MANY = 1_013
LARGE = 5_003  # of which one task has more than 4,096
# With these values of the first column each DOUBLE is one that not every format can hold.
BEYOND = {"no number": math.nan, "infinite": math.inf, "less than all": -math.inf}

# Days that not every format can hold, for remainders of 50 that the first batch has.
FAR = {1: date(9999, 12, 30), 39: date(1600, 1, 2)}

Row = Any  # the text of the column `value`, or with `types` a tuple with the other values behind it

# Of each type a value for each number: extreme ones among them. Those of LONG and DECIMAL(38,18)
# have more digits than a float can hold.
SAMPLES: dict[str, Callable[[int], object]] = {
    "BOOLEAN": lambda number: number % 3 == 0,
    "INT": lambda number: -(2**31) if number % 50 == 5 else _sign(number) * (2**31 - 1 - number),
    "LONG": lambda number: -(2**63) if number % 50 == 5 else _sign(number) * (2**63 - 1 - number),
    "DOUBLE": lambda number: (
        _sign(number // 2) * {5: 5e-324, 6: 1.7976931348623157e308}.get(number % 50, number / 7)
    ),
    "DECIMAL(12,3)": lambda number: _sign(number) * Decimal(999_999_999_999 - number).scaleb(-3),
    "DECIMAL(38,18)": lambda number: Decimal(f"{_sign(number) * (10**38 - 1 - number)}e-18"),
    "STRING": lambda number: f"{number} é 😀",
    "BINARY": lambda number: (
        bytes([0, number % 256, 255]) * {0: 0, 6: 1_000, 5: 0}.get(number % 10, 1)
    ),
    "DATE": lambda number: FAR.get(number % 50, date(1969, 12, 1) + timedelta(number)),
    "TIMESTAMP": lambda number: (
        datetime.combine(
            FAR.get(number % 50, date(1969, 12, 1) + timedelta(27_000 * (number % 2))),
            time(1, 2, 3, 4005, UTC),
        )
        + timedelta(seconds=number)
    ),
}


def _sign(number: int) -> int:
    return -1 if number % 2 else 1


class Feed:
    """A folder in which each file is a batch, the same one however often it is read.

    `parts` are the values of the column `_part`, one for each task that writes. In each batch one
    task has no row (the first, then the next), and another one most of them; or it is told that
    all have rows.
    """

    def __init__(self, folder: Path, types: Mapping[str, str]) -> None:
        self.folder, self.count = folder, 0
        self._names = ["value", *types]
        self.folder.mkdir()

    def add(self, rows: Sequence[Row], parts: Sequence[int], evenly: bool = False) -> Path:
        if evenly:
            places = [parts[number % len(parts)] for number in range(len(rows))]
        else:
            places = spread(len(rows), parts, self.count)
        lines = [
            json.dumps({**self._columns(row), PART: part}, default=_as_json)
            for row, part in zip(rows, places, strict=True)
        ]
        draft = self.folder / ".draft"
        draft.write_text("".join(f"{line}\n" for line in lines))
        self.count += 1
        return draft.rename(self.folder / f"{self.count:06}.json")

    def _columns(self, row: Row) -> dict[str, object]:
        return dict(zip(self._names, row if isinstance(row, tuple) else [row], strict=True))


def _as_json(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value.isoformat() if isinstance(value, date) else value)


def spread(rows: int, parts: Sequence[int], batch: int) -> list[int]:
    """Which part each row goes to: none to one of them, and to another one every seventh row."""
    used = [part for place, part in enumerate(parts) if place != batch % len(parts)] or [*parts]
    return [used[-1 if number % 7 == 0 else 0] for number in range(rows)]


@dataclass
class Aside:
    """A query of another kind that writes to the same sink, and what it is fed with."""

    plan: SinkQuery
    feed: Feed
    parts: Sequence[int]
    trial: SinkTrial

    def add(self, text: str, count: int) -> list[Row]:
        """A batch of this many rows: `text` with a number behind it."""
        rows = [self.trial.row(f"{text} {number}") for number in range(count)]
        self.feed.add(rows, self.parts)
        return [self.trial.known(row) for row in rows]


class SinkTrial(Trial):
    """Each promise writes some batches more, and compares what is new in the sink."""

    plan: SinkQuery

    def __init__(self, spark: SparkSession, describe: DescribeSink, drivers: Drivers) -> None:
        super().__init__(spark, drivers, "sink")
        self.sink = self.described = describe(self.place)
        if unknown := set(self.sink.types.values()) - SAMPLES.keys():
            raise Mistake(f"`types`: no values of {unknown}; there are {', '.join(SAMPLES)}")
        self.written: list[Row] = []
        self.number = 0
        self._writers = WRITERS
        self._parts: dict[int, list[int]] = {}
        self._queries = 0
        self.new_query()

    def parts(self) -> list[int]:
        """What leads to each of the tasks that write."""
        if self._writers not in self._parts:
            self._parts[self._writers] = keys_of_parts(self.spark, self._writers)
        return self._parts[self._writers]

    def aside(self, name: str) -> Aside:
        """A query with a checkpoint of its own, which does not run yet."""
        feed = Feed(self.folder / f"batches-{name}", self.sink.types)
        plan = SinkQuery(
            self.sink.format,
            as_options(self.sink.options),
            list(self.sink.columns),
            dict(self.sink.types),
            self.folder / f"checkpoint-{name}",
            feed.folder,
        )
        return Aside(plan, feed, self.parts(), self)

    def row(self, value: str | None) -> Row:
        """What is written: the value, or with `types` a tuple, in which there are some nulls.

        Those of `BEYOND` come with doubles of their own. No zero is negative: to Spark's `groupBy`
        it is 0.0.
        """
        if not self.sink.types:
            return value
        number = crc32((value or "").encode()) % 9_973  # so equal values make equal rows
        samples: list[object] = [SAMPLES[kind](number) for kind in self.sink.types.values()]
        if value in BEYOND:
            beyond = BEYOND[value]
            samples = [beyond if isinstance(sample, float) else sample for sample in samples]
        return value, *(None if number % 11 == at else sample for at, sample in enumerate(samples))

    def known(self, row: Row) -> Row:
        """A row in the form in which those written and those read are compared."""
        return (row[0], *map(comparable, row[1:])) if self.sink.types else row

    def new_query(self) -> None:
        """From now on another query, whose batches begin at 0 again."""
        self.stop()
        self._queries += 1
        new = self.aside(str(self._queries))
        self.plan, self.feed = new.plan, new.feed

    def run(self, writers: int = WRITERS) -> None:
        """See that the query runs, with this many tasks that write."""
        if self._writers != writers:
            self.stop()
        self._writers = writers
        self.running(lambda: self.plan.start(self.spark, writers))

    def works(self, count: int = BATCH, when: str = "while the query ran") -> None:
        """See that the query runs, write a batch, and compare what is in the sink."""
        self.run()
        self.add(count)
        self.arrive(when)

    def all_but_one_ended(self) -> bool:
        """Whether of the tasks that write just one still runs."""
        tracker = context_of(self.spark).statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(
            stage.numTasks == self._writers and stage.numCompletedTasks == self._writers - 1
            for stage in stages
            if stage
        )

    def ensure_worked(self) -> None:
        if not self.written:
            self.works()

    def add(self, count: int = BATCH, text: str = "", evenly: bool = False) -> list[Row]:
        """The next batch: this many rows, each with `text` and a number."""
        return self.write([f"{self.number + place}{text}" for place in range(count)], evenly)

    def write(self, values: Sequence[str | None], evenly: bool = False) -> list[Row]:
        """The next batch, with these values; `evenly` when each task is to have some."""
        rows = [self.row(value) for value in values]
        self.number += len(rows)
        self.feed.add(rows, self.parts(), evenly)
        written = [self.known(row) for row in rows]
        self.written += written
        return written

    def read(self) -> list[Row]:
        """What a reader sees, without repeated rows where they are allowed."""
        with self.blamed("read"):
            rows = [self.known(row) for row in self.sink.read()]
        return without_repeats(rows, self.written) if self.sink.at_least_once else rows

    def more(self) -> None:
        self.add(evenly=True)  # a task without rows would run few lines

    def more_unread(self) -> None:
        self.add()

    def done(self) -> bool:
        return len(self.read()) >= len(self.written)

    def arrive(self, when: str) -> None:
        self.read_all(self.done)
        self.compare(when)

    def offer(self, value: str) -> None:
        """A batch of one row, which the sink may refuse; when that is repeated, it has no rows."""
        row = self.row(value)
        file = self.feed.add([row], self.parts())
        self.written.append(self.known(row))
        try:
            self.read_all(self.done)
        except Broken:
            if self.query and self.query.isActive:  # it hangs
                raise
            self.stop()
            file.write_text("")
            self.written.pop()
            self.run()

    def settle(self, when: str) -> None:
        """The same where no query runs; a reader may see the rows a moment later."""
        self.wait(lambda: Counter(self.read()) == Counter(self.written), QUIET)
        self.compare(when)

    def check_whole(self, when: str) -> None:
        """Raise `Broken` if a reader sees a part of the last batch."""
        seen = len(set(self.read()) & set(self.written[-BATCH:]))
        if 0 < seen < BATCH:
            raise Broken(f"{when}: a reader saw {seen} of the {BATCH} rows of a batch")

    def compare(self, when: str) -> None:
        """Raise `Broken` unless a reader sees what was written, each row once."""
        rows = self.read()
        if self.sink.types:
            self._compare_columns({row[0]: row for row in rows}, when)
        check_once(self.written, rows, when)

    def _compare_columns(self, rows: Mapping[str, Row], when: str) -> None:
        """Raise `Broken` for the first row of which a column is another one than was written."""
        for row in self.written:
            for name, was, came in zip(
                self.sink.types, row[1:], rows.get(row[0], row)[1:], strict=True
            ):
                if was != came:
                    raise Broken(
                        f"{when}: row {row[0]} has {name} = {came}, and was written with {was}"
                    )

    def files(self) -> dict[Path, float]:
        """What lies in the sink's folder, with the time of its last change."""
        return {file: file.stat().st_mtime_ns for file in self.place.rglob("*") if file.is_file()}


def without_repeats(rows: Sequence[Row], written: Sequence[Row]) -> list[Row]:
    """Each row at most as often as it was written; what nobody wrote stays."""
    found, wanted = Counter(rows), Counter(written)
    strange = Counter({row: times for row, times in found.items() if row not in wanted})
    return list(((found & wanted) + strange).elements())


class Onlooker:
    """Reads the sink again and again while the query writes; `views` is what it saw, in order."""

    def __init__(self, trial: SinkTrial) -> None:
        self._read = trial.read
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.views: list[frozenset[Row]] = []
        self.error: BaseException | None = None

    def _look(self) -> None:
        try:
            while not self._end.wait(0.002):
                view = frozenset(self._read())
                if not self.views or view != self.views[-1]:
                    self.views.append(view)
        except BaseException as error:  # told by the promise, in the thread that asks
            self.error = error

    def __enter__(self) -> Onlooker:
        self._thread.start()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()
