"""Rows to a file of one of the formats: on the task's disk first, since a store cannot append."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
from fastavro.write import Writer
from pyspark.sql.pandas.types import from_arrow_schema

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.objects.avro import avro_schema
from tutorial_pkg.connectors.row_groups import RowGroups

Write = Callable[[pa.RecordBatch], object]
Finish = Callable[[], object]


class Draft:
    """An object that grows; `file` is at its beginning when it is finished."""

    def __init__(self, options: OptionValues, schema: pa.Schema) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()
        self._write, self._finish = WRITERS[options.format](self.file, schema, options)

    def add(self, batch: pa.RecordBatch) -> None:
        self._write(batch)

    def finish(self) -> IO[bytes]:
        self._finish()
        self.file.seek(0)
        return self.file


def _parquet(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    groups = RowGroups(file, schema)
    return groups.write, groups.close


def _csv(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    how = pa.csv.WriteOptions(include_header=options.header)
    writer = pa.csv.CSVWriter(file, schema, write_options=how)

    def write(batch: pa.RecordBatch) -> None:
        if len(schema) == 1 and batch.column(0).null_count:
            raise ValueError(
                f"column `{schema[0].name}`: a null alone would be an empty line of csv, which "
                "readers leave out; add a column, or use another format"
            )
        writer.write_batch(batch)

    return write, writer.close


def _avro(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    spark = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    writer = Writer(file, avro_schema(spark), codec="deflate")

    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            writer.write(row)

    return write, writer.flush


def _jsonl(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    encode = json.JSONEncoder(ensure_ascii=False, default=_text, separators=(",", ":")).encode

    def write(batch: pa.RecordBatch) -> None:
        rows = batch.to_pylist(maps_as_pydicts="strict")
        file.write("".join(f"{encode(row)}\n" for row in rows).encode())

    return write, file.flush


def _text(value: Any) -> str:
    """What JSON has no type for: times in ISO 8601, decimals digit by digit."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


WRITERS: dict[str, Callable[[Any, pa.Schema, OptionValues], tuple[Write, Finish]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "avro": _avro,
    "jsonl": _jsonl,
}
