"""The formats in SQL: views work. Tables don't, since Spark 4.3 forgets their options."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tutorial_pkg import last_error


def test_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"CREATE TABLE refused USING file_lines OPTIONS (path '{tmp_path}')")
    assert "unknown option" in last_error(error.value)
    assert not spark.catalog.tableExists("refused")


def test_view_has_the_lines(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING file_lines OPTIONS (path '{tmp_path}')")
    assert [row.value for row in spark.sql("SELECT * FROM seen").collect()] == ["one", "two"]
    spark.catalog.dropTempView("seen")
