"""Streams cut into batches by hand, so that plain Python knows what each batch must do."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.core.errors import last_error

Row = Any  # a NamedTuple
SECONDS = 120


def post(folder: Path, batches: Iterable[Sequence[Row]]) -> None:
    """One file of JSON lines for each batch, behind those that are in `folder` already."""
    folder.mkdir(parents=True, exist_ok=True)
    first = len(list(folder.glob("*.json")))
    for number, rows in enumerate(batches, start=first):
        # Spark passes over names with a dot. A draft that it met would have today's time, and make
        # all files of the past too old to be read.
        draft, file = folder / f".{number:05}.draft", folder / f"{number:05}.json"
        draft.write_text("".join(_line(row) for row in rows))
        # Spark takes files in the order of their times, and has seconds only on some systems.
        os.utime(draft, (1_000_000_000 + number, 1_000_000_000 + number))
        draft.rename(file)


def _line(row: Row) -> str:
    values = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row._asdict().items()}
    return json.dumps(values) + "\n"


def stream_of(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """The batches that are posted to `folder`, each file as one micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def run(rows: DataFrame, name: str, mode: str = "append", **options: Any) -> StreamingQuery:
    """Run a query over all batches that are posted now, into the table `name`; it has ended then.

    `options` are those of the writer, as in `checkpointLocation=...`. Raises `RuntimeError` that
    tells why it has failed.
    """
    writer = rows.writeStream.format("memory").queryName(name).outputMode(mode).options(**options)
    query = writer.trigger(availableNow=True).start()
    with suppress(StreamingQueryException):  # told below, in one line
        query.awaitTermination(SECONDS)
    if query.isActive or query.exception():
        query.stop()
        raise RuntimeError(last_error(query) or f"{name} has not ended within {SECONDS} s")
    return query


def total(query: StreamingQuery, metric: str) -> int:
    """The sum of a metric of state, as `numRowsDroppedByWatermark`, over batches and operators."""
    batches = query.recentProgress
    return sum(int(getattr(state, metric)) for batch in batches for state in batch.stateOperators)
