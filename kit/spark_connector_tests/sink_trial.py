"""A sink under trial: the kit writes numbered batches to it, and reads them back."""

from __future__ import annotations

import json
import math
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import cycle
from pathlib import Path
from typing import Any
from zlib import crc32

from pyspark.sql import SparkSession

from spark_connector_tests.described import StreamSink, as_options
from spark_connector_tests.driver import Drivers
from spark_connector_tests.promise import Broken, Mistake
from spark_connector_tests.queries import PART, WRITERS, SinkQuery, keys_of_parts
from spark_connector_tests.rows import check_once, comparable
from spark_connector_tests.trial import Trial

# Numbers of rows. They are odd, so that a lost last buffer shows.
BATCH = 37
MANY = 1_013
LARGE = 5_003  # more than the buffers of most writers hold
# Rows with these values in the first column have a DOUBLE that not every format can hold.
BEYOND = {"no number": math.nan, "infinite": math.inf, "less than all": -math.inf}

Row = Any  # the column `value`, or with `types` a tuple of it and the other columns


def _sign(number: int) -> int:
    return -1 if number % 2 else 1


def _day(number: int) -> date:
    """Return a day in 1969 or 2043, or sometimes one that not every format can hold."""
    far = {1: date(9999, 12, 30), 39: date(1600, 1, 2)}
    return far.get(number % 50, date(1969, 12, 1) + timedelta(27_000 * (number % 2)))


# For each type and row number a value, often an extreme one. LONG and DECIMAL(38,18) have more
# digits than a float can hold.
SAMPLES: dict[str, Callable[[int], object]] = {
    "BOOLEAN": lambda number: number % 3 == 0,
    "INT": lambda number: -(2**31) if number % 50 == 5 else _sign(number) * (2**31 - 1 - number),
    "LONG": lambda number: -(2**63) if number % 50 == 5 else _sign(number) * (2**63 - 1 - number),
    "DOUBLE": lambda number: 5e-324 if number % 50 == 5 else _sign(number) * number / 7,
    "DECIMAL(12,3)": lambda number: _sign(number) * Decimal(999_999_999_999 - number).scaleb(-3),
    "DECIMAL(38,18)": lambda number: Decimal(f"{_sign(number) * (10**38 - 1 - number)}e-18"),
    "STRING": lambda number: f"{number} é 😀",
    "BINARY": lambda number: bytes([0, number % 256, 255]) * {0: 0, 6: 1_000}.get(number % 10, 1),
    "DATE": _day,
    "TIMESTAMP": lambda number: (
        datetime.combine(_day(number), time(1, 2, 3, 4005, UTC)) + timedelta(seconds=number)
    ),
}


class Batches:
    """A query that writes to the sink, and the folder of its batches: each file is one."""

    def __init__(self, trial: SinkTrial, name: str) -> None:
        self._trial, self._count = trial, 0
        self.folder = trial.folder / f"batches-{name}"
        self.folder.mkdir()
        self.plan = SinkQuery(
            trial.sink.format,
            as_options(trial.sink.options),
            list(trial.sink.columns),
            dict(trial.sink.types),
            trial.folder / f"checkpoint-{name}",
            self.folder,
        )

    def add(self, values: Sequence[str | None]) -> list[Row]:
        """Add a batch with these values, dealt out to the tasks; return its comparable rows."""
        rows = [self._trial.row(value) for value in values]
        parts = keys_of_parts(self._trial.spark, self._trial.writers)
        names = ["value", *self._trial.sink.types]
        lines = []
        for row, part in zip(rows, cycle(parts), strict=False):
            cells = row if isinstance(row, tuple) else [row]
            columns = dict(zip(names, cells, strict=True)) | {PART: part}
            lines.append(json.dumps(columns, default=_as_json) + "\n")
        draft = self.folder / ".draft"
        draft.write_text("".join(lines))
        self._count += 1
        draft.rename(self.folder / f"{self._count:06}.json")
        return [self._trial.known(row) for row in rows]


