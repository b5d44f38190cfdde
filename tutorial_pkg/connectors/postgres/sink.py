"""The sink. Each task stages its rows in a table of its own, with COPY. One transaction inserts the
rows of all stages and records the batch in `spark_batches`. Then the stages are dropped.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import LiteralString, cast

import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql.types import VariantType

from tutorial_pkg.builder import (
    BatchContext,
    OptionValues,
    SinkBuilder,
    SinkContext,
    TargetContext,
)
from tutorial_pkg.connectors.arrow_columns import holds
from tutorial_pkg.connectors.postgres import connection as pg
from tutorial_pkg.connectors.postgres.csv_copy import csv_of
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE, Table
from tutorial_pkg.core.batch_order import is_repeated

RECORDS = "spark_batches"
# The lock, until the end of this transaction, is for two queries that start together.
CREATE_RECORDS = """SELECT pg_advisory_xact_lock(hashtext('spark_batches'));
    CREATE TABLE IF NOT EXISTS {} (query text, target text, batch bigint, rows bigint,
        written timestamptz DEFAULT now(), PRIMARY KEY (query, target))"""
TYPES = psycopg.adapters.types
JSON = (TYPES["json"].oid, TYPES["jsonb"].oid)


@dataclass(frozen=True)
class Staged:
    """A task's report: its table, and the columns in it."""

    table: str
    columns: tuple[str, ...]
    rows: int


class Stage:
    """The rows of one task, in a separate table.

    The table is UNLOGGED, which halves the writing. A crash of the server empties it; `publish`
    detects that.
    """

    def __init__(self, context: SinkContext) -> None:
        self._options, self._target = context.options, context.options.table
        self._name = f"{stage_prefix(context.query)}{uuid.uuid4().hex}"
        self._columns: tuple[str, ...] = ()
        self._rows = 0
        self._connected, self._copying = contextlib.ExitStack(), contextlib.ExitStack()

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        key = set(self._options.key or ()) & set(batch.schema.names)
        if nulls := sorted(name for name in key if batch.column(name).null_count):
            raise ValueError(  # in a unique index, no null equals another
                f"key columns {nulls} contain nulls, and rows with a null would never replace "
                "others: filter them out, or use `coalesce`"
            )
        with pg.locks_in_time(self._options), self._naming_columns():
            if not self._columns:
                self._begin(batch.schema)
            self._copy.write(csv_of(batch, self._json))
        self._rows += batch.num_rows

    def flush(self) -> Staged | None:
        """Finish the COPY. Return None if there were no rows."""
        with self._naming_columns():
            self._copying.close()
        return Staged(self._name, self._columns, self._rows) if self._rows else None

    def close(self) -> None:
        self._connected.close()

    def _begin(self, schema: pa.Schema) -> None:
        """Create the stage with the target's types: the database converts and checks values."""
        connection = pg.connect(self._options)
        self._connected.callback(connection.close)  # leaving a `with` would wait for the COPY
        stage = self._target.beside(self._name).sql
        empty = sql.SQL("SELECT {} FROM {} LIMIT 0").format(columns(schema.names), self._target.sql)
        described = connection.execute(empty).description or []
        self._json = [column.name for column in described if column.type_code in JSON]
        connection.execute(sql.SQL("CREATE UNLOGGED TABLE {} AS {}").format(stage, empty))
        # FREEZE makes `publish` a third faster. It requires a table that was created or emptied in
        # the same transaction.
        self._copying.enter_context(connection.transaction())
        connection.execute(sql.SQL("TRUNCATE {}").format(stage))
        copy = sql.SQL("COPY {} FROM STDIN (FORMAT csv, FREEZE)").format(stage)
        self._copy = self._copying.enter_context(connection.cursor().copy(copy))
        self._columns = tuple(schema.names)

    @contextlib.contextmanager
    def _naming_columns(self) -> Iterator[None]:
        """Raise `ValueError` with the column's name for a value that the database refuses."""
        try:
            yield
        except psycopg.DataError as error:
            where = re.search(r", column (.+?)(?:: |$)", error.diag.context or "", re.MULTILINE)
            column = f"column `{where[1]}` of " if where else ""
            text = f"{column}table `{self._target}`: {error.diag.message_primary}"
            raise ValueError(text) from None


def stage_prefix(query: str) -> str:
    """Return how the names of a query's stages start; a name can have 63 characters."""
    return f"spark_stage_{query.replace('-', '')[:12]}_"


