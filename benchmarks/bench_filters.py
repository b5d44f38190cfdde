"""A query for a thousand rows of a million, beside the same query of Spark's own `parquet`.

    python benchmarks/bench_filters.py [--lines 1000000] [--rounds 5] [--conf key=value ...]

The same rows are in a Parquet file, in a Delta table of ten files, and in a PostgreSQL table with
an index. Each format reads all of them, and then those between two ids: `objects` skips row groups,
`delta_py` skips files, and `postgres` lets its server select the rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake
from measure import Result, Watch, finish, in_turns, parse, series_of, timed
from pyspark.sql import DataFrame, SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir
from workbook.services import start_postgres

FILES = 10
WANTED = 1000
SPARK = "Spark's parquet"
NOTE = (
    "`objects` and Spark's `parquet` read the same file, whose row groups have 50,000 rows. Spark "
    "evaluates every condition again on what the formats return."
)


def fill(url: str, folder: Path, lines: int) -> None:
    ids = np.arange(lines)
    names = pc.binary_join_element_wise("host", pa.array(ids % 1000).cast(pa.string()), " ")
    table = pa.table({"id": ids, "name": names, "load": ids / 7.0})
    (folder / "parquet").mkdir()
    pq.write_table(table, folder / "parquet" / "rows.parquet", row_group_size=50_000)
    for first in range(0, lines, -(-lines // FILES)):
        part = table.slice(first, -(-lines // FILES))
        write_deltalake(str(folder / "delta"), part, mode="append")
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE rows (id int8, name text, load float8)")
        database.execute(
            "INSERT INTO rows SELECT n, 'host ' || n %% 1000, n / 7.0 "
            "FROM generate_series(0, %s - 1) AS t(n)",
            [lines],
        )
        database.execute("ALTER TABLE rows ADD PRIMARY KEY (id)")
        database.execute("ANALYZE rows")


def readers(spark: SparkSession, url: str, folder: Path) -> dict[str, Callable[[], DataFrame]]:
    read = spark.read
    return {
        SPARK: lambda: read.parquet(str(folder / "parquet")),
        "objects": lambda: (
            spark.read.format("objects")
            .options(path=str(folder / "parquet"), format="parquet")
            .load()
        ),
        "delta_py": lambda: spark.read.format("delta_py").load(str(folder / "delta")),
        "postgres": lambda: (
            spark.read.format("postgres").options(url=url, table="rows", key="id").load()
        ),
    }


def seconds_to_read(rows: Callable[[], DataFrame], condition: str) -> float:
    chosen = rows().where(condition)
    return timed(lambda: chosen.write.format("noop").mode("overwrite").save())


def measured(
    spark: SparkSession, url: str, folder: Path, lines: int, rounds: int, watch: Watch
) -> Result:
    fill(url, folder, lines)
    first = lines // 2
    conditions = {
        "All rows": "TRUE",
        f"{WANTED:,} of them": f"id >= {first} AND id < {first + WANTED}",
    }
    series = []
    for group, condition in conditions.items():
        watch.phase = f"filters, {group}"
        contestants = {
            name: partial(seconds_to_read, rows, condition)
            for name, rows in readers(spark, url, folder).items()
        }
        runs = in_turns(contestants, rounds)
        series += series_of(group, lines, runs, SPARK)
    return Result("Filters that reach the source", series, notes=[NOTE])


def main() -> None:
    given = parse(__doc__ or "", lines=1_000_000)
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    with start_postgres(folder / "postgres") as server:
        spark = start_spark("bench", **given.conf)
        try:
            with Watch("filters") as watch:
                result = measured(spark, server.uri, folder, given.lines, given.rounds, watch)
            finish(given, result, watch)
        finally:
            spark.stop()
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
