"""Rows of a table: all of them, or those with a larger key than all before, as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa
from psycopg import sql
from pyspark.sql.types import IntegralType

from tutorial_pkg.builder import OptionValues, Position, SourceBuilder, SplitContext
from tutorial_pkg.connectors.postgres.connection import Connection, persistent
from tutorial_pkg.connectors.postgres.identity import going_on, identified, oid_in
from tutorial_pkg.connectors.postgres.options import FORMAT, READ
from tutorial_pkg.connectors.postgres.table_reader import (
    arrow_rows,
    ranges,
    source_of,
    table_schema,
    within,
)

# Not the smallest key that is there now: one below it may still be on its way.
BEGIN = -(2**63)
LOOK_SECONDS = 1.0  # how long a look waits for writers; the next trigger looks again
PAUSE_SECONDS = 0.02
PREPARED = "-1/"  # the number of a transaction without a session begins with it
MADE_AGAIN = "was dropped and made again"

# ---- The functions of the source -----------------------------------------------------------------


def splits(context: SplitContext) -> dict[str, Position]:
    """In a batch the ranges of keys, each one piece, with the table's oid; in a stream the table.

    A stream's position is the smallest key that was not read yet.
    """
    table, look = context.options.table, context.connection
    if context.batch:
        oid = table and persistent(context.options, lambda database: identified(database, table))[0]
        return {json.dumps([*part, oid]): 0 for part in ranges(context.options)}
    check_inserted(context)
    oid = persistent(context.options, lambda database: look.look(database, context))
    return going_on(context, str(table), oid, BEGIN, f"table `{table}` {MADE_AGAIN}")


def latest(context: SplitContext, split: str, start: int) -> int:
    end: int | None = 1 if context.batch else context.connection.end
    return start if end is None else end


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    """The key of the first row that is one too many; rows with the same key are one batch's."""
    if rows is None:
        return end
    key, table = _key_and_table(context.options)
    text = sql.SQL("""SELECT min({0}), max({0}), count(*) FROM (
        SELECT {0} FROM {1} WHERE {2} ORDER BY {0} LIMIT {3}) AS first""")
    first = text.format(key, table, _between(context.options, start, end), sql.Literal(rows + 1))
    [least, largest, count] = persistent(
        context.options, lambda database: next(database.execute(first))
    )
    return max(int(largest), int(least) + 1) if count > rows else end


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    options = context.options
    low, high, oid = json.loads(split) if context.batch else (None, None, oid_in(split))
    if _is_another(context, oid):
        return
    where = within(options.key, (low, high)) if context.batch else _between(options, start, end)
    yield from arrow_rows(options, source_of(options), context.schema, where)
    _is_another(context, oid)  # since the first look, and before it was read


def _is_another(context: SplitContext, oid: int | None) -> bool:
    """A task may find a table that was re-created since it was planned."""
    table = context.options.table
    if oid is None or oid == persistent(context.options, lambda each: identified(each, table))[0]:
        return False
    context.lost(f"table `{table}` {MADE_AGAIN}")
    return True


# ---- How far a table goes ------------------------------------------------------------------------