def columns(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def publish(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    """Insert all rows and record the batch in one transaction; do nothing for a repeated batch.

    A batch write has no record, so it must not be repeated when its commit may have succeeded.
    """
    options, stages = context.options, [stage for stage in staged if stage]
    rows = sum(stage.rows for stage in stages)
    if context.streaming and not stages:
        return
    try:
        with pg.connect(options) as connection, pg.locks_in_time(options):
            if context.streaming:
                connection.execute(
                    sql.SQL(CREATE_RECORDS).format(options.table.beside(RECORDS).sql)
                )
            with connection.transaction():
                if context.overwrite and not context.streaming:
                    connection.execute(sql.SQL("TRUNCATE {}").format(options.table.sql))
                if stages and (not context.streaming or _record(connection, context, rows)):
                    _insert(connection, options, stages)
            _drop_stages(connection, options.table, context.query)
    except psycopg.OperationalError as error:
        if context.streaming:  # the builder repeats this function
            raise
        raise ConnectionError(f"the connection broke while committing: {error}") from None


def discard(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    with pg.connect(context.options) as connection:
        _drop_stages(connection, context.options.table, context.query)


def _record(connection: pg.Connection, context: BatchContext, rows: int) -> bool:
    """Record that this batch is done. Return False if it is a repeated one.

    The row is locked until the transaction ends, so two drivers of one query wait for each other
    here.
    """
    upsert = """INSERT INTO {} AS known (query, target, batch, rows) VALUES ({}, {}, {}, {})
        ON CONFLICT (query, target) DO UPDATE
        SET batch = excluded.batch, rows = excluded.rows, written = now()
        WHERE known.batch < excluded.batch"""
    target = context.options.table
    records, key = target.beside(RECORDS).sql, (context.query, pg.resolve(connection, target)[1])
    # Values are literals: with parameters, a % in a schema's name would be a placeholder.
    if connection.execute(sql.SQL(upsert).format(records, *key, context.batch, rows)).rowcount:
        return True
    select = sql.SQL("SELECT batch, rows FROM {} WHERE query = {} AND target = {}")
    [last, known_rows] = next(connection.execute(select.format(records, *key)))
    return not is_repeated(f"table `{target}`", context.batch, last, known_rows == rows)


def _insert(connection: pg.Connection, options: OptionValues, stages: list[Staged]) -> None:
    for stage in stages:
        filled = sql.SQL("SELECT EXISTS (SELECT FROM {})")
        name = options.table.beside(stage.table).sql
        if connection.execute(filled.format(name)).fetchone() != (True,):
            raise RuntimeError(
                "the server crashed and emptied the staged rows; nothing of this batch was "
                "published. Start the query again: Spark repeats the batch"
            )
    try:
        connection.execute(insert_statement(options, stages))
    except psycopg.errors.CardinalityViolation:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(options.key)}), and their "
            "order is unknown; keep one per key: aggregate, or use dropDuplicates"
        ) from None


def insert_statement(options: OptionValues, stages: list[Staged]) -> sql.Composed:
    """Return one statement for all stages, so that a key in two of them is an error."""
    names = stages[0].columns
    select = sql.SQL("SELECT {} FROM {}")
    rows = sql.SQL(" UNION ALL ").join(
        select.format(columns(names), options.table.beside(stage.table).sql) for stage in stages
    )
    insert = sql.SQL("INSERT INTO {} AS old ({}) {}")
    append = insert.format(options.table.sql, columns(names), rows)
    if options.mode == "append":
        return append
    if options.mode == "merge":
        changes: sql.Composable = sql.SQL(cast(LiteralString, options.merge))
    else:
        new = [name for name in names if name not in options.key] or list(options.key)
        assign = sql.SQL("{0} = excluded.{0}")
        changes = sql.SQL(", ").join(assign.format(sql.Identifier(name)) for name in new)
    # Sorted by key: two queries that lock the same rows wait for each other without a deadlock.
    upsert = sql.SQL("{} ORDER BY {} ON CONFLICT ({}) DO UPDATE SET {}")
    return upsert.format(append, columns(options.key), columns(options.key), changes)


def _drop_stages(connection: pg.Connection, target: Table, query: str) -> None:
    """Drop all stages of this query, including those of killed tasks."""
    look = """SELECT relname FROM pg_class WHERE starts_with(relname, %s)
        AND relnamespace = coalesce(%s, quote_ident(current_schema()))::regnamespace"""
    schema = sql.Identifier(target.parts[0]).as_string() if target.parts[1:] else None
    stages = connection.execute(look, [stage_prefix(query), schema]).fetchall()
    connection.execute("SET lock_timeout = '2s'")
    drop = sql.SQL("DROP TABLE IF EXISTS {}")
    for (name,) in stages:
        # A task that is still writing has locked its stage; the next batch drops it.
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(drop.format(target.beside(name).sql))


def check(context: TargetContext) -> None:
    """Raise `ValueError` for options that contradict each other, and for unsupported columns."""
    options, problem = context.options, ""
    variants = [field.name for field in context.schema if holds(field.dataType, (VariantType,))]
    needed = {"table": True, "key": options.mode != "append", "merge": options.mode == "merge"}
    for name, is_needed in needed.items():
        if (options[name] is not None) != is_needed:
            problem = f"option `{name}` is {'missing' if is_needed else 'not for this mode'}"
    if variants:
        problem = f"column `{variants[0]}` contains a VARIANT; convert it with `to_json`"
    if context.streaming and context.overwrite and options.mode != "upsert":
        problem = "the output mode `complete` repeats all rows, so it needs mode=upsert and a `key`"
    if problem:
        raise ValueError(f"format `{FORMAT}`: {problem}; got mode={options.mode}")


sink = (
    SinkBuilder.stream(FORMAT, create=Stage)
    .retry(transient=pg.is_transient, option="waitSeconds")
    .receive_batch(Stage.receive_batch)
    .flush(Stage.flush)
    .destroy(Stage.close)
    .commit(publish)
    .abort(discard)
    .check(check)
    .also_batch()
    .also_overwrite()
    .options(*WRITE)
    .build()
)