def _as_json(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return str(value.isoformat() if isinstance(value, date) else value)


class SinkTrial(Trial):
    """Each promise writes some more batches, and compares all that is in the sink."""

    batches: Batches

    def __init__(
        self, spark: SparkSession, drivers: Drivers, folder: Path, sink: StreamSink
    ) -> None:
        super().__init__(spark, drivers, folder)
        self.sink = self.described = sink
        if unknown := set(self.sink.types.values()) - SAMPLES.keys():
            choice = ", ".join(SAMPLES)
            raise Mistake(f"`types`: unknown types {sorted(unknown)}; choose from {choice}")
        self.written: list[Row] = []
        self.number = 0
        self.writers = WRITERS
        self.use(Batches(self, "first"))

    def use(self, batches: Batches) -> None:
        """Put another query under trial."""
        self.stop()
        self.batches, self.plan = batches, batches.plan

    def row(self, value: str | None) -> Row:
        """Return the row for a value; with `types` a tuple with some nulls in it."""
        if not self.sink.types:
            return value
        number = crc32((value or "").encode()) % 9_973  # equal for equal values
        samples: list[object] = [SAMPLES[kind](number) for kind in self.sink.types.values()]
        if value in BEYOND:
            beyond = BEYOND[value]
            samples = [beyond if isinstance(sample, float) else sample for sample in samples]
        return value, *(None if number % 11 == at else sample for at, sample in enumerate(samples))

    def known(self, row: Row) -> Row:
        """Return a row in the form in which written and read rows are compared."""
        return (row[0], *map(comparable, row[1:])) if self.sink.types else row

    def run(self, writers: int = WRITERS) -> None:
        """Start the query unless it runs with this many writing tasks."""
        if self.writers != writers:
            self.stop()
        self.writers = writers
        self.running(lambda: self.batches.plan.start(self.spark, writers))

    def works(self, count: int = BATCH, when: str = "while the query ran") -> None:
        """Run the query, write a batch, and compare."""
        self.run()
        self.more(count)
        self.arrive(when)

    def all_but_one_ended(self) -> bool:
        """Return whether exactly one writing task still runs."""
        tracker = self.spark.sparkContext.statusTracker()
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(
            stage.numTasks == self.writers and stage.numCompletedTasks == self.writers - 1
            for stage in stages
            if stage
        )

    def more(self, count: int = BATCH) -> list[Row]:
        """Write the next batch: this many rows, each with a number."""
        return self.write([str(self.number + place) for place in range(count)])

    more_unread = more

    def write(self, values: Sequence[str | None]) -> list[Row]:
        """Write the next batch, with these values."""
        self.number += len(values)
        rows = self.batches.add(values)
        self.written += rows
        return rows

    def read(self) -> list[Row]:
        """Return what a reader sees, without duplicates where they are allowed."""
        with self.blamed("read"):
            rows = [self.known(row) for row in self.sink.read()]
        return without_repeats(rows, self.written) if self.sink.at_least_once else rows

    def done(self) -> bool:
        return len(self.read()) >= len(self.written)

    def arrive(self, when: str) -> None:
        self.read_all(self.done)
        self.compare(when)

    def check_whole(self, when: str) -> None:
        """Raise `Broken` if a reader sees only a part of the last batch."""
        seen = len(set(self.read()) & set(self.written[-BATCH:]))
        if 0 < seen < BATCH:
            raise Broken(f"{when}, a reader saw {seen} of the {BATCH} rows of a batch")

    def compare(self, when: str) -> None:
        """Raise `Broken` unless a reader sees each written row once."""
        rows = self.read()
        if self.sink.types:
            self._compare_columns({row[0]: row for row in rows}, when)
        check_once(self.written, rows, when)

    def _compare_columns(self, rows: Mapping[str, Row], when: str) -> None:
        """Raise `Broken` for the first row in which a column has changed."""
        for row in self.written:
            read = rows.get(row[0], row)
            for name, expected, value in zip(self.sink.types, row[1:], read[1:], strict=True):
                if expected != value:
                    raise Broken(f"{when}, row {row[0]} has {name} = {value}; expected {expected}")


def without_repeats(rows: Sequence[Row], written: Sequence[Row]) -> list[Row]:
    """Return each row at most as often as it was written; unknown rows stay."""
    seen, wanted = Counter(rows), Counter(written)
    unknown = Counter({row: times for row, times in seen.items() if row not in wanted})
    return list(((seen & wanted) + unknown).elements())


@contextmanager
def onlooker(read: Callable[[], list[Row]]) -> Iterator[list[frozenset[Row]]]:
    """Call `read` again and again during the block, which gets the list of different results."""
    end, views, errors = threading.Event(), list[frozenset[Row]](), list[BaseException]()

    def look() -> None:
        try:
            while not end.wait(0.002):
                view = frozenset(read())
                if view not in views[-1:]:
                    views.append(view)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield views
    finally:
        end.set()
        thread.join()
    if errors:
        raise errors[0]
