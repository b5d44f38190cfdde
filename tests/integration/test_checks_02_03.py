"""The checks of notebooks 02 and 03: right answers pass, typical wrong ones get the hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.workbook.checks import check_02_1, check_02_2, check_03_1, check_03_2


def folder_with(folder: Path, lines: list[int], total: str | None) -> Path:
    for number, count in enumerate(lines):
        (folder / f"data.{number}.csv").write_text("line\n" * count)
    if total is not None:
        (folder / "total.txt").write_text(total)
    return folder


def test_02_1_right(tmp_path: Path) -> None:
    verdict = check_02_1(folder_with(tmp_path, [10, 20, 30], "60"))
    assert verdict.passed
    assert verdict.message.endswith("the files hold: 60.")


@pytest.mark.parametrize(
    ("lines", "total", "hint"),
    [
        ([], None, "no line in any data.*.csv"),
        ([0, 0], "0", "no line in any data.*.csv"),
        ([60], "60", "one file only"),
        ([10, 20, 30], None, "write it in `commit(self, messages)`"),
        ([10, 20, 30], "Wrote(lines=60)", "a plain number is wanted"),
        ([10, 20, 30], "3", "the number of messages"),
        ([10, 20, 30], "30", "the lines of one task"),
        ([10, 20, 30], "120", "total.txt says 120, the files hold 60"),
    ],
)
def test_02_1_wrong(tmp_path: Path, lines: list[int], total: str | None, hint: str) -> None:
    verdict = check_02_1(folder_with(tmp_path, lines, total))
    assert not verdict.passed
    assert hint in verdict.message


def wide(spark: SparkSession) -> DataFrame:
    return spark.range(0, 8_000, 1, 8).selectExpr("CAST(id AS STRING) AS item")


def test_02_2_right(spark: SparkSession) -> None:
    assert check_02_2(wide(spark).coalesce(2)).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (lambda wide: wide.count(), "this is int"),
        (lambda wide: wide.repartition(2), "has an Exchange"),
        (lambda wide: wide, "It has 8 partitions"),
        (lambda wide: wide.coalesce(1), "It has 1 partitions"),
        (lambda wide: wide.limit(7_000).coalesce(2), "limit() collects all rows"),
        (lambda wide: wide.where("item < '4'").coalesce(2), "all 8000 of `wide`"),
    ],
)
def test_02_2_wrong(
    spark: SparkSession, answer: Callable[[DataFrame], DataFrame | None], hint: str
) -> None:
    verdict = check_02_2(answer(wide(spark)))
    assert not verdict.passed
    assert hint in verdict.message


def test_03_1_right() -> None:
    assert check_03_1(lambda data: data.rfind(b"\n") + 1).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (len, "Half a line goes out"),
        (lambda data: data.rfind(b"\n"), "the byte *behind* it"),
        (lambda data: data.rindex(b"\n") + 1, "It must return a whole number"),
        (lambda data: data[: data.rfind(b"\n") + 1], "It must return a whole number"),
        (lambda data: max(data.rfind(b"\n"), 1) + 1, "Without a newline nothing"),
        (lambda data: data.count(b"\n"), "behind the *last* newline"),
        (lambda data: data.rfind("\n") + 1, "It must return a whole number"),
        (lambda data: float(data.rfind(b"\n") + 1), "It must return a whole number"),
        (lambda data: data.find(b"\n") + 1, "behind the *last* newline"),
    ],
)
def test_03_1_wrong(answer: object, hint: str) -> None:
    verdict = check_03_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("log") / "data.0.csv"
    file.write_text("".join(f"{number}\n" for number in range(1_000_000)))
    return file


def read(
    spark: SparkSession, log: Path, sink: str = "noop", now: bool = True, **options: object
) -> StreamingQuery:
    lines = spark.readStream.format("file_lines").options(**options).load(str(log))
    writer = lines.writeStream.format(sink)
    if not now:
        query = writer.start()
        query.processAllAvailable()
        return query
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_03_2_right(spark: SparkSession, log: Path) -> None:
    verdict = check_03_2(read(spark, log, maxRowsPerTrigger=400_000))
    assert verdict.passed
    assert "in 3 batches" in verdict.message


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({}, "One batch has 1000000 rows"),
        ({"startFrom": "latest", "maxRowsPerTrigger": 400_000}, "It read 0 of 1000000 lines"),
        ({"now": False, "maxRowsPerTrigger": 400_000}, "It is still running"),
    ],
)
def test_03_2_wrong(spark: SparkSession, log: Path, options: dict, hint: str) -> None:
    verdict = check_03_2(read(spark, log, **options))
    assert not verdict.passed
    assert hint in verdict.message


def test_03_2_a_wrong_kind_and_a_failed_query(spark: SparkSession, log: Path) -> None:
    assert "keep what start() returns" in check_03_2(spark.range(1)).message
    lines = spark.readStream.format("file_lines").load(str(log))
    query = lines.selectExpr("raise_error(value)").writeStream.format("noop").start()
    with pytest.raises(Exception, match="USER_RAISED"):
        query.processAllAvailable()
    verdict = check_03_2(query)
    assert not verdict.passed
    assert "The query has failed" in verdict.message
