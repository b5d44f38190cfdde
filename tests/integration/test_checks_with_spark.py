"""The checks that ask Spark, about a plan, with a job or with a query."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.unit.workbook.answers import look
from tests.unit.workbook.test_checks_02 import InTheClass
from tutorial_pkg import item_stream
from workbook.checks import (
    check_00_1,
    check_02_1,
    check_02_2,
)


def wide(spark: SparkSession) -> DataFrame:
    return spark.range(0, 8_000, 1, 8).selectExpr("CAST(id AS STRING) AS item")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda wide: wide.coalesce(2), "✓ Eight partitions became two"),
        (lambda wide: wide.count(), "this is int"),
        (lambda wide: wide.repartition(2), "has an Exchange"),
        (lambda wide: wide, "each partition: 8. One call makes two"),
        (lambda wide: wide.coalesce(1), "each partition: 1. One call makes two"),
        (
            lambda wide: wide.coalesce(1).union(wide.coalesce(1)),
            "each partition: 1. One call makes two",
        ),
        (lambda wide: wide.repartition(2).localCheckpoint(), "and make one call"),
        (lambda wide: wide.limit(7_000).coalesce(2), "limit() collects all rows"),
        (lambda wide: wide.orderBy("item").coalesce(2), "has an Exchange"),
        (lambda wide: wide.where("item < '4'").coalesce(2), "all 8000 of `wide`"),
        (
            lambda wide: wide.sparkSession.range(0, 8_000, 1, 2).selectExpr("id AS item"),
            "begin with wide",
        ),
        (lambda wide: wide.rdd.coalesce(2).toDF(), "✓ Eight partitions became two"),
        (lambda wide: wide.rdd.repartition(2).toDF(), "An RDD's repartition() moves rows, too"),
        (lambda wide: wide.where("item < '4'").rdd.coalesce(2).toDF(), "all 8000 of `wide`"),
        (lambda wide: wide.hint("coalesce", 2), "✓ Eight partitions became two"),
        (lambda wide: wide.coalesce(4).coalesce(2), "✓ Eight partitions became two"),
        (lambda wide: wide.coalesce(2).drop("item"), "The columns are []"),
        (lambda wide: wide.coalesce(2).selectExpr("item", "1"), "The columns are ['item', '1']"),
        (lambda wide: wide.coalesce(2).selectExpr("'one' AS item"), "has 1 different items"),
        (
            lambda wide: (
                wide.sparkSession.range(0, 8_000, 1, 4).selectExpr("id AS item").coalesce(2)
            ),
            "begin with wide",
        ),
    ],
)
def test_02_2(
    spark: SparkSession, answer: Callable[[DataFrame], DataFrame | None], expected: str
) -> None:
    look(check_02_2(answer(wide(spark))), expected)


@pytest.mark.soak
def test_02_1_a_count_in_the_class_does_not_survive_a_real_job(
    spark: SparkSession,
) -> None:
    look(check_02_1(InTheClass), "In a real job: The total is 0.")


def test_00_1(spark: SparkSession) -> None:
    fifty = item_stream(spark, 50)
    look(check_00_1(fifty), "✓")
    look(check_00_1(fifty.select("item")), "✓")
    look(check_00_1(fifty.alias("answer")), "✓")
    rate = spark.readStream.format("rate")
    for answer, hint in (
        (50, "A DataFrame is wanted, this is int"),
        (spark.range(50), "This DataFrame ends"),
        (spark.readStream.format("rate").load(), "The columns are ['timestamp', 'value']"),
        (item_stream(spark), "It makes 10 items a second"),
        (fifty.limit(50), "It is not what item_stream makes"),
        (item_stream(spark).union(fifty), "It is not what item_stream makes"),
        (item_stream(spark).limit(50), "It is not what item_stream makes"),
        (fifty.where("item > ''"), "It is not what item_stream makes"),
        (fifty.union(item_stream(spark, 50)), "It is not what item_stream makes"),
        (fifty.distinct(), "It is not what item_stream makes"),
        (fifty.sample(0.5), "It is not what item_stream makes"),
        (fifty.selectExpr("upper(item) AS item"), "It is not what item_stream makes"),
        (
            rate.option("rowsPerSecond", 50).load().selectExpr("'an item' AS item"),
            "It is not what item_stream makes",
        ),
    ):
        look(check_00_1(answer), hint)


def test_00_1_is_a_plan_only(spark: SparkSession) -> None:
    answer = item_stream(spark, 50)
    query = answer.writeStream.format("noop").start()
    verdict = check_00_1(answer)
    query.stop()
    look(verdict, "A query runs, and only a plan was asked for")
