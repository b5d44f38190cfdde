"""Formats `objects` and `delta_py` in real queries, on a real S3 server, beside other tools."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from tests.services.secrets import sightings
from tests.unit.objects.folders import options_of
from tutorial_pkg.connectors.objects.options import WRITE
from tutorial_pkg.connectors.store import Store
from workbook.services import S3Server

COLUMNS = """id, cast(id AS STRING) AS text, timestamp_micros(id * 1000003) AS t,
    date_add(DATE'2026-01-01', CAST(id AS INT)) AS d, CAST(id AS DECIMAL(10,2)) AS e,
    id % 2 = 0 AS b, id / 3.0D AS f, IF(id % 3 = 0, NULL, concat('ä b/%=', id % 3)) AS day"""
ROWS = 1_013


@pytest.fixture
def place(s3: S3Server) -> dict[str, str]:
    url = f"s3://lake/{uuid.uuid4().hex}"
    Store(options_of(url, WRITE, endpoint=s3.uri), url).write("_there", b"")
    return {"path": url, "endpoint": s3.uri}


@pytest.fixture
def written(spark: SparkSession) -> DataFrame:
    return spark.sql(f"SELECT {COLUMNS} FROM range({ROWS})")


def same(one: DataFrame, other: DataFrame) -> bool:
    names = sorted(one.columns)
    left, right = one.select(names), other.select(names)
    return left.count() == right.count() and left.exceptAll(right).isEmpty()


def once(rows: DataFrame, name: str, folder: Path, **options: object) -> None:
    """Run a stream over all rows that exist now."""
    given = {key: str(value) for key, value in options.items()}
    writer = rows.writeStream.format(name).options(**given).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder)).start().awaitTermination()


@pytest.mark.parametrize(
    "form",
    ["parquet", *(pytest.param(each, marks=pytest.mark.soak) for each in ("avro", "csv", "jsonl"))],
)
def test_files_are_what_spark_itself_reads(
    spark: SparkSession, written: DataFrame, tmp_path: Path, form: str
) -> None:
    folder = str(tmp_path / "out")
    how = {"format": form, "partitionBy": "day"}
    written.write.format("objects").options(**how).mode("append").save(folder)
    reader = spark.read.format("objects").option("format", form).schema(written.schema)
    assert same(reader.load(folder), written)
    if form == "avro":
        assert in_fastavro(tmp_path / "out") == list(range(ROWS))
        return
    names = {"jsonl": "json", "parquet": "parquet", "csv": "csv"}
    ours = spark.read.schema(written.schema).option("header", True).format(names[form])
    assert same(ours.load(folder), written)
    query = f"SELECT count(*), sum(id), count(day) FROM '{folder}/**/*.{form}'"
    assert in_duckdb(query, form) == [ROWS, ROWS * (ROWS - 1) // 2, ROWS - 338]


def in_fastavro(folder: Path) -> list[int]:
    """Read with the command of fastavro."""
    files = [str(file) for file in folder.rglob("*.avro")]
    printed = run_python("-m", "fastavro", *files)
    return sorted(json.loads(line)["id"] for line in printed.splitlines())


def in_duckdb(query: str, form: str) -> list[int]:
    read = {"jsonl": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[form]
    text = query.replace("FROM '", f"FROM {read}('") + ", hive_partitioning=false)"
    code = f"import duckdb; print(*map(int, duckdb.sql({text!r}).fetchall()[0]))"
    return [int(word) for word in run_python("-c", code).split()]


def run_python(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_queries_and_a_tool_share_a_table(
    spark: SparkSession, written: DataFrame, place: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    written.write.parquet(str(tmp_path / "in" / "a"))
    source = spark.readStream.schema(written.schema).option("maxFilesPerTrigger", 1)
    queries = []
    for number in range(2):
        stream = source.parquet(str(tmp_path / "in" / "a"))
        writer = stream.writeStream.format("delta_py").options(**place)
        checkpoint = str(tmp_path / f"checkpoint-{number}")
        queries.append(writer.option("checkpointLocation", checkpoint).start())
    for query in queries:
        query.processAllAvailable()
        query.stop()
    settings = {"endpoint": place["endpoint"], "allow_http": "true"}
    table = DeltaTable(place["path"], storage_options=settings)
    assert table.to_pyarrow_table().num_rows == 2 * ROWS
    table.optimize.compact()
    read = spark.read.format("delta_py").options(**place).load()
    assert same(read, written.union(written))


def test_changes_of_a_table_with_a_new_column(
    spark: SparkSession, place: dict[str, str], tmp_path: Path
) -> None:
    settings = {"endpoint": place["endpoint"], "allow_http": "true"}
    schema = pa.schema([("id", pa.int64()), ("day", pa.string())])
    feed = {"delta.enableChangeDataFeed": "true"}
    path = place["path"]
    DeltaTable.create(
        path, schema, partition_by=["day"], configuration=feed, storage_options=settings
    )
    copies = {**place, "path": f"{path}-changes"}

    def write_and_copy_changes(name: str, *columns: str) -> None:
        spark.range(7).selectExpr(*columns).write.parquet(str(tmp_path / name))
        rows = spark.read.parquet(str(tmp_path / name))
        stream = spark.readStream.schema(rows.schema).parquet(str(tmp_path / name))
        once(stream, "delta_py", tmp_path / f"{name}-checkpoint", **place, evolve="true")
        changes = spark.readStream.format("delta_py").options(**place, changes="true").load()
        once(changes, "objects", tmp_path / "changes", **copies)

    write_and_copy_changes("first", "id", "concat('day-', id % 2) AS day")
    DeltaTable(path, storage_options=settings).delete("id = 3")
    write_and_copy_changes("second", "id + 10 AS id", "'day-1' AS day", "id * 2 AS price")
    reader = spark.read.format("objects").options(**copies, format="parquet")
    seen = reader.schema("_change_type STRING, id LONG, day STRING, price LONG").load()
    expected = [("insert", n, f"day-{n % 2}", None) for n in range(7)]
    expected += [("delete", 3, "day-1", None)]
    expected += [("insert", n + 10, "day-1", n * 2) for n in range(7)]
    assert sorted(map(tuple, seen.collect()), key=repr) == sorted(expected, key=repr)
    table = DeltaTable(path, storage_options=settings)
    assert table.metadata().partition_columns == ["day"]
    assert table.to_pyarrow_table().num_rows == 13


@pytest.mark.parametrize("name", ["objects", "delta_py"])
def test_secret_is_nowhere_visible(
    spark: SparkSession, place: dict[str, str], tmp_path: Path, name: str
) -> None:
    keys = {
        "store.access_key_id": "${env:AWS_ACCESS_KEY_ID}",
        "store.secret_access_key": "${env:AWS_SECRET_ACCESS_KEY}",
    }
    rows = spark.range(13).selectExpr("CAST(id AS STRING) AS value")
    options = {**place, **keys}
    rows.write.format(name).options(**options).mode("append").save()
    if name == "objects":
        options["format"] = "parquet"
    assert sightings(spark, name, options, tmp_path) == []
