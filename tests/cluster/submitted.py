"""A job that is handed to a cluster: files are read, as a batch and as a stream, and logged.

Arguments: a folder that all share; then "own" for a session without start_spark; then
settings, `name=value`. Prints where a worker has found the package, and the numbers of lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

if "PACKAGE_HOME" in os.environ:  # for this process alone, unlike PYTHONPATH
    sys.path.insert(0, os.environ["PACKAGE_HOME"])

from tutorial_pkg import register, start_spark


def where(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import tutorial_pkg

    yield pa.record_batch({"place": [tutorial_pkg.__file__]})


def session(how: str, settings: list[str]) -> SparkSession:
    if how == "own":
        spark = SparkSession.builder.getOrCreate()
        register(spark)
        return spark
    return start_spark("submitted", **dict(each.split("=", 1) for each in settings))


def main(folder: str, how: str, *settings: str) -> None:
    spark = session(how, list(settings))
    lines = spark.readStream.format("file_lines").load(f"{folder}/in")
    writer = lines.writeStream.format("cpu_log").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{folder}/checkpoint").start(
        f"{folder}/out"
    ).awaitTermination()
    counts = [
        spark.read.format(name).load(f"{folder}/{place}").count()
        for name, place in (("file_lines", "in"), ("cpu_log", "out"))
    ]
    place = spark.range(1).mapInArrow(where, "place STRING").first()
    print("imported from", "the zip" if ".zip/" in place.place else Path(place.place).parent.name)
    print("lines", *counts)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
