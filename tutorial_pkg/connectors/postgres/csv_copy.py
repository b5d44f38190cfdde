"""Record batches as CSV for COPY; the database converts the texts to its types and checks them."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.types as kinds

FULL_MINUTES_FROM = pa.scalar(datetime(1973, 1, 1, tzinfo=UTC))
# Outside these years, Arrow's writer produces a wrong year or an error text as the value.
YEARS = np.datetime64("-32767-01-01"), np.datetime64("32768-01-01")
# Strings are quoted, so that the empty string differs from null.
FORM = pacsv.WriteOptions(include_header=False, batch_size=10_000, quoting_style="needed")


def csv_of(batch: pa.RecordBatch, json_columns: Collection[str] = ()) -> memoryview:
    """Convert all rows. Arrow writes texts, numbers and times without a Python loop.

    Lists become JSON in `json_columns` and PostgreSQL arrays elsewhere. Raises `ValueError` that
    names the column.
    """
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            arrays.append(_writable(array, name in json_columns))
        except ValueError as error:
            raise ValueError(f"column `{name}`: {error}") from None
    output = pa.BufferOutputStream()
    pacsv.write_csv(pa.RecordBatch.from_arrays(arrays, batch.schema.names), output, FORM)
    return memoryview(output.getvalue())


def _writable(array: pa.Array, as_json: bool) -> pa.Array:
    """Convert types that Arrow's CSV writer doesn't support to PostgreSQL's text."""
    kind = array.type
    if (kinds.is_timestamp(kind) and kind.unit != "ns") or kinds.is_date32(kind):
        _check_years(array)
    if kinds.is_nested(kind) or kinds.is_duration(kind) or _is_bytes(kind) or _has_seconds(array):
        texts = [_text(kind, value, as_json) for value in array.to_pylist()]
        array = pa.array(texts, pa.string())
    if kinds.is_string(array.type) and pc.any(pc.match_substring(array, "\0")).as_py():
        raise ValueError("PostgreSQL can't store the character NUL; remove it with `translate`")
    return array


def _check_years(array: pa.Array) -> None:
    is_date = kinds.is_date32(array.type)
    unit, number = ("D", pa.int32()) if is_date else (array.type.unit, pa.int64())
    first, end = (year.astype(f"datetime64[{unit}]").astype(np.int64) for year in YEARS)
    extremes = pc.min_max(array.view(number)).as_py()
    if extremes["min"] is not None and not first <= extremes["min"] <= extremes["max"] < end:
        raise ValueError(
            "a time is outside the years -32767 to 32767; if milliseconds were read as seconds, "
            "use `timestamp_millis`"
        )


def _has_seconds(array: pa.Array) -> bool:
    """Time zones had seconds until 1972; Arrow's writer would cut them off."""
    has_zone = kinds.is_timestamp(array.type) and array.type.tz not in (None, "UTC")
    return has_zone and bool(pc.any(pc.less(array, FULL_MINUTES_FROM)).as_py())


def _text(kind: pa.DataType, value: Any, as_json: bool) -> str | None:
    if value is None:
        return None
    if kinds.is_list(kind) and not as_json:
        return "{" + ",".join(_element(kind.value_type, item) for item in value) + "}"
    plain = _plain(kind, value)
    return json.dumps(plain, allow_nan=False) if kinds.is_nested(kind) else str(plain)


def _element(kind: pa.DataType, value: Any) -> str:
    """Write an element of an array literal; only nested arrays are unquoted."""
    if kinds.is_list(kind) and not value:
        raise ValueError("PostgreSQL's arrays can't contain an empty array, or null for an array")
    text = _text(kind, value, as_json=False)
    if text is None:
        return "NULL"
    return (
        text if kinds.is_list(kind) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    )


def _plain(kind: pa.DataType, value: Any) -> Any:
    """Convert to a JSON value; times, intervals, bytes and decimals as PostgreSQL's text."""
    if value is None:
        return None
    if kinds.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    if kinds.is_map(kind):
        keys = [_plain(kind.key_type, key) for key, _ in value]
        names = [key if isinstance(key, str) else json.dumps(key, allow_nan=False) for key in keys]
        items = [_plain(kind.item_type, item) for _, item in value]
        return dict(zip(names, items, strict=True))
    if kinds.is_list(kind):
        return [_plain(kind.value_type, item) for item in value]
    if _is_bytes(kind):
        return "\\x" + value.hex()
    if kinds.is_duration(kind):
        return f"{value.days} days {value.seconds}.{value.microseconds:06} seconds"
    if kinds.is_temporal(kind):
        return value.isoformat()
    return str(value) if kinds.is_decimal(kind) else value


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))
