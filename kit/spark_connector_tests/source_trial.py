"""The life of one source under trial: it is fed numbered rows, and a ledger notes what came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from spark_connector_tests.described import DescribeSource, as_options
from spark_connector_tests.driver import Drivers
from spark_connector_tests.promise import check_once
from spark_connector_tests.queries import Ledger, SourceQuery
from spark_connector_tests.trial import Trial

# Rows. Odd numbers: losing the remainder of a division, or a last page, then shows.
PORTION = 23
MANY = 1_013


class SourceTrial(Trial):
    """Whatever is fed must come once; each promise feeds some rows more and looks again."""

    plan: SourceQuery

    def __init__(self, spark: SparkSession, describe: DescribeSource, drivers: Drivers) -> None:
        super().__init__(spark, drivers, "source")
        self.source = self.described = describe(self.place)
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

    @property
    def waiting(self) -> bool:
        return self.source.waiting

    def run(self, more: Mapping[str, object] | None = None) -> None:
        """See that the query runs, with `more` options and no others from an earlier promise."""
        if self._more != (more or {}):
            self.stop()
        self._more = more or {}
        self.running(lambda: self.plan.start(self.spark, self._more))

    def restart(self) -> None:
        """Stop the query if it runs, start it, and wait until it looks for new rows."""
        self.stop()
        self.run()
        self.read_on()

    def works(
        self,
        count: int = PORTION,
        when: str = "while the query ran",
        more: Mapping[str, object] | None = None,
    ) -> None:
        """See that the query runs, feed some rows, and compare what comes."""
        self.run(more)
        self.feed(count)
        self.arrive(when)

    def ensure_worked(self) -> None:
        if not self.fed:
            self.works()

    def begun(self) -> None:
        """See that a source that begins with what comes from now on has begun."""
        if self.source.from_now:
            self.ensure_worked()

    def feed(self, count: int = PORTION) -> None:
        """Give the source its next rows, or wait for one that makes its rows itself."""
        if self.source.feed:
            self.give(range(self.fed, self.fed + count))
        else:
            self.fed = len(self.ledger.rows()) + count

    def give(self, numbers: Sequence[int], split: int | None = None) -> None:
        """Give it rows with these numbers, in a split of its own if one is named."""
        self._wait_for_beginning()
        feed_split = self.source.feed_split
        with self.blamed("feed"):
            if split is not None and feed_split:
                feed_split(split, numbers)
            elif self.source.feed:
                self.source.feed(numbers)
        self.fed += len(numbers)

    def _wait_for_beginning(self) -> None:
        """A source may begin with what comes from now on; rows come between two batches then."""
        looks = self.source.python or self.source.from_now
        if looks and not self.fed and self.query:
            first = self.plan.checkpoint / "commits" / "0"
            self.wait(first.exists, self.seconds)

    def feed_unread(self, count: int = PORTION) -> None:
        """Leave rows that no batch has finished, and no running query."""
        self.begun()
        if self.waiting and not self.source.logged:
            self.stop()
            self.feed(count)
        else:
            self.feed_failing(count)

    def feed_failing(self, count: int = PORTION) -> None:
        """Feed rows, and fail the batch that they come in."""
        self.run()
        self.plan.fails.touch()
        self.feed(count)
        self.failed()

    def more(self) -> None:
        self.feed()

    def more_unread(self) -> None:
        if self.waiting:
            self.feed()

    def done(self) -> bool:
        return len(self.ledger.rows()) >= self.fed

    def arrive(self, when: str) -> None:
        self.read_on()
        self.compare(when)

    def read_on(self) -> None:
        """Let the query read everything; from an endless source, as much as is awaited."""
        if self.source.feed:
            self.read_all(self.done)
        else:
            self.wait(self.done, self.seconds)

    def compare(self, when: str, first: int = 0) -> None:
        """Raise `Broken` unless each row from the `first` on came once, if rows have a number."""
        if self.source.number is None:
            return
        rows = [number for number in self.ledger.rows() if not number < first]
        end = self.fed if self.source.feed else max(rows, default=-1) + 1
        check_once(range(first, end), rows, when)

    @contextmanager
    def another(self, name: str) -> Iterator[SourceQuery]:
        """In this block the query under trial is a new one, with a checkpoint of its own."""
        own = self.plan, self.ledger
        checkpoint, ledger = self.folder / f"checkpoint-{name}", self.folder / f"ledger-{name}"
        self.plan = replace(self.plan, checkpoint=checkpoint, ledger=ledger)
        self.ledger = Ledger(ledger)
        try:
            yield self.plan
        finally:
            self.plan, self.ledger = own
