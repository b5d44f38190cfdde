"""The life of one sink under trial: it is written to in numbered batches, and read all the time."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pyspark.sql import SparkSession

from tutorial_pkg.testing.described import DescribeSink, as_options
from tutorial_pkg.testing.driver import Drivers
from tutorial_pkg.testing.promise import check_once
from tutorial_pkg.testing.queries import SinkQuery
from tutorial_pkg.testing.trial import Trial

BATCH = 40  # rows
MANY = 1_000


class Feed:
    """A folder in which each file is a batch, the same one however often it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.folder.mkdir()

    def add(self, values: Sequence[str | None]) -> None:
        draft = self.folder / ".draft"
        draft.write_text("".join(json.dumps({"value": value}) + "\n" for value in values))
        self.count += 1
        draft.rename(self.folder / f"{self.count:06}.json")


@dataclass
class Aside:
    """A query of another kind that writes to the same sink, and what it is fed with."""

    plan: SinkQuery
    feed: Feed

    def add(self, text: str, count: int) -> list[str]:
        """A batch of so many rows: `text` with a number behind it."""
        values = [f"{text} {number}" for number in range(count)]
        self.feed.add(values)
        return values


class SinkTrial(Trial):
    """Each promise writes some batches more, and compares what is new in the sink."""

    def __init__(self, spark: SparkSession, describe: DescribeSink, drivers: Drivers) -> None:
        super().__init__(spark, drivers, "sink")
        self.sink = describe(self.place)
        self.written: list[str | None] = []
        self.number = 0
        self._writers = 0
        self._queries = 0
        self.new_query()

    def aside(self, name: str) -> Aside:
        """A query with a checkpoint of its own, which does not run yet."""
        feed = Feed(self.folder / f"batches-{name}")
        options, columns = as_options(self.sink.options), list(self.sink.columns)
        checkpoint = self.folder / f"checkpoint-{name}"
        return Aside(SinkQuery(self.sink.format, options, columns, checkpoint, feed.folder), feed)

    def new_query(self) -> None:
        """From now on another query, whose batches begin at 0 again."""
        self.stop()
        self._queries += 1
        new = self.aside(str(self._queries))
        self.plan, self.feed = new.plan, new.feed

    def run(self, writers: int = 2) -> None:
        """See that the query runs, with so many tasks that write."""
        if self._writers != writers:
            self.stop()
        self._writers = writers
        self.running(lambda: self.plan.start(self.spark, writers))

    def works(
        self, count: int = BATCH, when: str = "while the query ran", writers: int = 2
    ) -> None:
        """See that the query runs, write a batch, and compare what is in the sink."""
        self.run(writers)
        self.add(count)
        self.arrive(when)

    def ensure_worked(self) -> None:
        """See that a query has written something; it need not run any more."""
        if not self.written:
            self.works()

    def add(self, count: int = BATCH, text: str = "") -> list[str]:
        """The next batch: so many rows, each with a number, and `text` behind it."""
        values = [f"{number}{text}" for number in range(self.number, self.number + count)]
        self.number += count
        self.write(values)
        return values

    def write(self, values: Sequence[str | None]) -> None:
        """The next batch, with these values."""
        self.written += values
        self.feed.add(values)

    def read(self) -> list[str | None]:
        """What a reader sees, without repeated rows where they are allowed."""
        rows = list(self.sink.read())
        return without_repeats(rows, self.written) if self.sink.at_least_once else rows

    def complete(self) -> bool:
        """Whether a reader sees as many rows as were written."""
        return len(self.read()) >= len(self.written)

    def arrive(self, when: str) -> None:
        """Wait until all is written, and compare."""
        self.settle(self.complete)
        self.compare(when)

    def compare(self, when: str) -> None:
        """Raise `Broken` unless a reader sees what was written, each row once."""
        check_once(self.written, self.read(), when)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.sink.close()


def without_repeats(rows: Sequence[str | None], written: Sequence[str | None]) -> list[str | None]:
    """Each row at most as often as it was written; what nobody wrote stays."""
    found, wanted = Counter(rows), Counter(written)
    strange = Counter({row: times for row, times in found.items() if row not in wanted})
    return list(((found & wanted) + strange).elements())


class Onlooker:
    """Reads the sink again and again while the query writes; `views` is what it saw, in order."""

    def __init__(self, trial: SinkTrial) -> None:
        self._read = trial.sink.read
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.views: list[frozenset[str | None]] = []
        self.error: Exception | None = None

    def _look(self) -> None:
        try:
            while not self._end.wait(0.002):
                view = frozenset(self._read())
                if not self.views or view != self.views[-1]:
                    self.views.append(view)
        except Exception as error:  # told by the promise, in the thread that asks
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
