"""Folders with objects, and readers and writers of format `objects` without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql.types import StringType, StructType

from tests.stream_runs import Run
from tutorial_pkg.builder import BatchContext, RowPacker, SinkContext, TargetContext
from tutorial_pkg.connectors.objects import ObjectsDataSource
from tutorial_pkg.connectors.objects.options import READ, WRITE
from tutorial_pkg.connectors.objects.sink import ObjectUpload, Uploaded, check, publish
from tutorial_pkg.connectors.store import Store
from tutorial_pkg.core.options import Options, OptionValues

VALUE = StructType().add("value", StringType())
QUERY = "11112222-3333"


def texts_of(path: object, options: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in {"path": path, **options}.items()}


def options_of(path: object, declared: Any = READ, **options: object) -> OptionValues:
    return Options("objects", declared).parse(texts_of(path, options))


def store_at(path: object) -> Store:
    return Store(options_of(path, WRITE), str(path), make=True)


def stream(
    path: object,
    offset: dict[str, Any] | None = None,
    schema: StructType = VALUE,
    **options: object,
) -> Run:
    """Run a stream from `offset` on, that looks for objects whenever it is asked."""
    texts = {name: str(value) for name, value in {"lookSeconds": 0, **options}.items()}
    run = Run(ObjectsDataSource, str(path), schema, texts)
    run.offset = offset or run.offset
    return run


def batch_reader(path: object, schema: StructType = VALUE, **options: object) -> Any:
    return ObjectsDataSource(texts_of(path, options)).reader(schema)


def rows(path: object, schema: StructType = VALUE, **options: object) -> list[dict[str, Any]]:
    """Return what `spark.read` would."""
    reader = batch_reader(path, schema, **options)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


def values(path: object, **options: object) -> list[str]:
    return [row["value"] for row in rows(path, **options)]


class Query:
    """One driver with its tasks, without Spark."""

    task: Any = ObjectUpload

    def __init__(self, folder: Path | str, schema: StructType = VALUE, **options: object) -> None:
        self.options = options_of(folder, WRITE, **{"format": "jsonl", **options})
        self._packer = RowPacker(schema)
        check(TargetContext(schema, self.options))

    def upload(self, batch: int, task: int, task_rows: list[Any]) -> Any:
        upload = self.task(SinkContext(QUERY, batch, task, self.options))
        if task_rows:
            upload.receive_batch(self._packer.pack(task_rows))
        handle = upload.flush()
        upload.close()
        return handle

    def commit(self, batch: int, handles: list[Uploaded | None]) -> None:
        publish(BatchContext(QUERY, batch, self.options), handles)

    def write(self, batch: int, *tasks: list[Any]) -> None:
        self.commit(batch, [self.upload(batch, task, each) for task, each in enumerate(tasks)])
