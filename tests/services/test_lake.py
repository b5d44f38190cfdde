"""Formats `objects` and `delta_py` in real queries, on a real S3 server, beside other tools."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

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


def test_secret_is_nowhere_visible(
    spark: SparkSession, place: dict[str, str], tmp_path: Path
) -> None:
    keys = {
        "store.access_key_id": "${env:AWS_ACCESS_KEY_ID}",
        "store.secret_access_key": "${env:AWS_SECRET_ACCESS_KEY}",
    }
    rows = spark.range(13).selectExpr("CAST(id AS STRING) AS value")
    options = {**place, **keys}
    rows.write.format("objects").options(**options).mode("append").save()
    assert sightings(spark, "objects", {**options, "format": "parquet"}, tmp_path) == []
