"""A table or query as a batch: ranges of a key, planned once, and read as Arrow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from typing import LiteralString, cast

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pyspark.sql.types import ArrayType, DataType, DecimalType, StructType

from tutorial_pkg.builder import OptionValues, RowPacker
from tutorial_pkg.connectors.postgres.columns import ANY_NUMERIC, NESTED, schema_of, selected
from tutorial_pkg.connectors.postgres.connection import Connection, connect, conninfo, settings
from tutorial_pkg.connectors.postgres.options import FORMAT
from tutorial_pkg.core.worker import cores

FIRST_DAY, END_DAY = -719_162, 2_932_897  # 0001-01-01 and 10000-01-01, from 1970 on
FITTING = r"^-?[0-9]{1,20}(\.[0-9]+)?$"  # in DECIMAL(38,18); Arrow overlooks larger ones
# What the client takes for numbers: cents, and those that do not fit as negative ones.
NO_NUMBERS = {b"money", b"_money", b"oid", b"_oid"}
SAMPLED_PAGES = 2000  # of 8 kB: some ten milliseconds, and enough to cut a table into fair parts

# ---- Rows ----------------------------------------------------------------------------------------


def source_of(options: OptionValues) -> sql.Composable:
    """The table, or the query in brackets. Raises `ValueError`."""
    if (options.table is None) == (options.query is None):
        raise ValueError(f"format `{FORMAT}`: give one of the options `table` and `query`")
    if options.table:
        return cast(sql.Composable, options.table.sql)
    return sql.SQL("({})").format(sql.SQL(cast(LiteralString, options.query)))


def table_schema(options: OptionValues) -> StructType:
    """That of the table or query. Raises `ValueError`."""
    with connect(options) as connection:
        return schema_of(connection, source_of(options))


def arrow_rows(
    options: OptionValues, source: sql.Composable, schema: StructType, where: sql.Composable
) -> Iterator[pa.RecordBatch]:
    """The rows of `source`, in batches of some megabytes, one in memory at a time.

    Raises `ValueError` that names the column whose value Spark's type cannot hold.
    """
    packer = RowPacker(schema)
    decimals = RowPacker(StructType([field for field in schema if _has_decimals(field.dataType)]))
    text = sql.SQL("SELECT {} FROM {} AS source WHERE {}").format(selected(schema), source, where)
    with connect(options) as connection:  # ADBC cannot wait by itself
        address = _with_names_as_they_are(connection, conninfo(options))
    with closing(adbc.connect(address)) as database, database.cursor() as cursor:
        cursor.execute(settings(options))
        cursor.fetchall()
        cursor.execute(text.as_string())
        for batch in cursor.fetch_record_batch():
            _check(batch, schema)
            yield _fitted(batch.select(schema.names), packer, decimals)


def _with_names_as_they_are(connection: Connection, address: str) -> str:
    """The address for ADBC, which asks for the types' names before it can be told any setting.

    It would not know them in quotes, and take a number's bytes for text. Elsewhere the address
    stays as it is: a pooler may refuse `options`.
    """
    look = "SELECT reset_val = 'on' FROM pg_settings WHERE name = 'quote_all_identifiers'"
    if connection.execute(look).fetchone() != (True,):
        return address
    given = {option.keyword: option.val or b"" for option in connection.pgconn.info}
    return make_conninfo(
        address, options=f"{given[b'options'].decode()} -c quote_all_identifiers=off"
    )


def _has_decimals(kind: DataType) -> bool:
    return isinstance(kind.elementType if isinstance(kind, ArrayType) else kind, DecimalType)


def _fitted(batch: pa.RecordBatch, packer: RowPacker, decimals: RowPacker) -> pa.RecordBatch:
    """Decimals come as texts."""
    names = decimals.schema.names
    try:
        for name, array in zip(names, decimals.fit(batch.select(names), strict=False), strict=True):
            batch = batch.set_column(batch.schema.get_field_index(name), name, array)
        return packer.fit(batch)
    except ValueError as error:
        again = "if the table was altered since this query was started, start it again"
        raise ValueError(f"{error} ({again})") from None


def _check(batch: pa.RecordBatch, schema: StructType) -> None:
    """What neither PostgreSQL's client nor Arrow notices. Raises `ValueError` with the column."""
    nested = pc.drop_null(batch.column(NESTED)) if NESTED in batch.schema.names else []
    if len(nested):
        raise ValueError(
            f"column `{nested[0]}` has an array of several dimensions, and an ARRAY of Spark has "
            "one; read it as text, by a `query`"
        )
    for field in schema:
        array = batch.column(field.name)
        postgres = (batch.schema.field(field.name).metadata or {}).get(b"POSTGRESQL:type")
        if postgres in NO_NUMBERS:
            raise ValueError(
                f"column `{field.name}` is a {postgres.decode()}, which is read as STRING; if the "
                "table was altered since this query was started, start it again"
            )
        kind = field.dataType
        if isinstance(kind, ArrayType):
            array, kind = array.flatten(), kind.elementType
        if kind == ANY_NUMERIC and not _all(pc.match_substring_regex(array, FITTING)):
            raise ValueError(
                f"column `{field.name}` has a number that DECIMAL(38,18) cannot hold; read it as "
                "text or as another numeric(precision, scale), by a `query`"
            )
        if pa.types.is_temporal(array.type) and not _all(_in_years(array)):
            raise ValueError(
                f"column `{field.name}` has a time that Spark cannot hold: infinity, or not in "
                "the years 1 to 9999; leave such rows out, or read it as text, by a `query`"
            )


