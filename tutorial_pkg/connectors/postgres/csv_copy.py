"""Record batches as CSV for COPY: the database turns texts into its types, and checks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.types as kinds

# Texts are quoted, so that the empty one is not null.
FORM = pacsv.WriteOptions(include_header=False, quoting_style="needed")


def csv_of(batch: pa.RecordBatch) -> memoryview:
    """All rows. Texts, numbers and times are written by Arrow, without a Python loop."""
    arrays = [_writable(array) for array in batch.columns]
    written = pa.BufferOutputStream()
    pacsv.write_csv(pa.RecordBatch.from_arrays(arrays, batch.schema.names), written, FORM)
    return memoryview(written.getvalue())


def _writable(array: pa.Array) -> pa.Array:
    """What Arrow's writer does not know, as PostgreSQL writes it."""
    text = _text_of(array.type)
    if text is None:
        return array
    texts = [None if value is None else text(value) for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _text_of(kind: pa.DataType) -> Callable[[Any], str] | None:
    if kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return _hex
    if kinds.is_map(kind):
        return lambda pairs: json.dumps(dict(pairs), default=_plain)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _array_literal
    if kinds.is_struct(kind):
        return lambda value: json.dumps(value, default=_plain)
    if kinds.is_duration(kind):
        return lambda span: f"{span.days} days {span.seconds}.{span.microseconds:06} seconds"
    return None


def _hex(value: bytes) -> str:
    return "\\x" + value.hex()


def _array_literal(values: list[Any]) -> str:
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return _array_literal(value)
    text = json.dumps(value, default=_plain) if isinstance(value, dict) else str(_plain(value))
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(value: Any) -> Any:
    """What JSON and arrays take: times and numbers as PostgreSQL reads them."""
    if isinstance(value, bytes):
        return _hex(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
