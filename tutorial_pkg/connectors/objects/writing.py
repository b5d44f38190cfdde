"""Rows to a file of one of the formats, on the task's disk first: a store cannot append."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
from fastavro.write import Writer

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.objects.avro import avro_schema
from tutorial_pkg.connectors.parquet_files import RowGroups

Write = Callable[[pa.RecordBatch], object]
Finish = Callable[[], object]


class ObjectDraft:
    """An object that is being written to `file`. It is complete after `finish`."""

    def __init__(self, options: OptionValues, schema: pa.Schema) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()
        self.write, self.finish = WRITERS[options.format](self.file, schema, options)


def _parquet(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    groups = RowGroups(file, schema)
    return groups.write, groups.close


def _csv(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    how = pa.csv.WriteOptions(include_header=options.header)
    writer = pa.csv.CSVWriter(file, schema, write_options=how)

    def write(batch: pa.RecordBatch) -> None:
        if len(schema) == 1 and batch.column(0).null_count:
            raise ValueError(
                f"column `{schema[0].name}`: a lone null would be an empty line of csv, which "
                "readers skip; add a column, or use another format"
            )
        writer.write_batch(batch)

    return write, writer.close


def _avro(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    writer = Writer(file, avro_schema(schema), codec="deflate")

    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            writer.write(row)

    return write, writer.flush


def _jsonl(file: Any, schema: pa.Schema, options: OptionValues) -> tuple[Write, Finish]:
    encode = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, default=_text, separators=(",", ":")
    ).encode

    def write(batch: pa.RecordBatch) -> None:
        rows = batch.to_pylist(maps_as_pydicts="strict")
        try:
            lines = "".join(f"{encode(row)}\n" for row in rows)
        except ValueError:
            raise ValueError(
                f"column `{_not_in_json(rows, encode)}` has NaN or Infinity, which JSON lacks; "
                "replace them by null (`nanvl`, `when`), or write parquet or avro"
            ) from None
        file.write(lines.encode())

    return write, file.flush


def _not_in_json(rows: list[dict[str, Any]], encode: Callable[[Any], str]) -> str:
    """Return the column with a value that JSON cannot hold."""
    for name, value in (item for row in rows for item in row.items()):
        try:
            encode(value)
        except ValueError:
            return name
    return ""


def _text(value: Any) -> str:
    """Return text for times, in ISO 8601, and for decimals: JSON has no types for them."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


WRITERS: dict[str, Callable[[Any, pa.Schema, OptionValues], tuple[Write, Finish]]] = {
    "parquet": _parquet,
    "csv": _csv,
    "avro": _avro,
    "jsonl": _jsonl,
}
