"""Record batches as CSV for COPY: the database turns texts into its types, and checks them."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.types as kinds

MINUTES_ONLY = pa.scalar(datetime(1973, 1, 1, tzinfo=UTC))
# Arrow's writer takes the year 65,537 for 1, and writes an excuse for some others.
YEARS = np.datetime64("-32767-01-01"), np.datetime64("32768-01-01")
# Texts are quoted, so that the empty one is not null.
FORM = pacsv.WriteOptions(include_header=False, batch_size=10_000, quoting_style="needed")


def csv_of(batch: pa.RecordBatch, json_columns: Collection[str] = ()) -> memoryview:
    """All rows. Texts, numbers and times are written by Arrow, without a Python loop.

    Of a list comes JSON for `json_columns`, and an array for others. Raises `ValueError` that names
    the column.
    """
    arrays = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        try:
            arrays.append(_writable(array, name in json_columns))
        except ValueError as error:
            raise ValueError(f"column `{name}`: {error}") from None
    written = pa.BufferOutputStream()
    pacsv.write_csv(pa.RecordBatch.from_arrays(arrays, batch.schema.names), written, FORM)
    return memoryview(written.getvalue())


def _writable(array: pa.Array, as_json: bool) -> pa.Array:
    """What Arrow's writer does not know, as PostgreSQL writes it."""
    kind = array.type
    if (kinds.is_timestamp(kind) and kind.unit != "ns") or kinds.is_date32(kind):
        _check_years(array)
    if kinds.is_nested(kind) or kinds.is_duration(kind) or _is_bytes(kind) or _is_old(array):
        values = array.to_pylist()
        array = pa.array([_text(kind, value, as_json) for value in values], pa.string())
    if kinds.is_string(array.type) and pc.any(pc.match_substring(array, "\0")).as_py():
        raise ValueError("PostgreSQL holds no text with the character NUL; see `translate`")
    return array


def _check_years(array: pa.Array) -> None:
    is_date = kinds.is_date32(array.type)
    unit, number = ("D", pa.int32()) if is_date else (array.type.unit, pa.int64())
    first, end = (each.astype(f"datetime64[{unit}]").astype(np.int64) for each in YEARS)
    found = pc.min_max(array.view(number)).as_py()
    if found["min"] is not None and not first <= found["min"] <= found["max"] < end:
        raise ValueError(
            "a time of a year after 32767, or before -32767, cannot be written; were milliseconds "
            "taken for seconds? see `timestamp_millis`"
        )


def _is_old(array: pa.Array) -> bool:
    """Zones had seconds once, the last one until 1972; Arrow's writer cuts them off."""
    has_zone = kinds.is_timestamp(array.type) and array.type.tz not in (None, "UTC")
    return has_zone and bool(pc.any(pc.less(array, MINUTES_ONLY)).as_py())


def _text(kind: pa.DataType, value: Any, as_json: bool) -> str | None:
    if value is None:
        return None
    if _is_list(kind) and not as_json:
        return "{" + ",".join(_element(kind.value_type, each) for each in value) + "}"
    plain = _plain(kind, value)
    return json.dumps(plain, allow_nan=False) if kinds.is_nested(kind) else str(plain)


def _element(kind: pa.DataType, value: Any) -> str:
    """Of an array's literal; a list in it is not quoted."""
    if _is_list(kind) and not value:
        raise ValueError("an array of PostgreSQL has no empty array in it, and no null for one")
    text = _text(kind, value, as_json=False)
    if text is None:
        return "NULL"
    return text if _is_list(kind) else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(kind: pa.DataType, value: Any) -> Any:
    """What JSON takes: times, spans, bytes and decimals as PostgreSQL reads them."""
    if value is None:
        return None
    if kinds.is_struct(kind):
        return {field.name: _plain(field.type, value[field.name]) for field in kind}
    if kinds.is_map(kind):
        return {_key(kind.key_type, key): _plain(kind.item_type, each) for key, each in value}
    if _is_list(kind):
        return [_plain(kind.value_type, each) for each in value]
    if _is_bytes(kind):
        return "\\x" + value.hex()
    if kinds.is_temporal(kind):
        return _interval(value) if kinds.is_duration(kind) else value.isoformat()
    return str(value) if kinds.is_decimal(kind) else value


def _key(kind: pa.DataType, key: Any) -> str:
    plain = _plain(kind, key)
    return plain if isinstance(plain, str) else json.dumps(plain, allow_nan=False)


def _interval(span: timedelta) -> str:
    return f"{span.days} days {span.seconds}.{span.microseconds:06} seconds"


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))
