"""The columns of a table or query: their Spark types, the SELECT list, and checks of the values."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as spark
from psycopg import sql
from pyspark.sql.types import ArrayType, DataType, DecimalType, StringType, StructType

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
FIRST_DAY, END_DAY = -719_162, 2_932_897  # 0001-01-01 and 10000-01-01, from 1970 on


def schema_of(connection: Connection, source: sql.Composable) -> StructType:
    """Return the schema of a table, or a query in brackets. Raises `ValueError` for wrong SQL."""
    schema = StructType()
    for column in _columns(connection, source):
        schema.add(column.name, _type_of(column))
    return schema


def exact_columns(connection: Connection, source: sql.Composable, schema: StructType) -> set[str]:
    """Return the columns of a schema that the server compares with literals as Spark does.

    Spark's STRING stands for many types. `inet`, `char` and others have an equality of their own.
    """
    columns = {column.name: column for column in _columns(connection, source)}
    texts = {psycopg.adapters.types[name].oid for name in ("text", "varchar")}
    return {
        field.name
        for field in schema
        if (column := columns.get(field.name)) and _type_of(column) == field.dataType
        if field.dataType != StringType() or column.type_code in texts
    }


def _columns(connection: Connection, source: sql.Composable) -> list[psycopg.Column]:
    text = sql.SQL("SELECT * FROM {} AS source LIMIT 0").format(source)
    try:
        cursor = connection.execute(text, binary=True)  # which allows one statement only
    except psycopg.ProgrammingError as error:
        raise ValueError(f"format `{FORMAT}`: {' '.join(str(error).split())}") from None
    return cursor.description or []


def _type_of(column: psycopg.Column) -> DataType:
    info = psycopg.adapters.types.get(column.type_code)
    if info is None:  # an enum, a domain, an extension's type
        return StringType()
    kind = _decimal(column) if info.name == "numeric" else TYPES.get(info.name, StringType())
    is_list = column.type_code == info.array_oid and info.delimiter == ","  # boxes have another
    return ArrayType(kind) if is_list else kind


def _decimal(column: psycopg.Column) -> DataType:
    """Keep the precision and scale of NUMERIC(p, s) where Spark's DECIMAL allows them."""
    precision, scale = column.precision, column.scale
    if precision is None or scale is None or precision > 38 or not 0 <= scale <= precision:
        return ANY_NUMERIC
    return DecimalType(precision, scale)


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


class Fitter:
    """Converts fetched batches to Spark's types.

    Raises `ValueError`, with the column's name, for values that don't fit; among them those that
    the client or Arrow would change silently.
    """

    def __init__(self, schema: StructType) -> None:
        self._schema, self._packer = schema, RowPacker(schema)
        decimals = [field for field in schema if isinstance(_element(field.dataType), DecimalType)]
        self._decimals = RowPacker(StructType(decimals))

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for field in self._schema:
            self._check(field.name, _element(field.dataType), batch.column(field.name))
        nested = pc.drop_null(batch.column(NESTED)) if NESTED in batch.schema.names else []
        if len(nested):
            problem = "an array of several dimensions, and an ARRAY of Spark has one"
            raise ValueError(f"column `{nested[0]}` has {problem}; read it as text, with a `query`")
        batch = batch.select(self._schema.names)
        names = self._decimals.schema.names
        arrays = self._decimals.fit(batch.select(names), strict=False).columns  # they are texts
        for name, array in zip(names, arrays, strict=True):
            batch = batch.set_column(batch.schema.get_field_index(name), name, array)
        return self._packer.fit(batch)

    def _check(self, name: str, kind: DataType, array: pa.Array) -> None:
        problem = ""
        if pa.types.is_list(array.type):
            array = array.flatten()
        if kind == ANY_NUMERIC and _any_not(pc.match_substring_regex(array, FITTING)):
            problem = "a number that does not fit into DECIMAL(38,18)"
        elif pa.types.is_temporal(array.type) and _any_not(_in_years(array)):
            problem = "a time that Spark does not support, infinity or outside the years 1 to 9999"
        if problem:
            raise ValueError(f"column `{name}` has {problem}; read it as text, with a `query`")


def _any_not(holds: pa.Array) -> bool:
    return pc.all(holds).as_py() is False  # None if there are only nulls


def _in_years(array: pa.Array) -> pa.Array:
    """Infinity arrives as a year far away."""
    day = 1 if pa.types.is_date32(array.type) else 86_400_000_000
    units = array.view(pa.int32() if day == 1 else pa.int64())
    first, end = pa.scalar(FIRST_DAY * day, units.type), pa.scalar(END_DAY * day, units.type)
    return pc.and_(pc.greater_equal(units, first), pc.less(units, end))
