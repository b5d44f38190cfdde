"""Formats `objects` and `delta_py` beside local files and the bare client.

    python benchmarks/bench_lake.py [--lines 4000000] [--rounds 3] [--conf key=value ...]

On a real server with S3's API on this machine (SeaweedFS), which takes its share of the cores.
Reading lines: objects of a bucket against the same files on disk, by `file_lines`. Writing Parquet:
one micro-batch into the bucket, exactly once, against Spark's own `parquet` to disk. Delta: one
micro-batch, exactly once, against `write_deltalake` into tables of the bucket: with the same rows
of the same stream, in `foreachBatch`, and with rows that are in its memory before the clock runs.
Rows that go to Python and are thrown away there show what no sink in Python can be faster than.
All files are compressed with zstd; Spark's writers make two files, `write_deltalake` one. The batch
of a stream is its second one: the first begins with Spark's own preparations.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import uuid
from pathlib import Path

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.compute as pc
from batches import NOTHING, rows_of, seconds_of_a_batch, thrown_away
from deltalake import WriterProperties, write_deltalake
from measure import Result, Watch, finish, in_turns, parse, series_of, timed
from obstore.store import S3Store
from pyspark.sql import SparkSession

from tutorial_pkg import start_spark
from tutorial_pkg.core.places import work_dir
from workbook.services import start_s3

FILES = 8
BUCKET = "s3://bench"
IN_MEMORY, EACH_BATCH = "write_deltalake, rows in memory", "write_deltalake in foreachBatch"
SINK = "delta_py, a stream's batch"
CODEC = "zstd"

NOTE = (
    "Of a stream, `write_deltalake` with rows in memory does the last part only: Spark has to make "
    'the rows, and to hand them to Python. "Thrown away" is that much and nothing else, so no sink '
    "in Python can be faster. In `foreachBatch` both begin with the same stream; only `delta_py` "
    "is exactly once."
)


def fill(endpoint: str, folder: Path, lines: int) -> None:
    """The same lines in the folder and in the bucket."""
    client = {"allow_http": True}
    store = S3Store("bench", endpoint=endpoint, client_options=client)
    folder.mkdir()
    for number in range(FILES):
        first, end = (lines * part // FILES for part in (number, number + 1))
        ids = range(first, end)
        file = folder / f"{number}.txt"
        file.write_text("".join(f"{line},host {line % 1000},{line / 7}\n" for line in ids))
        obstore.put(store, f"lines/{number}.txt", file)


def read_lines(spark: SparkSession, name: str, path: str, **options: object) -> None:
    given = {key: str(value) for key, value in options.items()}
    rows = spark.read.format(name).options(**given).load(path)
    rows.write.format("noop").mode("overwrite").save()


def write_parquet(spark: SparkSession, lines: int, folder: Path) -> float:
    path = folder / uuid.uuid4().hex
    writer = rows_of(spark, lines).writeStream.format("parquet")
    seconds = seconds_of_a_batch(writer, path=path, compression=CODEC)
    shutil.rmtree(path)
    return seconds


def write_to_bucket(spark: SparkSession, lines: int, name: str, endpoint: str) -> float:
    where = {"path": f"{BUCKET}/{uuid.uuid4().hex}", "endpoint": endpoint}
    return seconds_of_a_batch(rows_of(spark, lines).writeStream.format(name), **where)


def table_of(lines: int) -> pa.Table:
    """The same rows, in memory."""
    ids = np.arange(lines)
    hosts = pa.array(ids % 1000).cast(pa.string())
    names = pc.binary_join_element_wise("host", hosts, " ")
    return pa.table({"id": ids, "name": names, "load": ids / 7.0})


class Client:
    """delta-rs by itself, at a table of its own that is there already."""

    def __init__(self, endpoint: str) -> None:
        self._where = f"{BUCKET}/{uuid.uuid4().hex}"
        self._settings = {"endpoint": endpoint, "allow_http": "true"}
        self.append(table_of(1))

    def append(self, table: pa.Table) -> None:
        codec = WriterProperties(compression=CODEC.upper(), compression_level=1)
        write_deltalake(
            self._where,
            table,
            mode="append",
            storage_options=self._settings,
            writer_properties=codec,
        )


def write_from_memory(table: pa.Table, endpoint: str) -> float:
    client = Client(endpoint)
    return timed(lambda: client.append(table))


def write_each_batch(spark: SparkSession, lines: int, endpoint: str) -> float:
    """Not exactly once: what there is without a sink."""
    client = Client(endpoint)
    writer = rows_of(spark, lines).writeStream
    return seconds_of_a_batch(writer.foreachBatch(lambda rows, _: client.append(rows.toArrow())))


def measured(
    spark: SparkSession, endpoint: str, folder: Path, lines: int, rounds: int, watch: Watch
) -> Result:
    fill(endpoint, folder / "lines", lines)
    disk, bucket = str(folder / "lines"), f"{BUCKET}/lines"
    reading = in_turns(
        {
            "file_lines, on disk": lambda: timed(lambda: read_lines(spark, "file_lines", disk)),
            "objects, in a bucket": lambda: timed(
                lambda: read_lines(spark, "objects", bucket, endpoint=endpoint)
            ),
        },
        rounds,
    )
    watch.phase = "lake, write"
    parquet = in_turns(
        {
            "Spark's parquet, on disk": lambda: write_parquet(spark, lines, folder),
            "objects, in a bucket": lambda: write_to_bucket(spark, lines, "objects", endpoint),
        },
        rounds,
    )
    watch.phase = "lake, Delta"
    table = table_of(lines)
    delta = in_turns(
        {
            IN_MEMORY: lambda: write_from_memory(table, endpoint),
            EACH_BATCH: lambda: write_each_batch(spark, lines, endpoint),
            NOTHING: lambda: thrown_away(spark, lines),
            SINK: lambda: write_to_bucket(spark, lines, "delta_py", endpoint),
        },
        rounds,
    )
    from_memory = {name: delta[name] for name in (IN_MEMORY, NOTHING, SINK)}
    from_stream = {name: delta[name] for name in (EACH_BATCH, SINK)}
    return Result(
        "Object stores and Delta tables",
        [
            *series_of("Reading lines", lines, reading, "file_lines, on disk"),
            *series_of("Writing Parquet", lines, parquet, "Spark's parquet, on disk"),
            *series_of("Appending to Delta", lines, from_memory, IN_MEMORY),
            *series_of("Appending a stream to Delta", lines, from_stream, EACH_BATCH),
        ],
        notes=[NOTE],
    )


def main() -> None:
    given = parse(__doc__ or "", lines=4_000_000)
    folder = Path(tempfile.mkdtemp(dir=work_dir("bench")))
    keys = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": secrets.token_hex()}
    os.environ |= keys  # before Spark: its workers have what is there now
    with start_s3(folder / "s3", keys) as server:
        spark = start_spark("bench", **given.conf)
        try:
            with Watch("lake, read") as watch:
                result = measured(spark, server.uri, folder, given.lines, given.rounds, watch)
            finish(given, result, watch)
        finally:
            spark.stop()
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
