"""The life of one source under trial: it is fed numbered rows, and a ledger notes what came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from tutorial_pkg.testing.described import DescribeSource, as_options
from tutorial_pkg.testing.driver import Drivers
from tutorial_pkg.testing.promise import check_once
from tutorial_pkg.testing.queries import Ledger, SourceQuery
from tutorial_pkg.testing.trial import SECONDS, Trial

PORTION = 20  # rows
MANY = 1_000


class SourceTrial(Trial):
    """Whatever is fed must come once; each promise feeds some rows more and looks again."""

    def __init__(self, spark: SparkSession, describe: DescribeSource, drivers: Drivers) -> None:
        super().__init__(spark, drivers, "source")
        self.source = describe(self.place)
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
        """See that rows have come through a query, which need not run any more."""
        if not self.fed:
            self.works()

    def feed(self, count: int = PORTION) -> None:
        """Give the source its next rows; one that makes its rows itself is waited for."""
        if self.source.feed:
            numbers = range(self.fed, self.fed + count)
            self.fed += count
            self._feed(numbers)
        else:
            self.fed = len(self.ledger.rows()) + count

    def _feed(self, numbers: Sequence[int]) -> None:
        assert self.source.feed is not None
        try:
            self.source.feed(numbers)
        except TimeoutError:
            self.raise_failure()  # it waited for a query that has failed
            raise

    def feed_unread(self, count: int = PORTION) -> None:
        """Leave rows that no batch has finished, and no query that runs."""
        if self.source.feed and self.source.feed_when_stopped:
            self.stop()
            self.feed(count)
        else:
            self.feed_failing(count)

    def feed_failing(self, count: int = PORTION) -> None:
        """Feed rows, and fail the batch that they come in."""
        self.run()
        self.plan.fails = True
        self.feed(count)
        self.failed()

    def arrived(self) -> bool:
        """Whether as many rows came as were fed."""
        return len(self.ledger.rows()) >= self.fed

    def arrive(self, when: str) -> None:
        """Wait for all that was fed, and compare."""
        self.read_on()
        self.compare(when)

    def read_on(self) -> None:
        """Let the query read what there is; one that never ends, as much as is waited for."""
        if self.source.feed:
            self.settle(self.arrived)
        else:
            self.wait(self.arrived, SECONDS)

    def compare(self, when: str) -> None:
        """Raise `Broken` unless each row that was fed came once; rows need a number for that."""
        if self.source.number is None:
            return
        rows = self.ledger.rows()
        expected = range(self.fed) if self.source.feed else range(max(rows, default=-1) + 1)
        check_once(expected, rows, when)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.source.close()
