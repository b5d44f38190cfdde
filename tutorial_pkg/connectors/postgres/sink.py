"""Rows into a table: tasks stage them, and one transaction publishes them with the batch's number.

A row's way: `Stage` (COPY into a table of the task's own) → `publish` (INSERT from the stages, and
the note that this batch is done) → readers; then the stages are dropped.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tutorial_pkg.builder import SinkBuilder
from tutorial_pkg.builder.context import (
    BatchContext,
    SinkContext,
)
from tutorial_pkg.connectors.postgres.connection import (
    Connection,
    connect,
    connected,
    persistent,
)
from tutorial_pkg.connectors.postgres.csv_copy import csv_of
from tutorial_pkg.connectors.postgres.names import Table, columns, table_of
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE, WRITE_OPTIONS, declare
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.worker import settle, this_task

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
        self._target = table_of(context.options.table)
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
        connection = self._connected.enter_context(contextlib.closing(connect(self._options)))
        stage = self._target.beside(self._name).sql
        like = "CREATE UNLOGGED TABLE {} AS SELECT {} FROM {} WITH NO DATA"
        connection.execute(sql.SQL(like).format(stage, columns(names), self._target.sql))
        copy = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(stage)
        self._copy = self._copying.enter_context(connection.cursor().copy(copy))
        self._columns = names


def stage_prefix(query: str) -> str:
    """What the names of a query's stages begin with: short, as names have 63 letters."""
    return f"spark_stage_{query.replace('-', '')[:12]}_"


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    """All rows and the note in one transaction: both are there, or none. May be repeated."""
    stages = [each for each in staged if each]
    if stages:
        persistent(context.options, lambda connection: _publish(connection, context, stages))


def discard(context: BatchContext, staged: Sequence[Staged | None]) -> None:
    """The batch has failed: remove what its tasks have staged."""
    target = table_of(context.options.table)
    persistent(context.options, lambda connection: _sweep(connection, target, context.query))


def _publish(connection: Connection, context: BatchContext, stages: list[Staged]) -> None:
    target = table_of(context.options.table)
    notes = target.beside(NOTES)
    _make_notes(connection, notes)
    with connection.transaction():
        if _note(connection, notes, context, sum(stage.rows for stage in stages)):
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
    values = [context.query, context.options.table, context.batch, rows]
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
    _check_stages(connection, table_of(options.table), stages)
    try:
        connection.execute(insert_statement(options, stages))
    except psycopg.errors.CardinalityViolation:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(options.key)}), and nothing "
            "says which of them comes last; leave one for each: aggregate, or dropDuplicates"
        ) from None


def insert_statement(options: OptionValues, stages: list[Staged]) -> sql.Composed:
    """One statement for all stages, so that a key that is in two of them is noticed."""
    target, names = table_of(options.table), columns(stages[0].columns)
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
    schema = target.schema and sql.Identifier(target.schema).as_string()
    found = connection.execute(look, [stage_prefix(query), schema]).fetchall()
    if found:
        stages = sql.SQL(", ").join(target.beside(name).sql for (name,) in found)
        connection.execute("SET lock_timeout = '2s'")
        # A task that still writes holds its table: then the next batch drops it.
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(stages))


# ---- The sink of a stream ------------------------------------------------------------------------

StreamSink = (
    declare(SinkBuilder.stream(FORMAT, create=Stage), WRITE)
    .receive_batch(Stage.receive_batch)
    .flush(Stage.flush)
    .destroy(Stage.close)
    .commit(publish)
    .abort(discard)
    .build()
)


def stream_writer(
    given: MutableMapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamWriter:
    """Raises `ValueError` for a wrong option.

    `overwrite` is the output mode `complete`: all groups again, which replace what is there.
    """
    options = WRITE_OPTIONS.parse(given)
    check_write(options)
    if overwrite and options.mode != "upsert":
        raise ValueError(
            f"format `{FORMAT}`: the output mode `complete` brings all rows again with each batch, "
            f"so it needs mode=upsert and a `key`, got mode={options.mode}"
        )
    return StreamSink(given).streamWriter(schema, False)


def check_write(options: OptionValues) -> None:
    """Raises `ValueError` for options that do not go together."""
    if options.table is None:
        raise ValueError(f"format `{FORMAT}`: option `table` is missing; name the table to write")
    table_of(options.table)
    for name, modes in (("key", ("upsert", "merge")), ("merge", ("merge",))):
        given, wanted = getattr(options, name) is not None, options.mode in modes
        if given != wanted:
            raise ValueError(
                f"format `{FORMAT}`: option `{name}` "
                f"{'is only for' if given else 'is missing; it is needed for'} "
                f"mode={' and mode='.join(modes)}, got mode={options.mode}"
            )


# ---- The writer of a batch -----------------------------------------------------------------------


@dataclass
class Written(WriterCommitMessage):
    """What a task that succeeded tells the driver."""

    staged: Staged | None


class TableWriter(DataSourceArrowWriter):
    """The same stages, published in one transaction; with `overwrite` the table is emptied in it.

    A job is never repeated by Spark, so there is no number to note.
    """

    def __init__(self, options: OptionValues, overwrite: bool) -> None:
        check_write(options)
        self._options, self._overwrite = options, overwrite
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        settle()
        context = SinkContext(self._job, 0, this_task().partitionId(), self._options)
        with contextlib.closing(Stage(context)) as stage:
            for batch in iterator:
                stage.receive_batch(batch)
            return Written(stage.flush())

    def commit(self, messages: Sequence[Written | None]) -> None:
        stages = [each.staged for each in messages if each and each.staged]
        target = table_of(self._options.table)
        with connected(self._options) as connection:
            with connection.transaction():
                if self._overwrite:
                    connection.execute(sql.SQL("TRUNCATE {}").format(target.sql))
                if stages:
                    _insert(connection, self._options, stages)
            _sweep(connection, target, self._job)

    def abort(self, messages: Sequence[Written | None]) -> None:
        with connected(self._options) as connection:
            _sweep(connection, table_of(self._options.table), self._job)
