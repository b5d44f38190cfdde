"""The replication slot: it keeps the log of changes until Spark has committed them.

A *position* is a place in that log, PostgreSQL's LSN as a whole number. Positions below 0 count the
rows of the snapshot, a copy of the table as it was where the slot's log begins: -3, -2, -1.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from tutorial_pkg.builder import OptionValues, SplitContext
from tutorial_pkg.connectors.postgres.connection import Connection, connect
from tutorial_pkg.connectors.postgres.options import FORMAT, Table
from tutorial_pkg.core.pauses import patiently

NUMBER = "spark_number"  # the snapshot's own column
MOST_MESSAGES = 100_000  # of one batch, unless `maxRowsPerTrigger` says otherwise
IDLE_BYTES = 4 << 20  # this much log of other tables makes an empty batch, to let go of it
WHOLE_BYTES = 64 << 20  # this much makes one batch, without a look at what it is
BUSY_SECONDS = 30
FIRST_MESSAGES = 100  # enough to see that nobody else has the slot
AT_ONCE = 500  # messages from the server; a message is a row, and may be large
PLUGIN = "pgoutput"
NO_PUBLICATION = psycopg.errors.ObjectNotInPrerequisiteState.sqlstate
Result = TypeVar("Result")

# ---- Making it, before the first batch -----------------------------------------------------------


def prepare(options: OptionValues) -> int:
    """Make publication, slot and, if asked, snapshot, unless they exist; the first position."""
    with connect(options) as database:
        if not _exists(database, options):
            _publish(database, options)
            _make(database, options)
        return _first(database, options)


def _make(database: Connection, options: OptionValues) -> None:
    """The server waits for all who are writing, in whatever database. Raises `TimeoutError`."""
    make = "SELECT pg_create_logical_replication_slot(%s, %s)"
    try:
        if options.snapshot:
            _make_with_snapshot(database, options)
        else:
            database.execute(make, [options.slot, PLUGIN])
    except psycopg.errors.LockNotAvailable:
        raise TimeoutError(
            f"no slot can be made as long as a transaction runs that has written something, and "
            f"one has run for more than {options.waitSeconds} s (option `waitSeconds`); see the "
            "views `pg_stat_activity` and `pg_prepared_xacts`"
        ) from None


def snapshot_of(options: OptionValues) -> Table:
    """The copy of the table, beside it."""
    table: Table = options.table
    return table.beside(f"spark_snapshot_{options.slot}")


def _publish(database: Connection, options: OptionValues) -> None:
    """A publication says which tables' changes are decoded; it has the slot's name."""
    look = "SELECT FROM pg_publication WHERE pubname = %s"
    if not database.execute(look, [options.slot]).rowcount:
        _check_identity(database, options)
        make = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root)")
        name = sql.Identifier(options.slot)
        database.execute(make.format(name, options.table.sql))
    published(database, options)


def _check_identity(database: Connection, options: OptionValues) -> None:
    """Raises `ValueError` where the publication would have everybody's UPDATE refused."""
    look = """SELECT FROM pg_class WHERE relkind = 'r' AND relreplident <> 'f'
        AND (oid = %s::regclass OR oid IN (SELECT relid FROM pg_partition_tree(%s::regclass)))
        AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indimmediate
            AND CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident END)"""
    if database.execute(look, [options.table.quoted] * 2).rowcount:
        raise ValueError(
            f"format `{FORMAT}`: a publication of `{options.table}` would have the server refuse "
            "every UPDATE and DELETE: the table, or a partition, has no REPLICA IDENTITY, or its "
            "primary key is DEFERRABLE. ALTER TABLE … REPLICA IDENTITY FULL"
        )


def _exists(database: Connection, options: OptionValues) -> bool:
    look = "SELECT FROM pg_replication_slots WHERE slot_name = %s"
    return database.execute(look, [options.slot]).rowcount == 1


