"""Rows into a table: tasks stage them, and one transaction publishes them with the batch's number.

A row's way: `Stage` (COPY into a table of the task's own) → `publish` (INSERT from the stages, and
the note that this batch is done) → readers; then the stages are dropped.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString, cast

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
from tutorial_pkg.connectors.postgres.connection import (
    Connection,
    connect,
    locks_in_time,
    persistent,
)
from tutorial_pkg.connectors.postgres.csv_copy import csv_of
from tutorial_pkg.connectors.postgres.identity import identified
from tutorial_pkg.connectors.postgres.options import FORMAT, WRITE, Table, table

_log = logging.getLogger(__name__)

NOTES = "spark_batches"
JSON = (psycopg.adapters.types["json"].oid, psycopg.adapters.types["jsonb"].oid)
AS_NUMBERS: dict[int, LiteralString] = {
    psycopg.adapters.types["money"].oid: "{0}::numeric AS {0}",
    psycopg.adapters.types["money"].array_oid: "{0}::numeric[] AS {0}",
}
DROPPED = 100  # tables at once: each takes a place in the server's table of locks
NOTES_COLUMNS = """query text, target text, batch bigint, rows bigint,
    written timestamptz DEFAULT now(), PRIMARY KEY (query, target)"""

# ---- In the tasks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Staged:
    """What a task has staged: how many rows, with some of the target's columns.

    `nulls` are those of the key's columns that hold some.
    """

    table: str
    columns: tuple[str, ...]
    rows: int
    nulls: frozenset[str] = frozenset()


class Stage:
    """One task's rows, in a table of its own.

    It is UNLOGGED: half the writing. A server that crashes empties it, and `publish` notices.
    """

    def __init__(self, context: SinkContext) -> None:
        self._target = context.options.table
        self._name = f"{stage_prefix(context.query)}{uuid.uuid4().hex}"
        self._columns: tuple[str, ...] = ()
        self._rows = 0
        self._nulls: set[str] = set()
        self._options = context.options
        self._connected, self._copying = contextlib.ExitStack(), contextlib.ExitStack()

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        with locks_in_time(self._options), self._fitting():
            if not self._columns:
                self._begin(batch.schema)
            self._copy.write(csv_of(batch, self._json))
        self._rows += batch.num_rows
        key = set(self._options.key or ()) & set(self._columns)
        self._nulls |= {name for name in key if batch.column(name).null_count}

    def flush(self) -> Staged | None:
        """`None` for a task without rows."""
        with self._fitting():
            self._copying.close()
        nulls = frozenset(self._nulls)
        return Staged(self._name, self._columns, self._rows, nulls) if self._rows else None

    def close(self) -> None:
        self._connected.close()

    def _begin(self, schema: pa.Schema) -> None:
        """The target's columns with their types: the database converts, and says what is wrong."""
        connection = connect(self._options)
        self._connected.callback(connection.close)  # to leave it would wait for COPY to end
        stage = self._target.beside(self._name).sql
        like = sql.SQL("SELECT {} FROM {} LIMIT 0")
        named = like.format(columns(schema.names), self._target.sql)
        described = connection.execute(named).description or []
        self._json = [column.name for column in described if column.type_code in JSON]
        staged = sql.SQL(", ").join(map(_staged, described, schema.types))
        empty = like.format(staged, self._target.sql)
        connection.execute(sql.SQL("CREATE UNLOGGED TABLE {} AS {}").format(stage, empty))
        # FREEZE, for which a table must be new or emptied in the same transaction, makes the rows
        # visible to all: `publish` then reads them in two thirds of the time.
        self._copying.enter_context(connection.transaction())
        connection.execute(sql.SQL("TRUNCATE {}").format(stage))
        copy = sql.SQL("COPY {} FROM STDIN (FORMAT csv, FREEZE)").format(stage)
        self._copy = self._copying.enter_context(connection.cursor().copy(copy))
        self._columns = tuple(schema.names)

    @contextlib.contextmanager
    def _fitting(self) -> Iterator[None]:
        """A value that the database refuses is a `ValueError` that names the column."""
        try:
            yield
        except psycopg.DataError as error:
            where = re.search(r", column (.+?)(?:: |$)", error.diag.context or "", re.MULTILINE)
            column = f"column `{where[1]}` of " if where else ""
            text = f"{column}table `{self._target}`: {error.diag.message_primary}"
            raise ValueError(text) from None


