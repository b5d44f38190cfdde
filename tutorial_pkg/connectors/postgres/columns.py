"""The columns of a table or query: which Spark type each has, and how its values are asked for."""

from __future__ import annotations

from typing import LiteralString

import psycopg
from psycopg import sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tutorial_pkg.connectors.postgres.connection import Connection
from tutorial_pkg.connectors.postgres.options import FORMAT

TYPES: dict[str, DataType] = {
    "bool": BooleanType(),
    "int2": ShortType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "text": StringType(),
    "varchar": StringType(),
    "bytea": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
}
# The types' own text, as it is in the log: `::text` cuts blanks off `char`, and adds /32 to `inet`.
OWN_TEXT = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END"
NAMES = {type(kind): name for name, kind in TYPES.items()} | {DecimalType: "numeric"}
NESTED = "spark_nested"  # a column beside those of the table, see `selected`
# As Spark's own JDBC source has it for NUMERIC without precision.
ANY_NUMERIC = DecimalType(38, 18)


def schema_of(connection: Connection, source: sql.Composable) -> StructType:
    """The Spark schema of `source`, a table or a query in brackets.

    Any value may be null, for the table may be altered. Raises `ValueError` for wrong SQL.
    """
    text = sql.SQL("SELECT * FROM {} AS source LIMIT 0").format(source)
    try:
        cursor = connection.execute(text, binary=True)  # else it might be several statements
    except psycopg.ProgrammingError as error:
        raise ValueError(f"format `{FORMAT}`: {' '.join(str(error).split())}") from None
    schema = StructType()
    for column in cursor.description or []:
        schema.add(column.name, _type_of(column))
    return schema


def selected(schema: StructType) -> sql.Composed:
    """The SELECT list. What has no type of its own in Spark comes as PostgreSQL's own text.

    `NESTED` names a column whose array has several dimensions: the client would make one of them.
    """
    items = [_expression(field.name, field.dataType) for field in schema]
    arrays = [field.name for field in schema if isinstance(field.dataType, ArrayType)]
    if arrays:
        each = sql.SQL("WHEN array_ndims({}) > 1 THEN {}")
        whens = sql.SQL(" ").join(each.format(sql.Identifier(name), name) for name in arrays)
        items.append(sql.SQL("CASE {} END AS {}").format(whens, sql.Identifier(NESTED)))
    return sql.SQL(", ").join(items)


def _expression(column: str, kind: DataType) -> sql.Composable:
    """A slice of an array counts from 1, as the client wants it."""
    if isinstance(kind, ArrayType):
        text: LiteralString = f"({_read(kind.elementType, 'text[]')})[:]"
    else:
        text = _read(kind, "text")
    return sql.SQL(f"{text} AS {{0}}").format(sql.Identifier(column))


def _read(kind: DataType, as_text: LiteralString) -> LiteralString:
    if isinstance(kind, StringType):
        return f"({OWN_TEXT})::{as_text}"
    return f"{{0}}::{as_text}" if isinstance(kind, DecimalType) else "{0}"


def type_of(oid: int) -> DataType | None:
    """The Spark type for one of PostgreSQL's; None for an enum, a domain, an extension's type."""
    info = psycopg.adapters.types.get(oid)
    if info is None:
        return None
    kind = ANY_NUMERIC if info.name == "numeric" else TYPES.get(info.name, StringType())
    is_list = oid == info.array_oid and info.delimiter == ","  # of boxes, it is a text
    return ArrayType(kind) if is_list else kind


def oid_of(kind: DataType) -> int:
    """The reverse of `type_of`."""
    if isinstance(kind, ArrayType):
        return psycopg.adapters.types[NAMES[type(kind.elementType)]].array_oid
    return psycopg.adapters.types[NAMES[type(kind)]].oid


def _type_of(column: psycopg.Column) -> DataType:
    kind = type_of(column.type_code) or StringType()
    if kind == ANY_NUMERIC:
        return _decimal(column)
    return ArrayType(_decimal(column)) if kind == ArrayType(ANY_NUMERIC) else kind


def _decimal(column: psycopg.Column) -> DataType:
    """NUMERIC(p, s) as it is where Spark's DECIMAL can be that wide."""
    precision, scale = column.precision, column.scale
    if precision is None or scale is None:
        return ANY_NUMERIC
    if precision > 38 or not 0 <= scale <= precision:
        return ANY_NUMERIC
    return DecimalType(precision, scale)
