"""Files that format `objects` writes in a real job: Spark's own formats read the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

COLUMNS = """id, cast(id AS STRING) AS text, timestamp_micros(id * 1000003) AS t,
    date_add(DATE'2026-01-01', CAST(id AS INT)) AS d, CAST(id AS DECIMAL(10,2)) AS e,
    id % 2 = 0 AS b, id / 3.0D AS f, IF(id % 3 = 0, NULL, concat('ä b/%=', id % 3)) AS day"""
ROWS = 1_013


def same(one: DataFrame, other: DataFrame) -> bool:
    names = sorted(one.columns)
    left, right = one.select(names), other.select(names)
    return left.count() == right.count() and left.exceptAll(right).isEmpty()


@pytest.mark.parametrize(
    "form",
    ["parquet", *(pytest.param(each, marks=pytest.mark.soak) for each in ("csv", "jsonl"))],
)
def test_files_are_what_spark_itself_reads(spark: SparkSession, tmp_path: Path, form: str) -> None:
    written = spark.sql(f"SELECT {COLUMNS} FROM range({ROWS})")
    folder = str(tmp_path / "out")
    how = {"format": form, "partitionBy": "day"}
    written.write.format("objects").options(**how).mode("append").save(folder)
    reader = spark.read.format("objects").option("format", form).schema(written.schema)
    assert same(reader.load(folder), written)
    theirs = spark.read.schema(written.schema).option("header", True)
    assert same(theirs.format({"jsonl": "json"}.get(form, form)).load(folder), written)
