"""Avro: its schemas as Spark has them, and its records as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.read import SchemaResolutionError as SchemaResolutionError
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

from tutorial_pkg.connectors.arrow_columns import check_kind, check_names
from tutorial_pkg.core.spark_versions import arrow_schema

_NOTHING = "null"

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
    """The schema with which an object was written."""
    return json.dumps(fastavro.reader(file).writer_schema)


def rows(file: Any, columns: StructType, schema: str | None) -> Iterator[tuple[Any, ...]]:
    """Records of an object, with the columns that are wanted; null for those that it lacks.

    With a `schema`, as Avro resolves the one that the object was written with: defaults, aliases.
    """
    wanted = None if schema is None else json.loads(schema)
    records: Any = fastavro.reader(file, wanted)
    fields = (wanted or records.writer_schema)["fields"]
    if wanted is None:
        check_names(columns.names, [field["name"] for field in fields])
    _check_kinds(fields, columns)
    for record in records:
        yield tuple(_value(record.get(name)) for name in columns.names)


def _check_kinds(fields: list[dict[str, Any]], columns: StructType) -> None:
    """Raises `ValueError` where a value would become another one, as with Parquet."""
    named: dict[str, Any] = {}
    for field in fields:
        try:
            found = _spark_type(field["type"], named)
        except ValueError:  # Spark has no type for it; then each value is looked at
            continue
        if field["name"] in columns.names:
            wanted = columns[field["name"]].dataType
            check_kind(_arrow_type(found), _arrow_type(wanted), field["name"])


def _arrow_type(kind: DataType) -> pa.DataType:
    return arrow_schema(StructType().add("v", kind)).field(0).type


def _value(value: Any) -> Any:
    """A UUID is a text to Spark; everything else keeps its type."""
    if isinstance(value, dict):
        return {name: _value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_value(each) for each in value]
    return str(value) if type(value).__name__ == "UUID" else value


def spark_schema(text: str) -> StructType:
    """Spark's schema of records. Raises `ValueError` for what it has no type for."""
    try:
        schema = fastavro.parse_schema(json.loads(text))
    except (ValueError, fastavro.schema.SchemaParseException) as error:
        raise ValueError(f"no Avro schema: {error}") from None
    found = _spark_type(schema, {})
    if not isinstance(found, StructType):
        raise ValueError(f"the Avro schema must be a record, with a column for each field: {text}")
    return found


def _spark_type(schema: Any, named: dict[str, Any]) -> DataType:
    if isinstance(schema, list):
        return _of_union(schema, named)
    if isinstance(schema, str):
        return _spark_type(named[schema], named) if schema in named else _simple(schema, schema)
    kind = schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        named[schema["name"]] = schema
    if kind in ("record", "error"):
        struct = StructType()
        for field in schema["fields"]:
            struct.add(field["name"], _spark_type(field["type"], named))
        return struct
    if kind == "array":
        return ArrayType(_spark_type(schema["items"], named))
    if kind == "map":
        return MapType(StringType(), _spark_type(schema["values"], named))
    if schema.get("logicalType") == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    return _simple(schema.get("logicalType", kind), kind)


def _of_union(schema: list[Any], named: dict[str, Any]) -> DataType:
    kinds = [each for each in schema if each != _NOTHING]
    if len(kinds) == 1:
        return _spark_type(kinds[0], named)
    plain = {each for each in kinds if isinstance(each, str)}
    for numbers, wider in _WIDER:
        if len(plain) == len(kinds) and plain <= numbers:
            return wider
    raise ValueError(f"Spark has no type for a value that may be {json.dumps(kinds)}")


def _simple(kind: str, base: str) -> DataType:
    found = _SPARK.get(kind) or _SPARK.get(base)
    if found is None:
        raise ValueError(f"Spark has no type for Avro's {kind}")
    return found


# ---- Writing -------------------------------------------------------------------------------------


def avro_schema(schema: StructType, name: str = "row") -> dict[str, Any]:
    """The schema with which rows are written: every value may be null."""
    fields = [
        {"name": field.name, "type": [_NOTHING, _avro_type(field.dataType, f"{name}_{field.name}")]}
        for field in schema
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro_type(kind: DataType, name: str) -> Any:
    if isinstance(kind, StructType):
        return avro_schema(kind, name)
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": [_NOTHING, _avro_type(kind.elementType, name)]}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": [_NOTHING, _avro_type(kind.valueType, name)]}
    if isinstance(kind, DecimalType):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if type(kind) not in _AVRO:
        column = name.partition("_")[2]
        raise ValueError(f"column `{column}`: Avro has no type for {kind.simpleString()}")
    return _AVRO[type(kind)]