def _staged(column: psycopg.Column, kind: pa.DataType) -> sql.Composable:
    """The column as the stage has it.

    That is as it is in the target, but for numbers that go into `money`: to a server with the rules
    of Germany (`lc_monetary`) the text 1234.56 is an amount of 123456.
    """
    each = kind.value_type if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind
    is_number = pa.types.is_decimal(each) or pa.types.is_integer(each) or pa.types.is_floating(each)
    text = AS_NUMBERS.get(column.type_code, "{0}") if is_number else "{0}"
    return sql.SQL(text).format(sql.Identifier(column.name))


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
    note = _note_of(connection, context) if context.streaming else None
    with connection.transaction():
        if not context.streaming and context.overwrite:
            connection.execute(sql.SQL("TRUNCATE {}").format(target.sql))
        rows = sum(stage.rows for stage in stages)
        if stages and (note is None or _write_down(connection, note, context, rows)):
            _insert(connection, context.options, stages)
    _sweep(connection, target, context.query)


# ---- The note that a batch is done ---------------------------------------------------------------


@dataclass(frozen=True)
class Note:
    """Where it is: in which table, and as which target."""

    notes: Table
    target: str


def _note_of(connection: Connection, context: BatchContext) -> Note:
    """The query's note on this table: wherever it is, and however `table` was spelled then."""
    target = context.options.table
    oid, name = identified(connection, target)
    look = """SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
        WHERE relname = %s AND has_table_privilege(pg_class.oid, 'SELECT')
        AND ARRAY['query', 'batch', 'target']::name[] <@ ARRAY(
            SELECT attname FROM pg_attribute WHERE attrelid = pg_class.oid)
        ORDER BY (pg_class.oid = to_regclass(%s)) IS TRUE DESC"""
    usual, gone = target.beside(NOTES), list[str]()
    for (schema,) in connection.execute(look, [NOTES, usual.quoted]):
        notes = Table(NOTES, (schema, NOTES))
        known = sql.SQL("SELECT target, batch FROM {} WHERE query = {} ORDER BY batch DESC")
        for noted, batch in connection.execute(known.format(notes.sql, context.query)):
            now = "SELECT to_regclass(%s)::oid"
            [found] = connection.execute(now, [table(noted).quoted]).fetchone() or [None]
            if found == oid:
                return Note(notes, noted)
            if found is None and batch >= context.batch:
                gone.append(noted)
    if gone:
        raise RuntimeError(_RENAMED.format(gone=gone[0], name=name, context=context))
    _make_notes(connection, usual)
    return Note(usual, name)


_RENAMED = (
    "batch {context.batch} of this query is in the table `{gone}`, which is not there any more, "
    "and now it comes for {name}. If that is the same table, renamed: UPDATE spark_batches SET "
    "target = '{name}' WHERE query = '{context.query}' AND target = '{gone}'; if it is another "
    "one, DELETE that row, and the batch is written"
)


def _make_notes(connection: Connection, notes: Table) -> None:
    """Looked for first: to create what exists already takes a right that a role may lack."""
    if connection.execute("SELECT to_regclass(%s)", [notes.quoted]).fetchone() == (None,):
        make = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})")
        # Another query may make it at this very moment; then it is there.
        errors = psycopg.errors
        with contextlib.suppress(
            errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject
        ):
            connection.execute(make.format(notes.sql, sql.SQL(NOTES_COLUMNS)))


def _write_down(connection: Connection, note: Note, context: BatchContext, rows: int) -> bool:
    """Record that this batch is done; False if that is recorded already.

    Two drivers of one query, one of them given up for dead, wait here for each other.
    """
    text = """INSERT INTO {} AS noted (query, target, batch, rows) VALUES ({}, {}, {}, {})
        ON CONFLICT (query, target) DO UPDATE
        SET batch = excluded.batch, rows = excluded.rows, written = now()
        WHERE noted.batch < excluded.batch"""
    notes, which = note.notes.sql, (context.query, note.target)
    # Values are literals, and no parameters: beside those, a % in a schema's name would be one.
    if connection.execute(sql.SQL(text).format(notes, *which, context.batch, rows)).rowcount:
        return True
    found = sql.SQL("SELECT batch, rows FROM {} WHERE query = {} AND target = {}")
    noted = connection.execute(found.format(notes, *which)).fetchone()
    _check_repeated(context, rows, noted)
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


# ---- From the stages into the table --------------------------------------------------------------


