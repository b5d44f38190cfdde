"""Streams cut into batches by hand, so that plain Python can compute each batch's result."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def post(folder: Path, batches: Iterable[Sequence[Any]]) -> None:
    """Write one file of JSON lines for each batch, after those that `folder` already has."""
    folder.mkdir(parents=True, exist_ok=True)
    first = len(list(folder.glob("*.json")))
    for number, rows in enumerate(batches, start=first):
        # Spark ignores names with a dot. If it saw a draft, with today's time, it would consider
        # all files with older times too old to read.
        draft, file = folder / f".{number:05}.draft", folder / f"{number:05}.json"
        lines = [json.dumps(row._asdict(), default=datetime.isoformat) + "\n" for row in rows]
        draft.write_text("".join(lines))
        # Spark reads files in the order of their times, which have only seconds on some systems.
        os.utime(draft, (1_000_000_000 + number, 1_000_000_000 + number))
        draft.rename(file)


def stream_of(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Return the batches that are posted to `folder` as a stream, one micro-batch per file."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))
