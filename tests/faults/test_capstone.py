"""The capstone's reference solution before its judges: the whole kit, and the drill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_connector_tests import Server, StreamSink, StreamSource
from spark_connector_tests.classes import StreamSinkTests, StreamSourceTests
from tests.conftest import first_of_free_ports
from tests.unit.workbook.capstone import ask, commit, look, patiently, read, sink_of, source_of
from workbook.ledger import MOST_LINES, Ledger, append_once, entries, start_ledger
from workbook.ledger_drill import Drill

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with start_ledger(tmp_path_factory.mktemp("ledger"), first_of_free_ports()) as running:
        yield running


class OnLedger:
    """`describe` is called for each trial, by the kit, so the ledger comes by way of the class."""

    ledger: Ledger
    server: Server

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def use_ledger(cls, ledger: Ledger) -> None:
        cls.ledger = ledger
        cls.server = Server(ledger.kill, ledger.restart, lambda: [ledger.pid])

    def options(self, folder: Path) -> dict[str, str]:
        """A book of its own for each trial."""
        return {"address": self.ledger.address, "book": f"{folder.parent.name}-{folder.name}"}


class TestSource(OnLedger, StreamSourceTests):
    def describe(self, folder: Path) -> StreamSource:
        options = self.options(folder)

        def feed(numbers: list[int]) -> None:
            for at in range(0, len(numbers), MOST_LINES):
                texts = list(map(str, numbers[at : at + MOST_LINES]))
                append_once(self.ledger.address, options["book"], "kit", texts[0], texts)

        return StreamSource(
            source_of(look, read),
            options,
            number="INT(text)",
            feed=feed,
            row=lambda number: {"text": str(number)},
            limit={"maxRowsPerTrigger": 10},
            server=self.server,
        )


class TestSink(OnLedger, StreamSinkTests):
    def describe(self, folder: Path) -> StreamSink:
        options = self.options(folder)
        a_line = "an entry of the ledger is one line of at most 1,000 bytes"
        return StreamSink(
            sink_of(commit),
            lambda: entries(self.ledger.address, options["book"]),
            options,
            not_claimed={"awkward_text": a_line, "nulls": a_line},
            server=self.server,
        )


def test_every_order_is_copied_once_whoever_is_killed(
    spark: SparkSession, ledger: Ledger, tmp_path: Path
) -> None:
    account = Drill(spark, ledger, tmp_path).run(source_of(look, read), sink_of(commit))
    assert account.passed, account
    assert [name for _, name in account.kills] == ["the ledger", "a worker", "the driver"]


def test_the_drill_finds_a_sink_that_books_twice(
    spark: SparkSession, ledger: Ledger, tmp_path: Path
) -> None:
    def blind(context: Any, handles: Any) -> None:
        """Append without a look at the memo."""
        lines = [line for handle in handles for line in handle]
        request = f"APPEND {context.options.book} {context.query} {context.batch} {len(lines)}"
        if lines:
            patiently(lambda: ask(context.options.address, request, lines))

    account = Drill(spark, ledger, tmp_path).run(source_of(look, read), sink_of(blind))
    assert account.twice and not account.lost
