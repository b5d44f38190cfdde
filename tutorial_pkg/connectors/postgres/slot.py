"""The replication slot, which keeps the server's log until Spark has committed the changes in it.

A *position* is a place in that log: PostgreSQL's LSN as a whole number. Negative positions count
the rows of the snapshot, a copy of the table as it was where the slot begins: -3, -2, -1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import psycopg
from psycopg import sql

from tutorial_pkg.builder import OptionValues, Position, SplitContext
from tutorial_pkg.connectors.postgres.connection import Connection, connect
from tutorial_pkg.connectors.postgres.options import FORMAT

NUMBER = "spark_number"  # the snapshot's extra column
IDLE_BYTES = 4 << 20  # with this much log of other tables, an empty batch releases it
BATCH_BYTES = 64 << 20  # of log in one batch, unless `maxRowsPerTrigger` counts messages
FETCHED = 500  # messages at a time; a message is a row and can be large
PACKED, PACKED_BYTES = 10_000, 8 << 20  # of messages that become a record batch
PLUGIN = "pgoutput"
UNPUBLISHABLE = psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InvalidColumnReference
PEEK = """pg_logical_slot_peek_binary_changes(%s, '0/0'::pg_lsn + %s::numeric, %s,
    'proto_version', '1', 'publication_names', %s)"""


def prepare(database: Connection, options: OptionValues) -> int:
    """Create publication, slot and snapshot, unless the slot exists; return the first position.

    The server waits for all open transactions that write. Raises `TimeoutError`.
    """
    look = "SELECT FROM pg_replication_slots WHERE slot_name = %s"
    if not database.execute(look, [options.slot]).rowcount:
        _create_publication(database, options)
        published(database, options)  # before the slot starts to keep the log
        try:
            if options.snapshot:
                _create_with_snapshot(database, options)
            else:
                create = "SELECT pg_create_logical_replication_slot(%s, %s)"
                database.execute(create, [options.slot, PLUGIN])
        except psycopg.errors.LockNotAvailable:
            raise TimeoutError(
                "a slot can't be created while a transaction that has written something is open, "
                f"and one was open for more than {options.waitSeconds} s (option `waitSeconds`); "
                "see the views `pg_stat_activity` and `pg_prepared_xacts`"
            ) from None
    return _first(database, options)


def snapshot_of(options: OptionValues) -> sql.Identifier:
    return cast(sql.Identifier, options.table.beside(f"spark_snapshot_{options.slot}").sql)


def _create_publication(database: Connection, options: OptionValues) -> None:
    """Publish the table under the slot's name, unless there is such a publication.

    Raises `ValueError` if the server would then refuse UPDATE and DELETE.
    """
    look = "SELECT FROM pg_publication WHERE pubname = %s"
    if database.execute(look, [options.slot]).rowcount:
        return
    create = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root)")
    explain = sql.SQL("EXPLAIN DELETE FROM {}")  # fails where DELETE would, and deletes nothing
    try:
        with database.transaction():
            database.execute(create.format(sql.Identifier(options.slot), options.table.sql))
            database.execute(explain.format(options.table.sql))
    except UNPUBLISHABLE as error:
        raise ValueError(
            f"format `{FORMAT}`: a publication would make the server refuse UPDATE and DELETE on "
            f"`{options.table}`: {error.diag.message_primary}. Use a primary key that is not "
            "DEFERRABLE, and ALTER TABLE … REPLICA IDENTITY DEFAULT; see docs/formats/postgres.md"
        ) from None


def _create_with_snapshot(database: Connection, options: OptionValues) -> None:
    """Take the snapshot first, then create its slot: a crash never leaves a slot alone.

    A temporary slot marks a place in the log and exports the view of the tables at that place. The
    table is copied under this view; then the temporary slot is copied to a permanent one. The lock
    keeps others from rewriting the table, which would look empty under an older view. Row-level
    policies are off, since the log ignores them, too.
    """
    new = f"{options.slot}_new"
    create = f"CREATE_REPLICATION_SLOT \"{new}\" TEMPORARY LOGICAL {PLUGIN} (SNAPSHOT 'export')"
    text = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
        SET TRANSACTION SNAPSHOT {{view}};
        SET LOCAL row_security = off;
        DROP TABLE IF EXISTS {{copy}};
        CREATE TABLE {{copy}} AS
        SELECT row_number() OVER () - 1 - counted.total AS {NUMBER}, source.*
        FROM {{table}} AS source, (SELECT count(*) AS total FROM {{table}}) AS counted;
        ALTER TABLE {{copy}} ADD PRIMARY KEY ({NUMBER});
        COMMENT ON TABLE {{copy}} IS {{begin}}"""
    table, copy = options.table.sql, snapshot_of(options)
    with connect(options, replication="database") as replication:
        with database.transaction():
            database.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(table))
            created = replication.pgconn.exec_(create.encode())  # psycopg can't execute this
            if created.status != psycopg.pq.ExecStatus.TUPLES_OK:
                raise psycopg.errors.error_from_result(created)
            begin, view = ((created.get_value(0, column) or b"").decode() for column in (1, 2))
            database.execute(sql.SQL(text).format(copy=copy, table=table, view=view, begin=begin))
        database.execute(
            "SELECT pg_copy_logical_replication_slot(%s, %s, false)", [new, options.slot]
        )