def _first(database: Connection, options: OptionValues) -> int:
    """Where a new query begins. Raises `ValueError` for a snapshot that cannot be had any more."""
    if not options.snapshot:
        return confirmed(database, options)
    name = snapshot_of(options).sql
    look = "SELECT to_regclass(%s) IS NOT NULL"
    if database.execute(look, [name.as_string()]).fetchone() != (True,):
        raise ValueError(
            f"format `{FORMAT}`: the slot `{options.slot}` is there already, and a snapshot can "
            f"be taken only when it is made. Drop it (SELECT pg_drop_replication_slot"
            f"('{options.slot}')), choose another name, or leave out `snapshot`"
        )
    count = sql.SQL("SELECT count(*) FROM {}").format(name)
    rows = next(int(count) for (count,) in database.execute(count))
    return -rows or _behind_snapshot(database, options)


def _behind_snapshot(database: Connection, options: OptionValues) -> int:
    """Where the changes begin. Raises `RuntimeError` if the slot begins elsewhere now.

    The copy's comment says where it was: earlier versions have made none.
    """
    look = "SELECT (obj_description(to_regclass(%s), 'pg_class')::pg_lsn - '0/0')::bigint"
    [begin] = database.execute(look, [snapshot_of(options).quoted]).fetchone() or [None]
    return confirmed(database, options, begin)


def _make_with_snapshot(database: Connection, options: OptionValues) -> None:
    """Snapshot first, then the slot that belongs to it: a crash in between leaves no slot.

    A temporary slot says from where on it will have all changes, and exports the view of the
    tables at that very place. Under this view the table is copied; then the slot is made a lasting
    one. Meanwhile nobody may rewrite the table: older views show it as empty then.
    """
    temporary = f"{options.slot}_new"
    create = (
        f"CREATE_REPLICATION_SLOT \"{temporary}\" TEMPORARY LOGICAL {PLUGIN} (SNAPSHOT 'export')"
    )
    with (
        connect(options, replication="database") as replication,
        connect(options) as holding,
        holding.transaction(),
    ):
        holding.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(options.table.sql))
        made = replication.pgconn.exec_(create.encode())  # no other command is taken as text only
        if made.status != psycopg.pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(made)
        begin, view = ((made.get_value(0, column) or b"").decode() for column in (1, 2))
        _copy_table(database, options, view, begin)
        lasting = "SELECT pg_copy_logical_replication_slot(%s, %s, false)"
        database.execute(lasting, [temporary, options.slot])


def _copy_table(database: Connection, options: OptionValues, view: str, begin: str) -> None:
    table, snapshot = options.table.sql, snapshot_of(options).sql
    number = sql.Identifier(NUMBER)
    copy = """CREATE TABLE {snapshot} AS
        SELECT row_number() OVER () - 1 - counted.total AS {number}, source.*
        FROM {table} AS source, (SELECT count(*) AS total FROM {table}) AS counted"""
    with database.transaction():
        database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        database.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(view)))
        database.execute("SET LOCAL row_security = off")  # the log has what a policy would hide
        database.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(snapshot))
        database.execute(sql.SQL(copy).format(snapshot=snapshot, number=number, table=table))
        database.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(snapshot, number))
        database.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(snapshot, sql.Literal(begin)))


# ---- Looking, and letting go ---------------------------------------------------------------------


