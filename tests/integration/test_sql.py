"""The formats in SQL: views work; tables, which Spark would read without their options, do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tutorial_pkg import last_error


def test_a_table_is_refused_with_the_way_around(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"CREATE TABLE refused USING file_lines OPTIONS (path '{tmp_path}')")
    assert "use `CREATE TEMPORARY VIEW name USING format OPTIONS" in last_error(error.value)
    assert not spark.catalog.tableExists("refused")


def test_a_view_has_the_lines(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING file_lines OPTIONS (path '{tmp_path}')")
    assert [row.value for row in spark.sql("SELECT * FROM seen").collect()] == ["one", "two"]
    spark.catalog.dropTempView("seen")


def test_other_file_systems_and_several_paths_are_refused(spark: SparkSession) -> None:
    for path in ("s3a://bucket/log", ["/a", "/b"]):
        with pytest.raises(AnalysisException, match=r"must be a local|it reads one path"):
            spark.read.format("file_lines").load(path)