def _first(database: Connection, options: OptionValues) -> int:
    """Return where a new query begins. Raises `ValueError` if the snapshot is gone."""
    if not options.snapshot:
        return slot_position(database, options)
    try:
        count = sql.SQL("SELECT count(*) FROM {}").format(snapshot_of(options))
        [rows] = next(database.execute(count))
    except psycopg.errors.UndefinedTable:
        raise ValueError(
            f"format `{FORMAT}`: slot `{options.slot}` exists, and only a new slot can have a "
            "snapshot. Drop it, choose another name, or leave out `snapshot`"
        ) from None
    return -rows or _end_of_snapshot(database, options)


def _end_of_snapshot(database: Connection, options: OptionValues) -> int:
    """Return where the changes begin; the copy's comment says it, so a new slot is noticed."""
    look = "SELECT (obj_description(to_regclass(%s), 'pg_class')::pg_lsn - '0/0')::bigint"
    [begin] = database.execute(look, [snapshot_of(options).as_string()]).fetchone() or [None]
    return slot_position(database, options, begin)


def published(database: Connection, options: OptionValues) -> int:
    """Return the oid of the table's entry in the publication. Raises `RuntimeError`.

    It changes when the table or the publication is re-created, or the table is removed and added
    again: the log lacks the changes of the meantime.
    """
    look = """SELECT entry.oid::bigint
        FROM pg_publication_rel AS entry JOIN pg_publication ON prpubid = pg_publication.oid
        WHERE pubname = %s AND prrelid = to_regclass(%s)
        AND pubinsert AND pubupdate AND pubdelete AND pubtruncate
        AND to_jsonb(entry) ->> 'prqual' IS NULL AND to_jsonb(entry) ->> 'prattrs' IS NULL"""
    entry = database.execute(look, [options.slot, options.table.quoted]).fetchone()
    if entry is None:
        raise RuntimeError(
            f"the publication `{options.slot}` lacks table `{options.table}`, or some of its rows, "
            f"columns or operations: one of both was altered or re-created. {_restart(options)}"
        )
    return int(entry[0])


def slot_position(database: Connection, options: OptionValues, start: int | None = None) -> int:
    """Return where the slot's log begins; check that it has the changes from `start` on.

    Raises `ValueError` for another program's slot, and `RuntimeError` if changes are missing.
    """
    look = """SELECT (confirmed_flush_lsn - '0/0')::bigint, wal_status = 'lost',
            plugin = %s AND database = current_database() AND confirmed_flush_lsn IS NOT NULL
        FROM pg_replication_slots WHERE slot_name = %s"""
    row = database.execute(look, [PLUGIN, options.slot]).fetchone()
    position, is_lost, is_ours = row or (0, False, True)
    if not is_ours:
        raise ValueError(
            f"format `{FORMAT}`: slot `{options.slot}` is not a logical slot of this database with "
            f"the plugin `{PLUGIN}`, or is still being created; choose another `slot`"
        )
    if row is None or is_lost:
        problem = "was invalidated: see `pg_replication_slots`" if is_lost else "was dropped"
    elif start is not None and position > start:
        problem = f"was advanced or re-created: it is at {position}, this query at {start}"
    else:
        return int(position)
    raise RuntimeError(f"the slot `{options.slot}` {problem}. {_restart(options)}")


def _restart(options: OptionValues) -> str:
    return (
        f"Start over: SELECT pg_drop_replication_slot('{options.slot}'); DROP PUBLICATION IF "
        f"EXISTS {options.slot}; then use a new checkpoint, with `snapshot` for the existing rows"
    )


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    """Return how far the next batch goes towards `end`: to the end of a transaction."""
    database, options = context.connection, context.options
    if start < 0:
        last, changes = start + (rows or -start), _end_of_snapshot(database, options)
        return last if last < 0 else changes
    if rows is None and end - start > IDLE_BYTES:
        return min(end, start + BATCH_BYTES)
    count, begin = rows, slot_position(database, options, start)
    if rows and begin < start:
        # Spark commits a batch together with the next one, so the slot still has the last batch.
        text = f"SELECT count(*) FROM {PEEK} WHERE lsn <= '0/0'::pg_lsn + %s::numeric"
        done = database.execute(text, [options.slot, start, None, options.slot, start])
        count = rows + next(done)[0]
    text = f"SELECT (max(lsn) - '0/0')::bigint FROM {PEEK}"
    [last] = next(database.execute(text, [options.slot, end, count, options.slot]))
    if last and last > start:
        return int(last)
    return end if end - start > IDLE_BYTES else start


def messages(
    database: Connection, options: OptionValues, start: int, end: int
) -> Iterator[list[bytes]]:
    """Yield messages of all transactions from the slot's position to `end`, thousands at a time.

    Raises the client's `ObjectInUse` while another session has the slot, as after a kill.
    """
    slot_position(database, options, start)  # says what to do about a lost slot
    with database.transaction(), database.cursor(name="changes") as cursor:
        text, some, size = f"SELECT data FROM {PEEK}", list[bytes](), 0
        cursor.execute(text, [options.slot, end, None, options.slot], binary=True)
        while rows := cursor.fetchmany(FETCHED):
            some += [data for (data,) in rows]
            size += sum(len(data) for (data,) in rows)
            if len(some) >= PACKED or size > PACKED_BYTES:
                yield some
                some, size = [], 0
        slot_position(database, options, start)  # notices changes that were released meanwhile
    if some:
        yield some


def commit(context: SplitContext, positions: dict[str, Position]) -> None:
    """Let the server delete its log before these positions, which Spark has committed."""
    database, options = context.connection, context.options
    position = max(map(int, positions.values()))
    if options.snapshot and position >= 0:
        drop = sql.SQL("DROP TABLE IF EXISTS {}")
        database.execute(drop.format(snapshot_of(options)))
    if position > slot_position(database, options):
        advance = "SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s::numeric)"
        database.execute(advance, [options.slot, position])