def published(database: Connection, options: OptionValues) -> int:
    """The oid of the table's place in the publication, of which it must be the only one.

    It is another one when the table or the publication was re-created, or the table was taken out
    and put in again: rows that were written meanwhile are not in the log's changes.
    """
    look = """SELECT places.oid, prrelid = to_regclass(%s), prrelid::regclass::text,
            pubinsert AND pubupdate AND pubdelete AND pubtruncate
                AND to_jsonb(places) ->> 'prqual' IS NULL
                AND to_jsonb(places) ->> 'prattrs' IS NULL, EXISTS (SELECT FROM pg_inherits
                JOIN pg_class ON pg_class.oid = inhparent AND relkind = 'r'
                WHERE inhparent = to_regclass(%s)),
            EXISTS (SELECT FROM pg_partition_tree(to_regclass(%s)) JOIN pg_class ON oid = relid
                WHERE relpersistence <> 'p' OR relkind = 'f')
        FROM pg_publication AS publications
        JOIN pg_publication_rel AS places ON prpubid = publications.oid WHERE pubname = %s"""
    name = options.table.quoted
    found = database.execute(look, [name, name, name, options.slot]).fetchall()
    others = sorted(other for _, is_ours, other, *_ in found if not is_ours)
    if [is_ours for _, is_ours, *_ in found] == [True] and found[0][3:] == (True, False, False):
        return int(found[0][0])
    if found and found[0][5]:
        trouble = (
            f"cannot have all rows of `{options.table}`: a partition is UNLOGGED, or a foreign "
            "table, and the server's log has none of its rows"
        )
    elif found and found[0][4]:
        trouble = f"cannot have all rows of `{options.table}`, from which other tables inherit"
    elif len(found) > len(others) > 0:
        trouble = f"is for other tables, too: {others}"
    elif len(found) > len(others):
        trouble = "does not publish insert, update, delete and truncate of all rows and columns"
    else:
        trouble = f"does not have table `{options.table}`: one of them was dropped, or made again"
    raise RuntimeError(
        f"the publication `{options.slot}` {trouble}. {_anew(options)}, or choose another `slot`"
    )


def _anew(options: OptionValues) -> str:
    """What to do where changes may be missing."""
    return (
        f"Start anew: SELECT pg_drop_replication_slot('{options.slot}'); DROP PUBLICATION IF "
        f"EXISTS {options.slot}; then a new checkpoint, with `snapshot` to get the rows that are "
        "there"
    )


def confirmed(database: Connection, options: OptionValues, start: int | None = None) -> int:
    """The position before which the slot has nothing.

    Raises `ValueError` for a slot that is not ours, and `RuntimeError` if it no longer has what
    comes after `start`.
    """
    look = """SELECT (confirmed_flush_lsn - '0/0')::bigint, wal_status = 'lost', CASE
            WHEN slot_type = 'physical' THEN 'is a physical one, without changes of tables'
            WHEN database <> current_database() THEN 'is of database ' || quote_ident(database)
            WHEN plugin <> %s THEN 'decodes by ' || quote_ident(plugin)
            WHEN confirmed_flush_lsn IS NULL THEN 'is still being made (start again later)'
            WHEN to_jsonb(pg_replication_slots) ->> 'two_phase' = 'true'
                THEN 'has transactions before their COMMIT PREPARED (it is `two_phase`)' END
        FROM pg_replication_slots WHERE slot_name = %s"""
    found = database.execute(look, [PLUGIN, options.slot]).fetchone()
    position, is_lost, why_not_ours = found or (0, False, None)
    if why_not_ours:
        raise ValueError(
            f"format `{FORMAT}`: the slot `{options.slot}` {why_not_ours}; choose another `slot`"
        )
    trouble = ""
    if found is None:
        trouble = "is gone, and with it the changes since the last batch"
    elif is_lost:
        trouble = "was given up by the server: see `invalidation_reason` in `pg_replication_slots`"
    elif start is not None and position > start:
        trouble = (
            f"has let go of changes that this query has not read: it is at {position}, the query "
            f"at {start}. Somebody has moved it, or made it anew"
        )
    if trouble:
        raise RuntimeError(f"the slot `{options.slot}` {trouble}. {_anew(options)}")
    return int(position)


def end_of_log(database: Connection, start: int) -> int:
    """The position behind all that is on the server's disk. Raises `RuntimeError`."""
    look = "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"
    end = next(int(position) for (position,) in database.execute(look))
    if end < start:
        raise RuntimeError(
            f"the server's log ends at {end}, and this query has read up to {start}: it is another "
            "server, or one that was restored. Start anew: a new checkpoint, with a new `slot`"
        )
    return end