def _check_stages(connection: Connection, target: Table, stages: list[Staged]) -> None:
    """A crash of the server empties them completely, or leaves them as they were."""
    for stage in stages:
        look = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(target.beside(stage.table).sql)
        if connection.execute(look).fetchone() != (True,):
            raise RuntimeError(
                "the server has crashed after rows were staged, and before they were published: "
                "nothing of this batch was written. Start the query again; the batch is repeated"
            )


def _check_types(connection: Connection, target: Table, stages: list[Staged]) -> None:
    """The server would turn what was staged for a column's old type, or scale, into the new one.

    To be called behind the INSERT, whose lock keeps the types as they are.
    """
    look = """SELECT DISTINCT attname::text FROM pg_attribute AS staged
        JOIN pg_attribute AS target USING (attname)
        WHERE staged.attrelid = ANY (%s::text[]::regclass[]) AND staged.attnum > 0
        AND target.attrelid = %s::regclass AND target.atttypid <> ALL (%s)
        AND (target.atttypid, target.atttypmod) <> (staged.atttypid, staged.atttypmod)
        ORDER BY 1"""
    staged = [target.beside(stage.table).quoted for stage in stages]
    found = connection.execute(look, [staged, target.quoted, [*AS_NUMBERS]]).fetchall()
    if found:
        raise RuntimeError(
            f"columns {[name for (name,) in found]} of `{target}` were altered after rows were "
            "staged, and before they were published: nothing of this batch was written. Start the "
            "query again; the batch is repeated"
        )


def _check_nulls(connection: Connection, options: OptionValues, stages: list[Staged]) -> None:
    """To most unique indexes no null equals another: each batch would add one more row."""
    nulls = sorted(set().union(*(stage.nulls for stage in stages)))
    look = """SELECT FROM pg_index WHERE indrelid = %s::regclass AND indisunique AND indisvalid
        AND indpred IS NULL AND to_jsonb(pg_index) ->> 'indnullsnotdistinct' = 'true'
        AND %s::name[] = ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = indrelid
            AND attnum = ANY (indkey[:indnkeyatts - 1]) ORDER BY attname)"""
    if nulls and not connection.execute(look, [options.table.quoted, sorted(options.key)]).rowcount:
        raise ValueError(
            f"columns {nulls} of the key have nulls, and a row with one would replace none: leave "
            "such rows out, use `coalesce`, or make the unique index with NULLS NOT DISTINCT"
        )


def _check_heirs(connection: Connection, options: OptionValues) -> None:
    """What inherits has keys that are not in the table's index: they would be there twice."""
    look = """SELECT FROM pg_inherits JOIN pg_class ON pg_class.oid = inhparent AND relkind = 'r'
        WHERE inhparent = %s::regclass"""
    if options.key and connection.execute(look, [options.table.quoted]).rowcount:
        raise ValueError(
            f"other tables inherit from `{options.table}`, and no unique index has their keys: "
            f"mode={options.mode} would add what it should replace; write to one of those tables"
        )


def _insert(connection: Connection, options: OptionValues, stages: list[Staged]) -> None:
    _check_stages(connection, options.table, stages)
    _check_nulls(connection, options, stages)
    _check_heirs(connection, options)
    try:
        taken = connection.execute(insert_statement(options, stages)).rowcount
    except psycopg.errors.CardinalityViolation:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(options.key)}), and nothing "
            "says which of them comes last; leave one for each: aggregate, or dropDuplicates"
        ) from None
    _check_types(connection, options.table, stages)
    rows = sum(stage.rows for stage in stages)
    if taken != rows and options.mode != "merge":  # whose SET may have a WHERE
        text = "table `%s` has taken %d of %d rows; see its triggers and rules"
        _log.warning(text, options.table, taken, rows)


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
    found = [name for (name,) in connection.execute(look, [stage_prefix(query), schema])]
    connection.execute("SET lock_timeout = '2s'")
    for first in range(0, len(found), DROPPED):
        some = [target.beside(name).sql for name in found[first : first + DROPPED]]
        # A task that still writes holds its table: then the next batch drops it.
        with contextlib.suppress(psycopg.errors.LockNotAvailable):
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(some)))


# ---- The sink ------------------------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Raises `ValueError` for options that do not go together."""
    options = context.options
    if options.table is None:
        raise ValueError(f"format `{FORMAT}`: option `table` is missing; name the table to write")
    for field in context.schema:
        if holds(field.dataType, (VariantType,)):
            raise ValueError(
                f"column `{field.name}` has a VARIANT, which would be its bytes; make a text of "
                "it with `to_json`: the database takes it for json"
            )
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
