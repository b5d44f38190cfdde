"""file_lines on real Spark, with Spark's own `text` source as the oracle where it can be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession


def test_batch_agrees_with_spark_text(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"plain\n\nnul\x00\xc3\xa9\r\nlast without newline")
    (tmp_path / "b").write_text("".join(f"{number}\n" for number in range(20_000)))
    ours = spark.read.format("file_lines").load(str(tmp_path))
    text = spark.read.text(str(tmp_path))
    assert ours.schema == text.schema
    assert Counter(ours.collect()) == Counter(text.collect())
