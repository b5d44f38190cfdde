"""A source under trial: the kit feeds it numbered rows, and a ledger records which arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connector_tests.described import StreamSource, as_options
from spark_connector_tests.driver import Drivers
from spark_connector_tests.promise import HANG, Broken
from spark_connector_tests.queries import Ledger, SourceQuery
from spark_connector_tests.rows import check_once
from spark_connector_tests.trial import Trial

# Numbers of rows. They are odd, so that a lost remainder of a division or a lost last page shows.
PORTION = 23
MANY = 1_013


class SourceTrial(Trial):
    """Each promise feeds some more rows, and compares all that have arrived."""

    plan: SourceQuery

    def __init__(
        self, spark: SparkSession, drivers: Drivers, folder: Path, source: StreamSource
    ) -> None:
        super().__init__(spark, drivers, folder)
        self.source = self.described = source
        self.fed = 0
        self.plan = SourceQuery(
            self.source.format,
            as_options(self.source.options),
            self.source.schema,
            self.source.number,
            self.folder / "checkpoint",
            self.folder / "ledger",
        )
        self.ledger = Ledger(self.plan.ledger)
        self._more: Mapping[str, object] = {}

    def run(self, more: Mapping[str, object] | None = None) -> None:
        """Start the query unless it runs with exactly these `more` options."""
        if self._more != (more or {}):
            self.stop()
        self._more = more or {}
        self.running(lambda: self.plan.start(self.spark, self._more))

    def works(
        self,
        count: int = PORTION,
        when: str = "while the query ran",
        more: Mapping[str, object] | None = None,
    ) -> None:
        """Run the query, feed some rows, and compare."""
        self.run(more)
        self.feed(count)
        self.arrive(when)

    def ensure_worked(self) -> None:
        if not self.fed:
            self.works()

    def begun(self) -> None:
        """Make sure that a source has begun if it starts with the rows that arrive from then on."""
        if self.source.from_now:
            self.ensure_worked()

    def feed(self, count: int = PORTION) -> None:
        """Feed the next rows, or expect them from a source that creates its rows."""
        if self.source.feed:
            self.give(range(self.fed, self.fed + count))
        else:
            self.fed = len(self.ledger.rows()) + count

    def give(self, numbers: Sequence[int], split: int | None = None) -> None:
        """Feed rows with these numbers, to this split if one is named."""
        self._wait_for_beginning()
        feed_split = self.source.feed_split
        with self.blamed("feed"):
            if split is not None and feed_split:
                feed_split(split, numbers)
            elif self.source.feed:
                self.source.feed(numbers)
        self.fed += len(numbers)

    def _wait_for_beginning(self) -> None:
        """Wait for the first batch, as a source may start with the rows that arrive after it."""
        looks = self.source.python or self.source.from_now
        if looks and not self.fed and self.query:
            self.wait((self.plan.checkpoint / "commits" / "0").exists, self.seconds)

    def feed_unread(self, count: int = PORTION) -> None:
        """Leave rows that no batch has finished, and stop the query."""
        self.begun()
        if self.source.waiting and not self.source.logged:
            self.stop()
            self.feed(count)
        else:
            self.feed_failing(count)

    def feed_failing(self, count: int = PORTION) -> None:
        """Feed rows, and let their batch fail."""
        self.run()
        self.plan.fails.touch()
        self.feed(count)
        self.failed()

    more = feed

    def more_unread(self) -> None:
        if self.source.waiting:
            self.feed()

    def done(self) -> bool:
        return len(self.ledger.rows()) >= self.fed

    def arrive(self, when: str) -> None:
        self.read_on()
        self.compare(when)

    def read_on(self) -> None:
        """Let the query read everything; from an endless source, the expected rows."""
        if self.source.feed:
            self.read_all(self.done)
        else:
            self.wait(self.done, self.seconds)
            if self.fed and not self.ledger.rows():
                raise Broken(f"no row arrived within {self.seconds} s", cause=HANG)

    def compare(self, when: str, first: int = 0) -> None:
        """Raise `Broken` unless each row from `first` on has arrived once; needs numbered rows."""
        if self.source.number is None:
            return
        rows = [n for n in self.ledger.rows() if n is None or n >= first]
        end = self.fed if self.source.feed else max(rows, default=-1) + 1
        check_once(range(first, end), rows, when)

    def new_plan(self, name: str) -> SourceQuery:
        """Return another query on the same source, with its own checkpoint and ledger."""
        checkpoint, ledger = self.folder / f"checkpoint-{name}", self.folder / f"ledger-{name}"
        return replace(self.plan, checkpoint=checkpoint, ledger=ledger)

    @contextmanager
    def another(self, plan: SourceQuery) -> Iterator[None]:
        """Put another query under trial in the block."""
        own = self.plan, self.ledger
        self.plan, self.ledger = plan, Ledger(plan.ledger)
        try:
            yield
        finally:
            self.plan, self.ledger = own