def next_position(
    database: Connection, options: OptionValues, start: int, end: int, rows: int | None
) -> int:
    """How far the next batch goes on its way to `end`: behind the commit of a transaction."""
    if start < 0:
        last, behind = start + (rows or -start), _behind_snapshot(database, options)
        return last if last < 0 else behind
    if rows is None and IDLE_BYTES < end - start <= WHOLE_BYTES:
        return end  # a look would cost as much as to read it
    text = f"SELECT (max(lsn) - '0/0')::bigint FROM {PEEK}"
    most = _uncommitted(database, options, start) + (rows or MOST_MESSAGES)
    found = when_free(lambda: database.execute(text, _peeked(options, end, most)).fetchone())
    if found and found[0] and found[0] > start:
        return int(found[0])
    return end if end - start > IDLE_BYTES else start


def _uncommitted(database: Connection, options: OptionValues, start: int) -> int:
    """How many messages before `start` a look at the slot begins with: those of the last batch.

    Spark commits it together with the next one, and so the slot is always one batch behind.
    """
    if confirmed(database, options, start) == start:
        return 0
    text = f"SELECT count(*) FROM {PEEK} WHERE lsn <= '0/0'::pg_lsn + %s::numeric"
    asked = [*_peeked(options, start, None), start]
    return int(when_free(lambda: database.execute(text, asked).fetchone() or [0])[0])


@contextlib.contextmanager
def published_throughout(database: Connection, context: SplitContext) -> Iterator[None]:
    """Changes from before there was a publication are lost: the decoder warns of them."""
    warnings: list[str | None] = []
    database.add_notice_handler(lambda warning: warnings.append(warning.sqlstate))
    yield
    if NO_PUBLICATION in warnings:
        name = context.options.slot
        context.lost(f"there was no publication `{name}` when some changes were written")


def messages(database: Connection, options: OptionValues, start: int, end: int) -> Iterator[bytes]:
    """What the decoder says of all transactions from the slot's position to `end`."""
    with contextlib.ExitStack() as ending:
        first, cursor = when_free(lambda: _peeking(database, options, end, ending))
        confirmed(database, options, start)  # now that nobody else can let go of anything
        for (data,) in itertools.chain(first, cursor):
            yield data


def _peeking(
    database: Connection, options: OptionValues, end: int, ending: contextlib.ExitStack
) -> tuple[list[Any], Any]:
    """The first messages, and a cursor for the others: the server takes the slot at the first."""
    with contextlib.ExitStack() as failing:
        failing.enter_context(database.transaction())
        cursor = failing.enter_context(database.cursor(name="changes"))
        cursor.itersize = AT_ONCE
        text = f"SELECT data FROM {PEEK}"
        cursor.execute(text, _peeked(options, end, None), binary=True)
        first = cursor.fetchmany(FIRST_MESSAGES)
        ending.push(failing.pop_all())
    return first, cursor


def let_go(database: Connection, options: OptionValues, position: int) -> None:
    """Spark has committed everything before `position`: the server may forget it."""
    if options.snapshot and position >= 0:
        drop = sql.SQL("DROP TABLE IF EXISTS {}").format(snapshot_of(options).sql)
        database.execute(drop)
    if position > confirmed(database, options):
        advance = "SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)"
        when_free(lambda: database.execute(advance, [options.slot, position]))


PEEK = """pg_logical_slot_peek_binary_changes(%s, '0/0'::pg_lsn + %s::numeric, %s,
    'proto_version', '1', 'publication_names', %s)"""


def _peeked(options: OptionValues, end: int, most: int | None) -> list[Any]:
    return [options.slot, end, most, f'"{options.slot}"']


def when_free(work: Callable[[], Result]) -> Result:
    """A slot has one user at a time; one that was killed takes a moment to go."""
    in_use = psycopg.errors.ObjectInUse
    return patiently(work, lambda error: isinstance(error, in_use), BUSY_SECONDS, pause=0.05)
