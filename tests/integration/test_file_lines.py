"""file_lines on real Spark, with Spark's own `text` source as the oracle where it can be one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.core.errors import last_error


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


def test_a_query_follows_appends_and_rotation(spark, folder):
    log = folder / "data.csv"
    seen: list[str] = []
    append(log, "1", "2")
    query = (
        spark.readStream.format("file_lines")
        .load(str(log))
        .writeStream.foreachBatch(
            lambda batch, _: seen.extend(row.value for row in batch.collect())
        )
        .start()
    )
    wait_for(query, seen, 2)
    with log.open("a") as file:
        file.write("3\n4\nhal")
        file.flush()
        wait_for(query, seen, 4)
        file.write("f\n")
        file.flush()
        wait_for(query, seen, 5)
        log.rename(folder / "data.csv.1")
        append(log, "5")
        file.write("late\n")
    wait_for(query, seen, 7)
    (folder / "data.csv.2").write_bytes(log.read_bytes())
    log.write_text("")
    append(log, "6")
    wait_for(query, seen, 8)
    query.stop()
    assert Counter(seen) == Counter(["1", "2", "3", "4", "half", "5", "late", "6"])


def wait_for(query: StreamingQuery, seen: list[str], count: int) -> None:
    def reached() -> bool:
        assert query.exception() is None, last_error(query)
        return len(seen) >= count

    wait_until(reached, 60, f"row {count}")
