"""Avro: its schemas as Arrow's, and its records as record batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
from fastavro.schema import expand_schema

from tutorial_pkg.connectors.arrow_columns import fit_batch
from tutorial_pkg.core.arrow_casts import check_names

BATCH_ROWS = 10_000
_NULL = "null"
_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "date": pa.date32(),
    "time-millis": pa.time64("us"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
# For writing: types with the same values, and the logical types that Spark has, too.
_AVRO: dict[pa.DataType, Any] = {
    **{_ARROW[name]: name for name in ("boolean", "int", "long", "float", "double", "string")},
    **dict.fromkeys((pa.int8(), pa.int16()), "int"),
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}

# ---- Reading -------------------------------------------------------------------------------------


def arrow_schema(schema: Any) -> pa.Schema:
    """Return the columns of records. Raises `ValueError` for types that Spark lacks."""
    return pa.schema(map(_field, _fields(schema)))


def schema_of_file(file: Any) -> pa.Schema:
    return arrow_schema(fastavro.reader(file).writer_schema)


def batches(file: Any, columns: pa.Schema, schema: Any) -> Iterator[pa.RecordBatch]:
    """Yield an object's records with these columns; columns that it lacks are null.

    With a `schema`, Avro converts records to it, with its defaults and aliases. Raises `ValueError`
    for values that would change, and for a codec without its package.
    """
    records: Any = fastavro.reader(file, schema)
    fields = {field["name"]: field for field in _fields(schema or records.writer_schema)}
    if schema is None:
        check_names(columns.names, fields)
    kinds = {name: _field(fields[name]).type for name in columns.names if name in fields}
    while rows := list(islice(records, BATCH_ROWS)):
        arrays = {
            name: _column([row.get(name) for row in rows], kind, columns.field(name).type)
            for name, kind in kinds.items()
        }
        batch = pa.RecordBatch.from_pydict(arrays or {"": pa.nulls(len(rows))})
        yield fit_batch(batch, columns)


def _fields(schema: Any) -> list[dict[str, Any]]:
    """Return a record's fields, with named types in full wherever they are used."""
    schema = expand_schema(schema)
    if not isinstance(schema, dict) or schema["type"] != "record":
        raise ValueError(f"expected an Avro record, with a column for each field, got {schema}")
    return list(schema["fields"])


def _field(field: dict[str, Any]) -> pa.Field:
    try:
        return pa.field(field["name"], _arrow_type(field["type"]))
    except ValueError as error:
        raise ValueError(
            f"column `{field['name']}`: {error}; leave it out: name the others in `.schema(…)`"
        ) from None


def _arrow_type(schema: Any) -> pa.DataType:
    if isinstance(schema, list):
        kinds = [kind for kind in schema if kind != _NULL]
        if len(kinds) != 1:
            raise ValueError(f"Spark has no type for a value that may be {json.dumps(kinds)}")
        return _arrow_type(kinds[0])
    if isinstance(schema, str):
        if schema not in _ARROW:
            raise ValueError(f"Spark has no type for `{schema}`, which is null or contains itself")
        return _ARROW[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return pa.struct(map(_field, schema["fields"]))
    if kind == "array":
        return pa.list_(_arrow_type(schema["items"]))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_type(schema["values"]))
    if logical == "decimal":
        if schema["precision"] > 38:
            raise ValueError(f"Spark's decimals have up to 38 digits, got {schema['precision']}")
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    return _ARROW.get(logical) or _arrow_type(kind)


def _column(values: list[Any], kind: pa.DataType, target: pa.DataType) -> pa.Array:
    """Return a column; times are numbers where the query reads INT or LONG."""
    if pa.types.is_time(kind) and pa.types.is_integer(target):
        return pa.array(values, pa.time32("ms") if target == pa.int32() else kind).cast(target)
    return pa.array([_plain(value, kind) for value in values], type=kind)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value for Arrow: UUIDs are text, and maps are pairs."""
    if isinstance(value, dict):
        if pa.types.is_map(kind):
            return [(key, _plain(inner, kind.item_type)) for key, inner in value.items()]
        return {name: _plain(inner, kind.field(name).type) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, kind.value_type) for inner in value]
    return str(value) if isinstance(value, UUID) else value


# ---- Writing -------------------------------------------------------------------------------------


def avro_schema(fields: Any, name: str = "row") -> dict[str, Any]:
    """Return the schema with which rows are written: every value may be null."""
    columns = [
        {"name": field.name, "type": [_NULL, _avro_type(field.type, f"{name}_{field.name}")]}
        for field in fields
    ]
    return {"type": "record", "name": name, "fields": columns}


def _avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        return avro_schema(kind, name)
    if pa.types.is_list(kind):
        return {"type": "array", "items": [_NULL, _avro_type(kind.value_type, name)]}
    if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
        return {"type": "map", "values": [_NULL, _avro_type(kind.item_type, name)]}
    if pa.types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if kind not in _AVRO:
        raise ValueError(f"column `{name.partition('_')[2]}`: Avro has no type for {kind}")
    return _AVRO[kind]
