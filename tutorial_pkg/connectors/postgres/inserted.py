"""A stream of inserted rows: those with a larger key than all before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from psycopg import sql
from pyspark.sql.types import IntegralType, StructType

from tutorial_pkg.builder import SourceBuilder
from tutorial_pkg.builder.context import SplitContext
from tutorial_pkg.connectors.postgres.bounded_reader import BoundedReader
from tutorial_pkg.connectors.postgres.connection import Connection, persistent
from tutorial_pkg.connectors.postgres.names import table_of
from tutorial_pkg.connectors.postgres.options import FORMAT, READ, declare
from tutorial_pkg.connectors.postgres.table_reader import arrow_rows
from tutorial_pkg.core.options import OptionValues

# Not the smallest key that is there now: one below it may still be on its way.
BEGIN = -(2**63)
LOOK_SECONDS = 1.0  # so long a look waits for writers, before the next trigger looks again
PAUSE_SECONDS = 0.02

# ---- The three functions -------------------------------------------------------------------------


def splits(context: SplitContext) -> dict[str, int]:
    """The table is the only part; a position is the smallest key that was not read yet."""
    return {context.options.table: BEGIN}


def latest(context: SplitContext, split: str, start: int) -> int:
    return persistent(context.options, lambda database: _latest(database, context.options, start))


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options = context.options
    where = _between(options, start, end)
    yield from arrow_rows(options, table_of(options.table).sql, options.schema, where)


def _latest(database: Connection, options: OptionValues, start: int) -> int:
    end = (_end_of_written if options.awaitWriters else _end)(database, options)
    return _not_yet(options, start) if end is None else _limited(database, options, start, end)


def _end(database: Connection, options: OptionValues) -> int:
    return newest(database, options) if options.until is None else int(options.until)


def newest(database: Connection, options: OptionValues) -> int:
    """The position after the largest key."""
    text = sql.SQL("SELECT max({}) FROM {}").format(*_key_and_table(options))
    [largest] = database.execute(text).fetchone() or [None]
    return BEGIN if largest is None else int(largest) + 1


def _limited(database: Connection, options: OptionValues, start: int, end: int) -> int:
    """The key of the first row that is one too many for this batch."""
    if options.maxRowsPerTrigger is None:
        return end
    key, table = _key_and_table(options)
    text = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} OFFSET {} LIMIT 1")
    rows = sql.Literal(options.maxRowsPerTrigger)
    found = database.execute(text.format(key, table, _between(options, start, end), key, rows))
    return next((int(value) for (value,) in found), end)


def _end_of_written(database: Connection, options: OptionValues) -> int | None:
    """The position behind the newest key, when all who may write a smaller one have ended.

    Who was writing after that key was looked up may have taken a smaller one: it holds the table's
    lock for writers, from before it took the key until its end. Later ones take larger keys, so a
    look that runs out of patience (None) is gone on with by the next one, and not begun anew.
    `CREATE INDEX CONCURRENTLY` waits for writers in the same way; nobody waits for us.
    """
    if options.looked is None:
        _check_writers_are_seen(database, options)
        options.looked = _end(database, options), _writers(database, options)
    end, writers = options.looked
    patience = LOOK_SECONDS if options.until is None else options.waitSeconds
    deadline = time.monotonic() + patience
    while writers and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
        writers &= _writers(database, options)
    options.looked = (end, writers) if writers else None
    return None if writers else int(end)


def _not_yet(options: OptionValues, start: int) -> int:
    """The next trigger looks again; `availableNow` has none."""
    if options.until is not None:
        raise TimeoutError(
            f"a transaction has been writing to `{options.table}` for more than "
            f"{options.waitSeconds} s (option `waitSeconds`), and rows before the newest one may "
            "be missing as long as it runs; see the view `pg_stat_activity`"
        )
    return start


def _writers(database: Connection, options: OptionValues) -> set[str]:
    """The transactions that write to the table, or to a partition of it."""
    text = """SELECT virtualtransaction FROM pg_locks WHERE granted AND (relation = %s::regclass
            OR relation IN (SELECT relid FROM pg_partition_tree(%s::regclass)))
        AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()"""
    name = table_of(options.table).sql.as_string()
    return {transaction for (transaction,) in database.execute(text, [name, name])}


def _check_writers_are_seen(database: Connection, options: OptionValues) -> None:
    """Raises `ValueError` where locks say nothing about who writes: rows would be lost."""
    text = """SELECT relkind IN ('r', 'p'), pg_is_in_recovery() FROM pg_class
        WHERE oid = %s::regclass"""
    found = database.execute(text, [table_of(options.table).sql.as_string()]).fetchone()
    if found != (True, False):
        raise ValueError(
            f"format `{FORMAT}`: with `awaitWriters`, `table` must be a table, no view, and `url` "
            "the primary server, no standby: nobody can see elsewhere who is still writing"
        )


def _between(options: OptionValues, start: int, end: int) -> sql.Composable:
    key = sql.Identifier(options.key)
    text = sql.SQL("{} >= {}::bigint AND {} < {}::bigint")
    return text.format(key, sql.Literal(str(start)), key, sql.Literal(str(end)))


def _key_and_table(options: OptionValues) -> tuple[sql.Identifier, sql.Identifier]:
    return sql.Identifier(options.key), table_of(options.table).sql


# ---- The reader ----------------------------------------------------------------------------------

InsertedSource: Any = declare(
    SourceBuilder.replayable(FORMAT, "", splits=splits, latest=latest, read=read), READ
).build()


class InsertedReader(BoundedReader):
    """One task for a batch; the table is the log."""

    source = InsertedSource

    def __init__(self, schema: StructType, options: OptionValues) -> None:
        options.looked = None  # a look with `awaitWriters` that has not come to its end
        super().__init__(schema, options)

    def initialOffset(self) -> Any:
        check_inserted(self._options)
        return super().initialOffset()

    def end_of_all(self) -> int:
        return persistent(self._options, lambda database: newest(database, self._options))


def check_inserted(options: OptionValues) -> None:
    """Raises `ValueError` for what no stream can be made of."""
    if options.table is None or options.key is None:
        raise ValueError(
            f"format `{FORMAT}`: a stream is of a `table`, and wants to know its `key`, a column "
            "of whole numbers that grow, for inserted rows; or a `slot`, for all changes"
        )
    kinds = {field.name: field.dataType for field in options.schema}
    if not isinstance(kinds.get(options.key), IntegralType):
        raise ValueError(
            f"format `{FORMAT}`: option `key` must be a column of whole numbers, got "
            f"{options.key!r} of {sorted(kinds)}"
        )
