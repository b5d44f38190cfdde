"""file_lines on real Spark, with Spark's own `text` source as the oracle where it can be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def test_batch_agrees_with_spark_text(spark, folder):
    (folder / "a").write_bytes(b"plain\n\nnul\x00\xc3\xa9\r\nlast without newline")
    append(folder / "b", *range(20_000))
    ours = spark.read.format("file_lines").load(str(folder))
    text = spark.read.text(str(folder))
    assert ours.schema == text.schema
    assert Counter(ours.collect()) == Counter(text.collect())


def test_event_time_in_every_mode(spark, folder):
    append(folder / "log", "1583309377078,a", "bad", "1583309377079,b")

    def load(**options: str) -> list[tuple]:
        reader = spark.read.format("file_lines").options(eventTime="millis_prefix", **options)
        rows = reader.load(str(folder)).selectExpr("value", "unix_millis(event_time)").collect()
        return [tuple(row) for row in rows]

    good = [("1583309377078,a", 1583309377078), ("1583309377079,b", 1583309377079)]
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")  # it must not matter
    try:
        assert load() == [good[0], ("bad", None), good[1]]
        assert load(mode="dropMalformed") == good
        with pytest.raises(PySparkException, match="of line 'bad'; use mode=PERMISSIVE"):
            load(mode="FAILFAST")
        (folder / "log").write_text("bad\nworse\n")
        assert load(mode="dropMalformed") == []
    finally:
        spark.conf.unset("spark.sql.timestampType")