def _all(holds: pa.Array) -> bool:
    return pc.all(holds).as_py() is not False  # None where there are no values


def _in_years(array: pa.Array) -> pa.Array:
    """`infinity` comes as some year far away."""
    day = 1 if pa.types.is_date32(array.type) else 86_400_000_000
    units = array.view(pa.int32() if day == 1 else pa.int64())
    first, end = pa.scalar(FIRST_DAY * day, units.type), pa.scalar(END_DAY * day, units.type)
    return pc.and_(pc.greater_equal(units, first), pc.less(units, end))


# ---- Ranges --------------------------------------------------------------------------------------

Range = tuple[str | None, str | None]  # from a key up to, but without, another; None is no bound


def ranges(options: OptionValues) -> list[Range]:
    """Keys that cut the rows into equal parts, however the keys are spread: quantiles.

    Only some pages of a table are looked at. Rows with one and the same key stay together. They are
    planned in the driver, once: if each task did it by itself, two of them might cut a table that
    is being written to in different places.
    """
    parts = options.parallelism or cores()
    if options.key is None or parts == 1:
        return [(None, None)]
    shares = [part / parts for part in range(1, parts)]
    text = """SELECT percentile_disc({shares}::float8[]) WITHIN GROUP (ORDER BY {key})::text[]
        FROM {source} AS source {sample} WHERE {key} IS NOT NULL"""
    key, source = sql.Identifier(options.key), source_of(options)
    with connect(options) as connection:
        query = sql.SQL(text).format(
            shares=sql.Literal(shares), key=key, source=source, sample=_sample(connection, options)
        )
        [found] = connection.execute(query).fetchone() or [None]
    bounds = [None, *dict.fromkeys(found or []), None]
    return list(itertools.pairwise(bounds))


def _sample(connection: Connection, options: OptionValues) -> sql.Composable:
    if options.table is None:
        return sql.SQL("")
    look = "SELECT relkind, pg_relation_size(oid) / 8192 FROM pg_class WHERE oid = %s::regclass"
    name = options.table.quoted
    [kind, pages] = connection.execute(look, [name]).fetchone() or ["", 0]
    if kind not in ("r", "m") or pages <= SAMPLED_PAGES:  # tables and materialised views
        return sql.SQL("")
    return sql.SQL("TABLESAMPLE SYSTEM ({})").format(sql.Literal(100 * SAMPLED_PAGES / pages))


def within(key: str | None, part: Range) -> sql.Composable:
    """The condition for the rows of a range."""
    low, high = part
    if key is None or part == (None, None):
        return sql.SQL("true")
    above = sql.SQL("{} >= {}").format(sql.Identifier(key), sql.Literal(low))
    below = sql.SQL("{} < {}").format(sql.Identifier(key), sql.Literal(high))
    if low is None:  # the first range has the rows without a key, too
        return sql.SQL("({} OR {} IS NULL)").format(below, sql.Identifier(key))
    return above if high is None else sql.SQL("{} AND {}").format(above, below)
