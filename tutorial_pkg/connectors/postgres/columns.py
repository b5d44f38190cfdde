"""The columns of a table or query: their Spark types, the SELECT list, and checks of the values."""

from __future__ import annotations

from datetime import date, datetime

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as spark
from psycopg import sql
from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType, StructField, StructType

from tutorial_pkg.builder import RowPacker
from tutorial_pkg.connectors.postgres.connection import Connection
from tutorial_pkg.connectors.postgres.options import FORMAT

TYPES: dict[str, DataType] = {
    "bool": spark.BooleanType(),
    "int2": spark.ShortType(),
    "int4": spark.IntegerType(),
    "int8": spark.LongType(),
    "float4": spark.FloatType(),
    "float8": spark.DoubleType(),
    "text": StringType(),
    "varchar": StringType(),
    "bytea": spark.BinaryType(),
    "date": spark.DateType(),
    "timestamp": spark.TimestampNTZType(),
    "timestamptz": spark.TimestampType(),
}
NAMES = {type(kind): name for name, kind in TYPES.items()} | {DecimalType: "numeric"}
# The type's own output, as in the server's log: `::text` would cut the blanks of a `char`.
OWN_TEXT = "CASE WHEN {0} IS DISTINCT FROM NULL THEN format('%s', {0}) END"
NESTED = "spark_nested"  # an extra column, see `select_list`
ANY_NUMERIC = DecimalType(38, 18)  # Spark's JDBC source reads NUMERIC without precision like this
FITTING = r"^-?[0-9]{1,20}(\.[0-9]+)?$"  # in DECIMAL(38,18); Arrow overlooks larger ones


def schema_of(connection: Connection, source: sql.Composable) -> StructType:
    """Return the schema of a table, or a query in brackets. Raises `ValueError` for wrong SQL."""
    columns = _columns(connection, source)
    return StructType([StructField(column.name, _type_of(column)) for column in columns])


def exact_columns(connection: Connection, source: sql.Composable, schema: StructType) -> set[str]:
    """Return the columns of a schema that the server compares with literals as Spark does.

    Spark's STRING stands for many types. `inet`, `char` and others have an equality of their own.
    """
    exact = {psycopg.adapters.types[name].oid for name in (*TYPES, "numeric")}
    columns = [column for column in _columns(connection, source) if column.type_code in exact]
    kinds = {field.name: field.dataType for field in schema}
    return {column.name for column in columns if kinds.get(column.name) == _type_of(column)}


def _columns(connection: Connection, source: sql.Composable) -> list[psycopg.Column]:
    text = sql.SQL("SELECT * FROM {} AS source LIMIT 0").format(source)
    try:
        cursor = connection.execute(text, binary=True)  # which allows one statement only
    except psycopg.ProgrammingError as error:
        raise ValueError(f"format `{FORMAT}`: {' '.join(str(error).split())}") from None
    return cursor.description or []


def _type_of(column: psycopg.Column) -> DataType:
    info = psycopg.adapters.types.get(column.type_code)
    precision, scale = column.precision, column.scale
    if info is None:  # an enum, a domain, an extension's type
        return StringType()
    kind = TYPES.get(info.name, StringType())
    if info.name == "numeric":
        kind = ANY_NUMERIC
        if precision is not None and scale is not None and 0 <= scale <= precision <= 38:
            kind = DecimalType(precision, scale)
    is_list = column.type_code == info.array_oid and info.delimiter == ","  # boxes have another
    return ArrayType(kind) if is_list else kind


def oid_of(kind: DataType) -> int:
    """Return PostgreSQL's type for a Spark type of a schema."""
    if isinstance(kind, ArrayType):
        return psycopg.adapters.types[NAMES[type(kind.elementType)]].array_oid
    return psycopg.adapters.types[NAMES[type(kind)]].oid


def _element(kind: DataType) -> DataType:
    return kind.elementType if isinstance(kind, ArrayType) else kind


def select_list(schema: StructType) -> sql.Composed:
    """Return the SELECT list. Types that Spark doesn't have are fetched as PostgreSQL's own text.

    In each row, `NESTED` names a column with an array of several dimensions, which the client
    would flatten silently.
    """
    items, whens = list[sql.Composable](), list[sql.Composable]()
    for field in schema:
        name, kind, text = sql.Identifier(field.name), _element(field.dataType), "{0}"
        if isinstance(kind, StringType):
            text = f"({OWN_TEXT})::text"
        elif isinstance(kind, DecimalType):
            text = "{0}::text"
        if isinstance(field.dataType, ArrayType):  # a slice counts from 1, as the client expects
            text = f"({text.replace('::text', '::text[]')})[:]"
            whens.append(sql.SQL("WHEN array_ndims({}) > 1 THEN {}").format(name, field.name))
        items.append(sql.SQL(f"{text} AS {{0}}").format(name))
    if whens:
        items.append(sql.SQL(f"CASE {{}} END AS {NESTED}").format(sql.SQL(" ").join(whens)))
    return sql.SQL(", ").join(items)


def fit(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Convert a fetched batch to Spark's types.

    Raises `ValueError`, with the column's name, for values that don't fit; among them those that
    the client or Arrow would change silently.
    """
    nested = pc.drop_null(batch.column(NESTED)) if NESTED in batch.schema.names else []
    if len(nested):
        problem = "an array of several dimensions, and an ARRAY of Spark has one"
        raise ValueError(f"column `{nested[0]}` has {problem}; read it as text, with a `query`")
    arrays = [_fit_column(batch.select([field.name]), field) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema.names)


def _fit_column(column: pa.RecordBatch, field: StructField) -> pa.Array:
    kind, values, fits, problem = _element(field.dataType), column.column(0), None, ""
    if pa.types.is_list(values.type):
        values = values.flatten()
    if kind == ANY_NUMERIC:
        fits = pc.match_substring_regex(values, FITTING)
        problem = "a number that does not fit into DECIMAL(38,18)"
    elif pa.types.is_temporal(values.type):  # infinity is a year far away
        time = date if pa.types.is_date32(values.type) else datetime
        first, last = pa.scalar(time.min, values.type), pa.scalar(time.max, values.type)
        fits = pc.and_(pc.less_equal(first, values), pc.less_equal(values, last))
        problem = "a time that Spark does not support, infinity or outside the years 1 to 9999"
    if fits is not None and pc.all(fits).as_py() is False:
        raise ValueError(f"column `{field.name}` has {problem}; read it as text, with a `query`")
    is_text = isinstance(kind, DecimalType)  # see `select_list`
    return RowPacker(StructType([field])).fit(column, strict=not is_text).column(0)
