"""Source for batches, in parallel ranges of a key, and for a stream of inserted rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import LiteralString, cast

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from psycopg import sql
from pyspark.sql.types import IntegralType, StructType

from tutorial_pkg.builder import OptionValues, SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.postgres import connection as pg
from tutorial_pkg.connectors.postgres.columns import exact_columns, fit, schema_of, select_list
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.core.worker import cores

BEGIN = -(2**63)  # not the smallest key at first: a transaction may still commit a smaller one
LOOK_SECONDS = 1.0  # how long a look waits for writers; the next look continues
PAUSE_SECONDS = 0.02
PREPARED = "-1/"  # how the id of a transaction without a session starts: see PREPARE TRANSACTION
SAMPLED_PAGES = 2000  # of 8 kB: takes some ten milliseconds, and gives fair ranges
OPERATORS = {"IN": "{} IN ({})", "IS NULL": "{} IS NULL", "IS NOT NULL": "{} IS NOT NULL"}


def source_of(options: OptionValues) -> sql.Composable:
    """Return the table, or the query in brackets. Raises `ValueError`."""
    if (options.table is None) == (options.query is None):
        raise ValueError(f"format `{FORMAT}`: set one of the options `table` and `query`")
    if options.table:
        return cast(sql.Composable, options.table.sql)
    return sql.SQL("({})").format(sql.SQL(cast(LiteralString, options.query)))


def table_schema(options: OptionValues) -> StructType:
    with pg.connect(options) as database:
        return schema_of(database, source_of(options))


def arrow_rows(
    options: OptionValues, source: sql.Composable, schema: StructType, where: sql.Composable
) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of some megabytes. Raises `ValueError` for values that don't fit."""
    text = sql.SQL("SELECT {} FROM {} AS source WHERE {}")
    statement = text.format(select_list(schema), source, where).as_string()
    pg.connect(options).close()  # waits for the database, which ADBC can't
    with closing(adbc.connect(pg.conninfo(options))) as database, database.cursor() as cursor:
        cursor.execute(pg.settings(options))
        cursor.fetchall()
        cursor.execute(statement)
        for batch in cursor.fetch_record_batch():
            yield fit(batch, schema)


def ranges(
    database: pg.Connection, options: OptionValues, wanted: sql.Composable
) -> list[sql.Composable]:
    """Return conditions that cut the wanted rows into parts of about equal size, by the key.

    The first one includes the rows without a key.
    """
    parts = options.parallelism or cores()
    if options.key is None or parts == 1:
        return [wanted]
    text = """SELECT percentile_disc({shares}::float8[]) WITHIN GROUP (ORDER BY {key})::text[]
        FROM {source} AS source {sample} WHERE {wanted} AND {key} IS NOT NULL"""
    key, source = sql.Identifier(options.key), source_of(options)
    shares = sql.Literal([part / parts for part in range(1, parts)])
    sample = _sample(database, options)
    query = sql.SQL(text).format(
        shares=shares, key=key, source=source, sample=sample, wanted=wanted
    )
    [bounds] = database.execute(query).fetchone() or [None]
    bounds = [sql.Literal(bound) for bound in dict.fromkeys(bounds or [])]
    if not bounds:
        return [wanted]
    conditions = [
        sql.SQL("({0} < {1} OR {0} IS NULL)").format(key, bounds[0]),
        *(
            sql.SQL("{} >= {} AND {} < {}").format(key, low, key, high)
            for low, high in pairwise(bounds)
        ),
        sql.SQL("{} >= {}").format(key, bounds[-1]),
    ]
    return [sql.SQL("{} AND {}").format(wanted, condition) for condition in conditions]


def _sample(database: pg.Connection, options: OptionValues) -> sql.Composable:
    """Return a clause for large tables and materialized views."""
    look = """SELECT pg_relation_size(oid) / 8192 FROM pg_class
        WHERE oid = %s::regclass AND relkind IN ('r', 'm')"""
    sizes = database.execute(look, [options.table.quoted]) if options.table else ()
    [pages] = next(iter(sizes), [0])
    if pages <= SAMPLED_PAGES:
        return sql.SQL("")
    return sql.SQL("TABLESAMPLE SYSTEM ({})").format(sql.Literal(100 * SAMPLED_PAGES / pages))


def _all_of(context: SplitContext) -> sql.Composable:
    """Return the condition that all filters hold, as far as the server compares as Spark does."""
    conditions: list[sql.Composable] = [sql.SQL("true")]
    exact = set[str]()
    if context.filters:
        source, database = source_of(context.options), context.connection.database
        exact = exact_columns(database, source, context.schema)
    for column, operator, value in context.filters:
        if column in exact:
            values = value if operator == "IN" else [value]
            text = OPERATORS.get(operator, f"{{}} {operator} {{}}")
            literals = sql.SQL(", ").join(map(sql.Literal, values))
            conditions.append(sql.SQL(text).format(sql.Identifier(column), literals))
    return sql.SQL(" AND ").join(conditions)


def _end(database: pg.Connection, options: OptionValues) -> int:
    """Return the position after the largest key."""
    text = sql.SQL("SELECT max({}) FROM {}").format(sql.Identifier(options.key), options.table.sql)
    [largest] = database.execute(text).fetchone() or [None]
    return BEGIN if largest is None else largest + 1


