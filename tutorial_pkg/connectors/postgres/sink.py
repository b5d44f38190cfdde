"""Rows into a table: tasks stage them, and one transaction publishes them with the batch's number.

A row's way: `Stage` (COPY into a table of the task's own) → `publish` (INSERT from the stages, and
the note that this batch is done) → readers; then the stages are dropped.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
import pyarrow as pa
from psycopg import sql

from tutorial_pkg.builder import (
    BatchContext,
    OptionValues,
    SinkBuilder,
    SinkContext,
    TargetContext,
)
from tutorial_pkg.connectors.postgres.connection import Connection, connect, persistent
from tutorial_pkg.connectors.postgres.csv_copy import csv_of
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE, Table

NOTES = "spark_batches"
NOTES_COLUMNS = """query text, target text, batch bigint, rows bigint,
    written timestamptz DEFAULT now(), PRIMARY KEY (query, target)"""

# ---- In the tasks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Staged:
    """What a task has staged: so many rows, with some of the target's columns."""

    table: str
    columns: tuple[str, ...]
    rows: int


class Stage:
    """One task's rows, in a table of its own.

    It is UNLOGGED: half the writing. A server that crashes empties it, and `publish` notices.
    """

    def __init__(self, context: SinkContext) -> None:
        self._target = context.options.table
        self._name = f"{stage_prefix(context.query)}{uuid.uuid4().hex}"
        self._columns: tuple[str, ...] = ()
        self._rows = 0
        self._options = context.options
        self._connected, self._copying = contextlib.ExitStack(), contextlib.ExitStack()

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if not self._columns:
            self._begin(tuple(batch.schema.names))
        self._copy.write(csv_of(batch))
        self._rows += batch.num_rows

    def flush(self) -> Staged | None:
        """`None` for a task without rows."""
        self._copying.close()
        return Staged(self._name, self._columns, self._rows) if self._rows else None

    def close(self) -> None:
        self._connected.close()

    def _begin(self, names: tuple[str, ...]) -> None:
        """The target's columns with their types: the database converts, and says what is wrong."""
        connection = self._connected.enter_context(connect(self._options))
        stage = self._target.beside(self._name).sql
        like = "CREATE UNLOGGED TABLE {} AS SELECT {} FROM {} WITH NO DATA"
        connection.execute(sql.SQL(like).format(stage, columns(names), self._target.sql))
        copy = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(stage)
        self._copy = self._copying.enter_context(connection.cursor().copy(copy))
        self._columns = names


def stage_prefix(query: str) -> str:
    """What the names of a query's stages begin with: short, as names have 63 letters."""
    return f"spark_stage_{query.replace('-', '')[:12]}_"


