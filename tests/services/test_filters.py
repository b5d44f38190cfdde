"""Filters of Spark in batches: each format reads fewer rows, and none that Spark wants is missing.

Spark's own evaluation, of the same rows in memory, says which rows these are.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from tests.since import since_4_1
from tutorial_pkg import DeltaDataSource, ObjectsDataSource, PostgresDataSource
from tutorial_pkg.builder import RowPacker

COLUMNS = "number long, id long, name string, ip string, day date, t timestamp, n timestamp_ntz, "
COLUMNS += "price decimal(10,2), flag boolean, x double, part date"
SCHEMA = StructType()
for column in COLUMNS.split(", "):
    SCHEMA.add(*column.split())
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = [
    (
        number,
        None if number % 10 == 3 else number,
        None if number % 7 == 0 else "aABbäz"[number % 6],
        f"10.0.0.{number % 2}",
        None if number % 11 == 0 else date(2026, 1, 1) + timedelta(number // 50),
        FIRST + timedelta(hours=number, microseconds=number),
        datetime(2026, 1, 1) + timedelta(hours=number),
        Decimal(number) / 4,
        number % 2 == 0,
        float("nan") if number % 5 == 0 else number / 3,
        None if number % 9 == 0 else date(2026, 1, 1 + number % 4),
    )
    for number in range(1013)
]
CONDITIONS = [
    "id = 17 OR id = 18",
    "id IN (3, 5, 900, NULL)",
    "id <=> 900",
    "id > 900 AND id <= 905 AND NOT id = 902",
    "day >= DATE'2026-01-20' AND day < '2026-01-21'",
    "day IS NULL AND id IS NOT NULL",
    "t <= TIMESTAMP'2026-01-02 00:00:00'",
    "t = TIMESTAMP'2026-01-02 09:00:00.000024'",
    "n = TIMESTAMP_NTZ'2026-01-02 00:00:00'",
    "price > 252.5",
    "flag AND price = 1.5",
    "name = 'a' AND id < 100",
    "name > 'b' AND name IN ('B', 'z', 'ä')",
    "ip = '10.0.0.1' AND id < 20",
    "x > 1e300 AND id < 50",
    "part = DATE'2026-01-02' AND id < 50",
    "part IS NULL AND number < 50",
]
Place = tuple[type[Any], dict[str, str]]


def in_postgres(url: str, folder: Path) -> Place:
    """With an `inet`, which is text to Spark."""
    with psycopg.connect(url, autocommit=True) as database, database.cursor() as cursor:
        cursor.execute("""CREATE TABLE t (number int8, id int8, name text,
            ip inet, day date, t timestamptz, n timestamp, price numeric(10,2), flag bool,
            x float8, part date)""")
        with cursor.copy("COPY t FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
    return PostgresDataSource, {"url": url, "table": "t", "key": "number", "parallelism": "2"}


def in_parquet(url: str, folder: Path) -> Place:
    table = pa.Table.from_batches([RowPacker(SCHEMA).pack(ROWS)])
    pq.write_table(table, folder / "rows.parquet", row_group_size=50)
    return ObjectsDataSource, {"path": str(folder), "format": "parquet"}


def in_delta(url: str, folder: Path) -> Place:
    for first in range(0, len(ROWS), 350):
        table = pa.Table.from_batches([RowPacker(SCHEMA).pack(ROWS[first : first + 350])])
        write_deltalake(str(folder), table, partition_by=["part"], mode="append")
    return DeltaDataSource, {"path": str(folder)}


@since_4_1
@pytest.mark.parametrize("put", [in_postgres, in_parquet, in_delta])
def test_filters_leave_out_no_wanted_row(
    spark: SparkSession, put: Callable[[str, Path], Place], url: str, tmp_path: Path
) -> None:
    source, options = put(url, tmp_path)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        truth = spark.createDataFrame(ROWS, SCHEMA).select("number", *map(expr, CONDITIONS))
        results = truth.collect()
        rows = spark.read.format(source.name()).options(**options).load()
        for index, condition in enumerate(CONDITIONS, 1):
            expected = sorted(row[0] for row in results if row[index])
            found = sorted(row.number for row in rows.where(condition).collect())
            assert (condition, found) == (condition, expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@since_4_1
@pytest.mark.parametrize(
    ("put", "most"),
    [(in_postgres, 5), (in_parquet, 50), (in_delta, 350)],
    ids=["postgres", "parquet", "delta"],
)
def test_filters_leave_out_most_rows(
    put: Callable[[str, Path], Place],
    most: int,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pyspark.sql.datasource import GreaterThan, LessThanOrEqual

    monkeypatch.setattr("tutorial_pkg.builder.replayable_source.passes_filters", lambda: True)
    source, options = put(url, tmp_path)
    reader = source(options).reader(source(options).schema())
    filters = [GreaterThan(("id",), 905), LessThanOrEqual(("id",), 910)]
    assert reader.pushFilters(filters) == filters
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    found = {row["id"] for batch in batches for row in batch.to_pylist()}
    assert {906, 907, 908, 909, 910} <= found
    assert sum(batch.num_rows for batch in batches) <= most