def _end_without_writers(context: SplitContext) -> int | None:
    """Return the position after the largest key, or None while smaller keys may still appear.

    A transaction that has taken a smaller key locks the table for writing, from before it took the
    key until it ends. Transactions that start later take larger keys. So look up the end, then the
    writers, and wait until these have ended; the next look continues waiting for the same ones.
    """
    options, watch = context.options, context.connection
    if watch.waiting is None:
        _check_writers_are_visible(watch.database, options)
        watch.waiting = _end(watch.database, options), _writers(watch.database, options)
    end, writers = watch.waiting
    deadline = time.monotonic() + (options.waitSeconds if context.draining else LOOK_SECONDS)
    while writers and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
        writers = still_open(writers, _writers(watch.database, options))
    watch.waiting = (end, writers) if writers else None
    if writers and context.draining:  # there is no other look
        raise TimeoutError(
            f"a transaction has been writing to `{options.table}` for more than "
            f"{options.waitSeconds} s (option `waitSeconds`), and until it ends, rows may be "
            "missing; see the view `pg_stat_activity`"
        )
    return None if writers else end


def still_open(writers: set[str], now: set[str]) -> set[str]:
    """Return the writers that are still open, and all prepared ones: their ids have changed."""
    return writers & now | {writer for writer in now if writer.startswith(PREPARED)}


def _writers(database: pg.Connection, options: OptionValues) -> set[str]:
    """Return the transactions that write to the table, its partitions or its ancestors.

    Writers to an ancestor of a partition lock it only after they have taken a key.
    """
    text = """WITH RECURSIVE tables AS (SELECT %s::regclass::oid AS oid
            UNION SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid)
        SELECT virtualtransaction FROM pg_locks WHERE granted
        AND relation IN (SELECT oid FROM tables
            UNION SELECT relid FROM pg_partition_ancestors(%s::regclass))
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()"""
    rows = database.execute(text, [options.table.quoted] * 2)
    return {transaction for (transaction,) in rows}


def _check_writers_are_visible(database: pg.Connection, options: OptionValues) -> None:
    """Raise `ValueError` for views and standbys: their locks don't show the writers."""
    text = """SELECT relkind IN ('r', 'p') AND NOT pg_is_in_recovery() FROM pg_class
        WHERE oid = %s::regclass"""
    if database.execute(text, [options.table.quoted]).fetchone() != (True,):
        raise ValueError(
            "with `awaitWriters`, `table` must be a table, not a view, and `url` the primary "
            "server, not a standby: only there the open transactions are visible"
        )


def _between(options: OptionValues, start: int, end: int) -> sql.Composable:
    """Return the condition; `end` itself can be 2⁶³, which isn't a BIGINT."""
    text = sql.SQL("{} BETWEEN {}::bigint AND {}::bigint")
    return text.format(sql.Identifier(options.key), str(start), str(end - 1))


def _check_stream(context: SplitContext) -> None:
    """Raise `ValueError` for options that don't describe a stream."""
    options, types = context.options, {field.name: field.dataType for field in context.schema}
    if options.table is None or not isinstance(types.get(options.key), IntegralType):
        raise ValueError(
            "a stream needs a `table`, and a `slot` for changes or a `key` for inserted rows: one "
            f"of the columns {[*types]} with whole numbers; got key={options.key!r}"
        )


class Watch:
    """A connection and, in a stream, the open transactions that the last look waited for."""

    def __init__(self, options: OptionValues) -> None:
        self.database = pg.connect(options)
        self.waiting: tuple[int, set[str]] | None = None  # the end to return then; transactions

    def close(self) -> None:
        self.database.close()


def look(context: SplitContext) -> dict[str, Split]:
    """Return the ranges of a batch, or the table of a stream with its next unread key."""
    options, database = context.options, context.connection.database
    with pg.locks_in_time(options):
        if context.batch:
            oid = str(pg.resolve(database, options.table)[0]) if options.table else ""
            parts = enumerate(ranges(database, options, _all_of(context)))
            return {f"range {n}": Split(0, 1, oid, part.as_string()) for n, part in parts}
        _check_stream(context)
        offset = context.offset or {}
        start = max(map(int, offset.values()), default=BEGIN)
        end = _end_without_writers(context) if options.awaitWriters else _end(database, options)
        oid = str(pg.resolve(database, options.table)[0])  # later than `end`, which belongs to it
        name = next(iter(offset), str(options.table))  # as the checkpoint spells it
        return {name: Split(start, start if end is None else max(start, end), oid)}


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    """Return the key of the first row that is too many; a key's rows stay together."""
    if rows is None:
        return end
    options = context.options
    text = """SELECT min({0}), max({0}), count(*) FROM (
        SELECT {0} FROM {1} WHERE {2} ORDER BY {0} LIMIT {3}) AS first"""
    key, where = sql.Identifier(options.key), _between(options, start, end)
    query = sql.SQL(text).format(key, options.table.sql, where, sql.Literal(rows + 1))
    [least, largest, count] = next(context.connection.database.execute(query))
    return max(int(largest), int(least) + 1) if count > rows else end


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options = context.options
    if context.identity:  # after a restart, Spark repeats a batch without a look
        oid, _ = pg.resolve(context.connection.database, options.table)
        if context.identity != str(oid):
            context.lost(f"table `{options.table}` was dropped and re-created")
            return
    where = sql.SQL(context.payload) if context.batch else _between(options, start, end)
    yield from arrow_rows(options, source_of(options), context.schema, where)


source = (
    SourceBuilder.replayable(FORMAT, table_schema, look=look, read=read)
    .connect(Watch)
    .close(Watch.close)
    .bound(bound)
    .retry(transient=pg.is_transient, option="waitSeconds")
    .options(*READ)
    .build()
)
