"""The columns of a table or query: which Spark type each has, and how its values are asked for."""

from __future__ import annotations

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
AS_TEXT = (StringType, DecimalType)
# As Spark's own JDBC source has it for NUMERIC without precision.
ANY_NUMERIC = DecimalType(38, 18)


def schema_of(connection: Connection, source: sql.Composable) -> StructType:
    """The Spark schema of `source`, a table or a query in brackets.

    Any value may be null, for the table may be altered. Raises `ValueError` for wrong SQL.
    """
    try:
        cursor = connection.execute(sql.SQL("SELECT * FROM {} AS source LIMIT 0").format(source))
    except psycopg.ProgrammingError as error:
        raise ValueError(f"format `{FORMAT}`: {' '.join(str(error).split())}") from None
    schema = StructType()
    for column in cursor.description or []:
        schema.add(column.name, _type_of(column))
    return schema


def selected(schema: StructType) -> sql.Composed:
    """The SELECT list. What has no type of its own in Spark comes as PostgreSQL's own text."""
    return sql.SQL(", ").join(_expression(field.name, field.dataType) for field in schema)


def _expression(column: str, kind: DataType) -> sql.Composable:
    name = sql.Identifier(column)
    if isinstance(kind, AS_TEXT):
        return sql.SQL("{0}::text AS {0}").format(name)
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, AS_TEXT):
        return sql.SQL("{0}::text[] AS {0}").format(name)
    return name


def _type_of(column: psycopg.Column) -> DataType:
    info = psycopg.adapters.types.get(column.type_code)
    if info is None:  # an enum, a composite, a type of an extension
        return StringType()
    kind = _spark_type(info.name, column)
    return ArrayType(kind) if column.type_code == info.array_oid else kind


def _spark_type(name: str, column: psycopg.Column) -> DataType:
    if name == "numeric":
        return _decimal(column)
    return TYPES.get(name, StringType())


def _decimal(column: psycopg.Column) -> DataType:
    """NUMERIC(p, s) as it is where Spark's DECIMAL can be that wide."""
    precision, scale = column.precision, column.scale
    if precision is None or scale is None:
        return ANY_NUMERIC
    if precision > 38 or not 0 <= scale <= precision:
        return ANY_NUMERIC
    return DecimalType(precision, scale)
