"""The checks that try an answer in a real query: a plan, a job, a query that is restarted.

In the notebooks, they accept the stored solutions. Here some refuse wrong answers, and the others
do so in the soak.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tests.integration.test_checks import refuses
from tests.unit.workbook.solutions import names_at
from tutorial_pkg import item_stream
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state import use_rocksdb
from workbook import checks
from workbook.ledger import LedgerServer


def test_00_1(spark: SparkSession) -> None:
    def query(items: DataFrame, rows: int) -> StreamingQuery:
        query = items.writeStream.format("noop").start()
        wait_until(lambda: sum(b.numInputRows for b in query.recentProgress) >= rows, 60, "rows")
        return query

    right = query(item_stream(spark, 50), 200)
    assert "is running" in checks.check_00_1(right).message
    right.stop()
    assert checks.check_00_1(right).passed
    for items, rows, symptom in (
        (item_stream(spark, 400), 400, "rowsPerSecond=400"),
        (item_stream(spark, 50), 50, "at least 200"),
    ):
        wrong = query(items, rows)
        wrong.stop()
        assert symptom in checks.check_00_1(wrong).message


# ---- Edits of the stored solutions ---------------------------------------------------------------

EDITS: dict[str, list[tuple[tuple[str, str], str]]] = {
    "01_1": [
        (('f"{uuid4()}.draft"', 'f"{uuid4()}.json"'), "failed_batch"),
        (("row.asDict()", "row"), "Try row.asDict()"),
    ],
    "01_2": [
        (('f"batch-{batchId}-{number}.json"', 'f"{uuid4()}.json"'), "repeated_batch"),
        (("if message:", "if False:"), "drafts are left"),
    ],
    "02_1": [
        (('f"{batchId}-{number}.parquet"', 'f"{uuid4()}.parquet"'), "repeated_batch"),
        (("for batch in iterator:", "for batch in [next(iterator), *iterator]:"), "StopIteration"),
    ],
    "03_1": [(('+ file.read().rfind(b"\\n") + 1', "+ len(file.read())"), "half a line must wait")],
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.soak if name[:2] == "01" else ()) for name in EDITS],
)
def test_connector(spark: SparkSession, name: str) -> None:
    refuses(name, *EDITS[name])


@pytest.mark.soak
def test_mended_inbox(spark: SparkSession) -> None:
    def examine(state: Any) -> Any:
        names = names_at("11_3")
        names["examine_inbox"].__globals__.update(spark=spark, INBOX=["late_rows", "restart"])
        return names["examine_inbox"](state)

    late = "if letter.name not in self.names:", "if letter.name > max(self.names, default=''):"
    forgets = "self.names = set(snapshots[0])", "pass"
    refuses("11_3", (late, "late_rows: "), (forgets, "restart: "), examine=examine)


@pytest.mark.soak
def test_capstone(spark: SparkSession) -> None:
    names = names_at("13_3")
    refuses(
        "13_1",
        (lambda address, request, lines=(): ["0"], "APPEND"),
        (lambda *request: names["retry"](lambda: names["ask"](*request)), "'busy'"),
    )
    refuses(
        "13_2",
        (("while str(start) not in texts:", "if start:"), "In a real query"),
        (("[0]) + 1)}", "[0]))}"), "LAST + 1"),
        (('"orders", "number', '"order", "number'), "Its name is"),
    )
    refuses("13_3", (("!= [memo]", "!= [0]"), "too many"), (("{context.query}", "w"), "too many"))


def test_13_4(spark: SparkSession, tmp_path: Path) -> None:
    names = names_at("13_4")
    source, sink = names["answer"]
    with LedgerServer(tmp_path / "ledger.db") as server:
        source.__globals__["ledger"] = server
        assert checks.check_13_4((source, sink)).passed
        one_book = lambda folder: sink(tmp_path / "one")  # noqa: E731
        assert "expected two StreamSinks" in checks.check_13_4((source, one_book)).message


def test_corrected_counts(spark: SparkSession) -> None:
    counted_and_passed = names_at("20_1")["counted_and_passed"]
    counted_and_passed.__globals__["spark"] = spark
    late = 'is_late("time", drop_mark(checkpoint, number), "10 seconds")'
    by_time = 'F.col("time") < F.lit(drop_mark(checkpoint, number))'
    refuses(
        "20_1",
        (("if database.execute(record, [number]).rowcount:", "if True:"), "each once"),
        ((late, by_time), "each once"),
        counted_and_passed=counted_and_passed,
    )


@pytest.mark.soak
@pytest.mark.skipif(not HAS_STATE, reason="before Spark 4.1 transformWithState takes pandas only")
def test_bursts(spark: SparkSession) -> None:
    use_rocksdb(spark)
    time = "int(row.time.timestamp() * 1000)"
    refuses(
        "21_1",
        ((f"max(newest, {time})", time), "newest"),
        (("self.burst.clear()", "self.burst.update((0, 0))"), "rows of state are left"),
    )
