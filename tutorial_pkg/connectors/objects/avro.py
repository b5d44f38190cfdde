"""Avro: its schemas as Spark's, and its records as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import time
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from pyspark.sql import types
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tutorial_pkg.connectors.arrow_columns import MAX_DIGITS, check_cast
from tutorial_pkg.core.arrow_casts import check_names
from tutorial_pkg.core.spark_versions import arrow_schema

_NULL = "null"
_TIME: DataType | None = types.TimeType() if hasattr(types, "TimeType") else None

_SPARK: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "enum": StringType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "date": DateType(),
    "time-millis": _TIME or IntegerType(),
    "time-micros": _TIME or LongType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_AVRO: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
_WIDER = ({"int", "long"}, LongType()), ({"float", "double"}, DoubleType())

# ---- Reading -------------------------------------------------------------------------------------


def schema_text(file: Any) -> str:
    """Return the schema with which an object was written."""
    return json.dumps(fastavro.reader(file).writer_schema)


def rows(file: Any, columns: StructType, schema: str | None) -> Iterator[tuple[Any, ...]]:
    """Yield an object's records with these columns; columns that it lacks are null.

    With a `schema`, Avro converts records to it, with its defaults and aliases. Raises `ValueError`
    for values that would change, and for a codec without its package.
    """
    reader_schema = None if schema is None else json.loads(schema)
    records: Any = fastavro.reader(file, reader_schema)
    fields = (reader_schema or records.writer_schema)["fields"]
    if reader_schema is None:
        check_names(columns.names, [field["name"] for field in fields])
    _check_casts(fields, columns)
    kinds = [(field.name, field.dataType) for field in columns]
    try:
        for record in records:
            yield tuple(_value(record.get(name), kind) for name, kind in kinds)
    except SchemaResolutionError as error:
        raise ValueError(str(error)) from error


def _check_casts(fields: list[dict[str, Any]], columns: StructType) -> None:
    known: dict[str, DataType | None] = {}
    for field in fields:
        try:
            source = _spark_type(field["type"], known)
        except ValueError:  # Spark lacks this type; then each value is checked
            continue
        if field["name"] in columns.names:
            target = columns[field["name"]].dataType
            if not (isinstance(target, IntegerType | LongType) and source == _TIME):
                check_cast(_arrow_type(source), _arrow_type(target), field["name"])


def _arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType().add("v", kind)).field(0).type


def _value(value: Any, kind: DataType) -> Any:
    """Return a value for Spark: UUIDs are text, times are numbers in columns of numbers."""
    if isinstance(value, dict):
        if isinstance(kind, MapType):
            return {key: _value(inner, kind.valueType) for key, inner in value.items()}
        return {name: _value(inner, _inner(kind, name)) for name, inner in value.items()}
    if isinstance(value, list):
        element = kind.elementType if isinstance(kind, ArrayType) else kind
        return [_value(inner, element) for inner in value]
    if isinstance(value, time) and isinstance(kind, IntegerType | LongType):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        micros = seconds * 1_000_000 + value.microsecond
        return micros // 1_000 if isinstance(kind, IntegerType) else micros
    return str(value) if type(value).__name__ == "UUID" else value


def _inner(kind: DataType, name: str) -> DataType:
    return kind[name].dataType if isinstance(kind, StructType) and name in kind.names else kind


def spark_schema(text: str) -> StructType:
    """Return Spark's schema of records. Raises `ValueError` for types that Spark lacks."""
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except (ValueError, fastavro.schema.SchemaParseException) as error:
        raise ValueError(f"expected an Avro schema: {error}") from None
    columns = _spark_type(schema, {})
    if not isinstance(columns, StructType):
        raise ValueError(f"expected an Avro record, with a column for each field, got {text}")
    return columns


def _spark_type(schema: Any, known: dict[str, DataType | None]) -> DataType:
    """Return Spark's type. `known` has the named types so far, None for those around this one."""
    if isinstance(schema, list):
        return _of_union(schema, known)
    if isinstance(schema, str):
        if schema in known and known[schema] is None:
            raise ValueError(f"`{schema}` contains itself, and Spark has no recursive types")
        return known.get(schema) or _simple(schema, schema)
    kind = schema["type"]
    if kind in ("record", "error"):
        known[schema["name"]] = None
        record = known[schema["name"]] = _of_record(schema, known)
        return record
    if kind == "array":
        return ArrayType(_spark_type(schema["items"], known))
    if kind == "map":
        return MapType(StringType(), _spark_type(schema["values"], known))
    if schema.get("logicalType") == "decimal":
        simple: DataType = _decimal(schema)
    else:
        simple = _simple(schema.get("logicalType", kind), kind)
    if "name" in schema:
        known[schema["name"]] = simple
    return simple


def _of_record(schema: Any, known: dict[str, DataType | None]) -> StructType:
    struct = StructType()
    for field in schema["fields"]:
        try:
            struct.add(field["name"], _spark_type(field["type"], known))
        except ValueError as error:
            raise ValueError(f"field `{field['name']}`: {error}") from None
    return struct


def _decimal(schema: Any) -> DecimalType:
    if schema["precision"] > MAX_DIGITS:
        raise ValueError(
            f"Spark's decimals have up to {MAX_DIGITS} digits, got {schema['precision']}; leave "
            "the column out: name the others in `.schema(…)`"
        )
    return DecimalType(schema["precision"], schema.get("scale", 0))


def _of_union(schema: list[Any], known: dict[str, DataType | None]) -> DataType:
    kinds = [kind for kind in schema if kind != _NULL]
    if len(kinds) == 1:
        return _spark_type(kinds[0], known)
    simple = {kind for kind in kinds if isinstance(kind, str)}
    for numbers, wider in _WIDER:
        if len(simple) == len(kinds) and simple <= numbers:
            return wider
    raise ValueError(f"Spark has no type for a value that may be {json.dumps(kinds)}")


def _simple(kind: str, base: str) -> DataType:
    spark = _SPARK.get(kind) or _SPARK.get(base)
    if spark is None:
        raise ValueError(f"Spark has no type for Avro's {kind}")
    return spark


# ---- Writing -------------------------------------------------------------------------------------


def avro_schema(schema: StructType, name: str = "row") -> dict[str, Any]:
    """Return the schema with which rows are written: every value may be null."""
    fields = [
        {"name": field.name, "type": [_NULL, _avro_type(field.dataType, f"{name}_{field.name}")]}
        for field in schema
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: DataType, name: str) -> Any:
    if isinstance(kind, StructType):
        return avro_schema(kind, name)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": [_NULL, _avro_type(kind.elementType, name)]}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": [_NULL, _avro_type(kind.valueType, name)]}
    if isinstance(kind, DecimalType):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if type(kind) not in _AVRO:
        column = name.partition("_")[2]
        raise ValueError(f"column `{column}`: Avro has no type for {kind.simpleString()}")
    return _AVRO[type(kind)]
