"""Folders with objects, and readers and writers of format `objects` without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from tests.stream_runs import Run
from tutorial_pkg.connectors.objects import ObjectsDataSource
from tutorial_pkg.connectors.objects.options import READ, WRITE
from tutorial_pkg.connectors.store import Store
from tutorial_pkg.core.options import Options, OptionValues

VALUE = StructType().add("value", StringType())


def options_of(path: object, declared: Any = READ, **given: object) -> OptionValues:
    texts = {name: str(value) for name, value in {"path": path, **given}.items()}
    return Options("objects", declared).parse(texts)


def store_at(path: object) -> Store:
    return Store(options_of(path, WRITE), str(path), make=True)


def stream(
    path: object, offset: dict[str, Any] | None = None, schema: StructType = VALUE, **given: object
) -> Run:
    """A run of a stream that looks whenever it is asked, and goes on at `offset`."""
    texts = {name: str(value) for name, value in {"lookSeconds": 0, **given}.items()}
    run = Run(ObjectsDataSource, str(path), schema, texts)
    run.offset = offset or run.offset
    return run


def batch_reader(path: object, schema: StructType = VALUE, **given: object) -> Any:
    texts = {name: str(value) for name, value in {"path": path, **given}.items()}
    return ObjectsDataSource(texts).reader(schema)


def rows(path: object, schema: StructType = VALUE, **given: object) -> list[dict[str, Any]]:
    """What `spark.read` would have."""
    reader = batch_reader(path, schema, **given)
    batches: Sequence[pa.RecordBatch] = [
        batch for part in reader.partitions() for batch in reader.read(part)
    ]
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


def values(path: object, **given: object) -> list[str]:
    return [row["value"] for row in rows(path, **given)]
