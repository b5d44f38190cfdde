"""Batches for tests: read as Spark reads them, and written by a query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tutorial_pkg import last_error
from tutorial_pkg.core.spark_versions import ReadAllAvailable


def column(batches: Sequence[Any], name: str) -> list[Any]:
    return [value for batch in batches for value in batch.column(name).to_pylist()]


def read_all(stream: Any, start: Any) -> tuple[list[Any], Any]:
    """Return the batches after an offset, and the offset that follows them."""
    end = stream.latestOffset(start, ReadAllAvailable())
    parts = stream.partitions(start, end)
    return [batch for part in parts for batch in stream.read(part)], end


def write(
    spark: SparkSession, source: Any, rows: str, folder: Path, **options: object
) -> str | None:
    """Write lines 1, 2 and 2 in one batch, as columns made of `value` by SQL. Return the error."""
    spark.dataSource.register(source)
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "lines").write_text("1\n2\n2\n")
    lines = spark.readStream.text(str(folder / "in")).selectExpr(*rows.split("; "))
    writer = lines.writeStream.format(source.name()).trigger(availableNow=True)
    options = {**options, "checkpointLocation": folder / "checkpoint"}
    query = None
    try:
        query = writer.options(**{name: str(value) for name, value in options.items()}).start()
        query.awaitTermination(60)
    except (PySparkException, ValueError) as error:
        return last_error(error)
    return last_error(query)
