"""Format `postgres` beside the bare clients: ADBC into Arrow, and one COPY.

    python benchmarks/bench_postgres.py [--lines 1000000] [--rounds 3] [--conf key=value ...]

On a real server on this machine, with what it comes with from PyPI. Reading: two tasks against two
processes with ADBC, each half of the table; they are up and connected before the clock starts.
Writing: one micro-batch of a stream, exactly once, against one COPY of as many rows into the same
table. It is the second batch, of rows that Spark's `rate-micro-batch` makes: the first one begins
with Spark's own preparations.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
from batches import seconds_of_a_batch
from measure import Result, Watch, finish, in_turns, parse, series_of, timed
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir
from tutorial_pkg.workbook.services import start_postgres

TASKS = 2
HALF = """
import sys
import adbc_driver_postgresql.dbapi as adbc
with adbc.connect(sys.argv[1]) as database, database.cursor() as cursor:
    print("connected", flush=True)
    input()
    cursor.execute(sys.argv[2])
    assert sum(batch.num_rows for batch in cursor.fetch_record_batch())
"""
CHUNK = 1 << 20
ROW = ("value AS id", "concat('host ', value % 1000) AS name", "value / 7.0D AS load")


def fill(url: str, lines: int) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("CREATE TABLE source (id BIGINT PRIMARY KEY, name TEXT, load FLOAT8)")
        make = "SELECT n, 'host ' || n %% 1000, n / 7.0 FROM generate_series(1, %s) AS n"
        database.execute(f"INSERT INTO source {make}".encode(), [lines])
        database.execute("CREATE TABLE target (id BIGINT, name TEXT, load FLOAT8)")
        database.execute("VACUUM ANALYZE source")


# ---- Reading -------------------------------------------------------------------------------------


def read_with_spark(spark: SparkSession, url: str) -> None:
    options = {"url": url, "table": "source", "key": "id", "parallelism": TASKS}
    rows = spark.read.format("postgres").options(**options).load()
    rows.write.format("noop").mode("overwrite").save()


def read_with_adbc(url: str, lines: int) -> float:
    """Seconds from when both processes are connected."""
    halves = (f"id <= {lines // 2}", f"id > {lines // 2}")
    with ExitStack() as ending:
        readers = [ending.enter_context(reader(url, half)) for half in halves]
        assert [process.stdout.readline() for process in readers] == ["connected\n"] * 2
        return timed(lambda: run_all(readers))


def reader(url: str, half: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HALF, url, f"SELECT * FROM source WHERE {half}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def run_all(readers: Sequence[subprocess.Popen[str]]) -> None:
    for process in readers:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait() for process in readers] == [0, 0]


# ---- Writing -------------------------------------------------------------------------------------


def write_with_spark(spark: SparkSession, url: str, lines: int) -> float:
    """Seconds of the second micro-batch, staged by two tasks and published."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines)
    rows = source.option("numPartitions", TASKS).load().selectExpr(*ROW)
    seconds = seconds_of_a_batch(rows.writeStream.format("postgres"), url=url, table="target")
    empty(url)
    return seconds


def write_with_copy(url: str, csv: Path) -> None:
    copy_in = "COPY target FROM STDIN (FORMAT csv)"
    with (
        psycopg.connect(url) as database,
        open(csv, "rb") as file,
        database.cursor().copy(copy_in) as copy,
    ):
        while chunk := file.read(CHUNK):
            copy.write(chunk)


def copied(url: str, csv: Path) -> float:
    seconds = timed(lambda: write_with_copy(url, csv))
    empty(url)
    return seconds


def empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("TRUNCATE target")


def main() -> None:
    given = parse(__doc__ or "", lines=1_000_000)
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    spark = start_spark("bench", **given.conf)
    try:
        with (
            start_postgres(folder / "postgres", max_wal_size="4GB") as server,
            Watch("read") as watch,
        ):
            result = measured(spark, server.uri, folder, given.lines, given.rounds, watch)
        finish(given, result, watch)
    finally:
        spark.stop()
        shutil.rmtree(folder)


def measured(
    spark: SparkSession, url: str, folder: Path, lines: int, rounds: int, watch: Watch
) -> Result:
    fill(url, lines)
    reading = in_turns(
        {
            "ADBC, two processes": lambda: read_with_adbc(url, lines),
            "postgres, two tasks": lambda: timed(lambda: read_with_spark(spark, url)),
        },
        rounds,
    )
    watch.phase = "write"
    csv = folder / "rows.csv"
    copy_out = "COPY source TO STDOUT (FORMAT csv)"
    with psycopg.connect(url) as database, database.cursor().copy(copy_out) as copy:
        csv.write_bytes(b"".join(map(bytes, copy)))
    writing = in_turns(
        {
            "one COPY": lambda: copied(url, csv),
            "postgres, a stream's batch": lambda: write_with_spark(spark, url, lines),
        },
        rounds,
    )
    return Result(
        "PostgreSQL",
        [
            *series_of("Reading a table", lines, reading, "ADBC, two processes"),
            *series_of("Appending, exactly once", lines, writing, "one COPY"),
        ],
    )


if __name__ == "__main__":
    main()