class Look:
    """What the driver has seen of a table, and whom it waits for: the connection of the source."""

    def __init__(self, options: OptionValues) -> None:
        self._waiting: tuple[int, set[str]] | None = None
        self.end: int | None = None  # the position after the newest row; None while it may change

    def look(self, database: Connection, context: SplitContext) -> int:
        """See how far the table goes; its oid, which it had up to there."""
        if context.options.awaitWriters:
            self.end = self._end_of_written(database, context)
        else:
            self.end = self._end(database, context.options)
        return identified(database, context.options.table)[0]

    def _end(self, database: Connection, options: OptionValues) -> int:
        """The position after the largest key."""
        text = sql.SQL("SELECT max({}) FROM {}").format(*_key_and_table(options))
        [largest] = database.execute(text).fetchone() or [None]
        if not isinstance(largest, int | None):  # rows between two whole numbers are in no batch
            raise ValueError(
                f"column `{options.key}` of `{options.table}` has no whole numbers any more, and "
                "this query reads by them; start again, with another `key` and a new checkpoint"
            )
        return BEGIN if largest is None else largest + 1

    def _end_of_written(self, database: Connection, context: SplitContext) -> int | None:
        """The position behind the newest key, when all who may write a smaller one have ended.

        A transaction that was writing after that key was looked up may have taken a smaller one: it
        holds the table's lock for writers, from before it took the key until its end. Later ones
        take larger keys, so the next look continues one that ran out of patience, and does not
        begin anew. `CREATE INDEX CONCURRENTLY` waits for writers in the same way; nobody waits for
        us.
        """
        options = context.options
        if self._waiting is None:
            _check_writers_are_seen(database, options)
            self._waiting = self._end(database, options), _writers(database, options)
        end, writers = self._waiting
        deadline = time.monotonic() + (options.waitSeconds if context.draining else LOOK_SECONDS)
        while writers and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
            writers = _still_there(writers, _writers(database, options))
        self._waiting = (end, writers) if writers else None
        if writers and context.draining:  # no other trigger will look again
            raise TimeoutError(
                f"a transaction has been writing to `{options.table}` for more than "
                f"{options.waitSeconds} s (option `waitSeconds`), and rows before the newest one "
                "may be missing as long as it runs; see the view `pg_stat_activity`"
            )
        return None if writers else end


def _still_there(writers: set[str], now: set[str]) -> set[str]:
    """A transaction that was PREPAREd for a commit in two phases has another number since then."""
    prepared = {each for each in now if each.startswith(PREPARED)}
    return writers & now if writers <= now else writers & now | prepared


def _writers(database: Connection, options: OptionValues) -> set[str]:
    """The transactions that write to the table, a partition of it, or what inherits from it.

    Who writes to the table of which it is a partition locks it only after a key was taken.
    """
    text = """WITH RECURSIVE tables AS (SELECT %s::regclass::oid AS oid
            UNION SELECT inhrelid FROM pg_inherits JOIN tables ON inhparent = tables.oid)
        SELECT virtualtransaction FROM pg_locks WHERE granted
        AND relation IN (SELECT oid FROM tables
            UNION SELECT relid FROM pg_partition_ancestors(%s::regclass))
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode = 'RowExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()"""
    found = database.execute(text, [options.table.quoted] * 2)
    return {transaction for (transaction,) in found}


def _check_writers_are_seen(database: Connection, options: OptionValues) -> None:
    """Raises `ValueError` where locks say nothing about who writes: rows would be lost."""
    text = """SELECT relkind IN ('r', 'p'), pg_is_in_recovery() FROM pg_class
        WHERE oid = %s::regclass"""
    found = database.execute(text, [options.table.quoted]).fetchone()
    if found != (True, False):
        raise ValueError(
            "with `awaitWriters`, `table` must be a table, no view, and `url` the primary server, "
            "no standby: nobody can see elsewhere who is still writing"
        )


def _between(options: OptionValues, start: int, end: int) -> sql.Composable:
    """The end may be 2⁶³, which is no BIGINT."""
    text = sql.SQL("{} BETWEEN {}::bigint AND {}::bigint")
    return text.format(sql.Identifier(options.key), str(start), str(end - 1))


def _key_and_table(options: OptionValues) -> tuple[sql.Identifier, sql.Identifier]:
    return sql.Identifier(options.key), options.table.sql


def check_inserted(context: SplitContext) -> None:
    """Raises `ValueError` for what no stream can be made of."""
    options = context.options
    if options.table is None or options.key is None:
        raise ValueError(
            "a stream is of a `table`, and wants to know its `key`, a column of whole numbers that "
            "grow, for inserted rows; or a `slot`, for all changes"
        )
    kinds = {field.name: field.dataType for field in context.schema}
    if not isinstance(kinds.get(options.key), IntegralType):
        raise ValueError(
            f"option `key` must be a column of whole numbers, got {options.key!r} of "
            f"{sorted(kinds)}"
        )


# ---- The source ----------------------------------------------------------------------------------

source = (
    SourceBuilder.replayable(FORMAT, table_schema, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Look)
    .bound(bound)
    .options(*READ)
    .build()
)