def columns(names: Iterable[str]) -> sql.Composed:
    """A list for SELECT or INSERT."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    """All rows and the note in one transaction: both are there, or none. May be repeated.

    A job is never repeated by Spark, so it has no number to note, and must not be tried again.
    """
    stages = [each for each in staged if each]
    if not context.streaming:
        with connect(context.options) as connection:
            _publish(connection, context, stages)
    elif stages:
        persistent(context.options, lambda connection: _publish(connection, context, stages))


def discard(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    """The batch has failed: remove what its tasks have staged."""
    target = context.options.table
    persistent(context.options, lambda connection: _sweep(connection, target, context.query))


def _publish(connection: Connection, context: BatchContext, stages: list[Staged]) -> None:
    target = context.options.table
    notes = target.beside(NOTES)
    if context.streaming:
        _make_notes(connection, notes)
    with connection.transaction():
        if not context.streaming and context.overwrite:
            connection.execute(sql.SQL("TRUNCATE {}").format(target.sql))
        rows = sum(stage.rows for stage in stages)
        if stages and (not context.streaming or _note(connection, notes, context, rows)):
            _insert(connection, context.options, stages)
    _sweep(connection, target, context.query)


def _make_notes(connection: Connection, notes: Table) -> None:
    """Looked for first: to create what is there already takes a right that a role may lack."""
    if connection.execute("SELECT to_regclass(%s)", [notes.sql.as_string()]).fetchone() == (None,):
        make = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})")
        # Another query may make it at this very moment; then it is there.
        with contextlib.suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            connection.execute(make.format(notes.sql, sql.SQL(NOTES_COLUMNS)))


def _note(connection: Connection, notes: Table, context: BatchContext, rows: int) -> bool:
    """Write down that this batch is done; False if that is written already.

    Two drivers of one query, one of them given up for dead, wait here for each other.
    """
    text = """INSERT INTO {} AS noted (query, target, batch, rows) VALUES (%s, %s, %s, %s)
        ON CONFLICT (query, target) DO UPDATE
        SET batch = excluded.batch, rows = excluded.rows, written = now()
        WHERE noted.batch < excluded.batch"""
    values = [context.query, str(context.options.table), context.batch, rows]
    if connection.execute(sql.SQL(text).format(notes.sql), values).rowcount:
        return True
    found = sql.SQL("SELECT batch, rows FROM {} WHERE query = %s AND target = %s").format(notes.sql)
    _check_repeated(context, rows, connection.execute(found, values[:2]).fetchone())
    return False


def _check_repeated(context: BatchContext, rows: int, noted: Any) -> None:
    """A batch comes again after a crash: with the same number, and as many rows."""
    if noted != (context.batch, rows):
        raise RuntimeError(
            f"table `{context.options.table}` has batch {noted[0]} of this query with {noted[1]} "
            f"rows, and batch {context.batch} comes with {rows}: its checkpoint was set back. "
            "Written again, rows might be there twice; left out, some might be missing. Compare, "
            f"then start with a new checkpoint, or correct the query's row in `{NOTES}`"
        )


def _check_stages(connection: Connection, target: Table, stages: list[Staged]) -> None:
    """A crash of the server empties them wholly, or leaves them as they were."""
    for stage in stages:
        look = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(target.beside(stage.table).sql)
        if connection.execute(look).fetchone() != (True,):
            raise RuntimeError(
                "the server has crashed after rows were staged, and before they were published: "
                "nothing of this batch was written. Start the query again; the batch is repeated"
            )


def _insert(connection: Connection, options: OptionValues, stages: list[Staged]) -> None:
    _check_stages(connection, options.table, stages)
    try:
        connection.execute(insert_statement(options, stages))
    except psycopg.errors.CardinalityViolation:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(options.key)}), and nothing "
            "says which of them comes last; leave one for each: aggregate, or dropDuplicates"
        ) from None


def insert_statement(options: OptionValues, stages: list[Staged]) -> sql.Composed:
    """One statement for all stages, so that a key that is in two of them is noticed."""
    target, names = options.table, columns(stages[0].columns)
    each = sql.SQL("SELECT {} FROM {}")
    rows = [each.format(names, target.beside(stage.table).sql) for stage in stages]
    insert = sql.SQL("INSERT INTO {} AS old ({}) {}")
    added = insert.format(target.sql, names, sql.SQL(" UNION ALL ").join(rows))
    if options.mode == "append":
        return added
    key = columns(options.key)
    # In the order of keys: two queries that lock the same rows wait, and do not block each other.
    on_conflict = sql.SQL("{} ORDER BY {} ON CONFLICT ({}) DO UPDATE SET {}")
    return on_conflict.format(added, key, key, _assignments(options, stages[0].columns))


def _assignments(options: OptionValues, names: Sequence[str]) -> sql.Composable:
    if options.mode == "merge":
        return sql.SQL(cast(LiteralString, options.merge))  # code, as `query` is
    others = [name for name in names if name not in options.key] or list(options.key)
    each = sql.SQL("{0} = excluded.{0}")
    return sql.SQL(", ").join(each.format(sql.Identifier(name)) for name in others)


def _sweep(connection: Connection, target: Table, query: str) -> None:
    """Drop all stages of this query, also those that killed tasks have left."""
    look = """SELECT relname FROM pg_class WHERE starts_with(relname, %s)
        AND relnamespace = coalesce(%s::regnamespace, current_schema()::regnamespace)"""
    schema = sql.Identifier(target.parts[0]).as_string() if target.parts[1:] else None
    found = connection.execute(look, [stage_prefix(query), schema]).fetchall()
    if found:
        stages = sql.SQL(", ").join(target.beside(name).sql for (name,) in found)
        connection.execute("SET lock_timeout = '2s'")
        # A task that still writes holds its table: then the next batch drops it.
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stages))


# ---- The sink ------------------------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Raises `ValueError` for options that do not go together."""
    options = context.options
    if options.table is None:
        raise ValueError(f"format `{FORMAT}`: option `table` is missing; name the table to write")
    for name, modes in (("key", ("upsert", "merge")), ("merge", ("merge",))):
        given, wanted = options[name] is not None, options.mode in modes
        if given != wanted:
            raise ValueError(
                f"format `{FORMAT}`: option `{name}` "
                f"{'is only for' if given else 'is missing; it is needed for'} "
                f"mode={' and mode='.join(modes)}, got mode={options.mode}"
            )
    if context.streaming and context.overwrite and options.mode != "upsert":
        raise ValueError(
            f"format `{FORMAT}`: the output mode `complete` brings all rows again with each batch, "
            f"so it needs mode=upsert and a `key`, got mode={options.mode}"
        )


sink = (
    SinkBuilder.stream(FORMAT, create=Stage)
    .retry(seconds=0)  # it waits by itself
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
