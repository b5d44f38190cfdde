"""Format `postgres`: tables and queries, streams out of them, and three ways to write."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, Format, Options, documented
from tutorial_pkg.connectors.postgres.options import FORMAT, READ, WRITE

_ROWS = "rows in a batch; of changes: messages of the log, with two more for each transaction"


@documented(Options(FORMAT, (*WRITE, *READ, replace(LIMIT, meaning=_ROWS))))
class PostgresDataSource(Format):
    """Tables of a PostgreSQL database: read, streamed, and written. Needs the extra `postgres`.

    Batch: `table` or `query`, as Arrow. With a `key`, in ranges of equal numbers of rows, read in
    parallel, however the keys are spread; rows with the same key go to one task. Each range is a
    statement of its own, so rows that are written meanwhile may be in one and not in another, and a
    key that is computed must come out the same each time, as must the rows of a `query` with LIMIT:
    give it an ORDER BY without ties.

    Stream of inserted rows (`table`, `key`): rows with a larger key than all before. It sees
    neither updates nor deletes. Numbers are given out when a row is written, but become visible
    when its transaction commits: with two writers, 8 may be there before 7, and then **7 is never
    read**. With one writer, or `awaitWriters`, nothing is missing: a look then takes nothing until
    all transactions that were writing to the table have ended. It delays rows by as long as the
    longest of them takes, and does not hold up any writer. It needs a table, not a view, on the
    primary server, and keys from a sequence (`serial`, `identity`) without `CACHE`, taken in the
    INSERT itself: rows that a partition brings along when it is attached, or that logical
    replication copies from another server, may be missing. The key needs an index. Rows without a
    key are never read, nor are those whose keys were read before: so start with a new checkpoint
    after `TRUNCATE … RESTART IDENTITY`, for another `key` (or when another column has taken over
    its name) or another server, and when the server has lost rows and gives their numbers again. It
    may have lost some when it was restored from a backup, when a standby that was behind took over,
    and when it crashed, if the table is UNLOGGED or its writers have `synchronous_commit=off`.

    Stream of changes (`table`, `slot`): every insert, update and delete, in the order of commits,
    through logical decoding; with `snapshot`, first the existing rows, exactly those that the
    changes do not contain. The first batch makes the slot, and a publication of the same name.
    Leave both alone: what the publication leaves out for a while is lost. And give each query a
    slot of its own: what one has let go of, another one may not get, mostly with an error. The
    server keeps its log until Spark has committed; when a query will never run again, clean up:
    `SELECT pg_drop_replication_slot('…')`, `DROP PUBLICATION …`. It needs `wal_level=logical`, a
    role with REPLICATION that owns the table, and a primary key. `before` has what the table's
    REPLICA IDENTITY provides: by default only the key, and only where the change removed it. A
    transaction is never split, so a large one makes a large batch. A column that is added while the
    query runs, or stops being generated (DROP EXPRESSION), is read after its next start, and is
    null in rows from before. Give a column another name or type, or drop one and add one, only when
    the query has read all rows from before: after its next start they are an error; or, if another
    column has taken over the old name, it has the old column's values in rows from before. Until it
    has been read, the snapshot is a copy of the table, next to it; `snapshot` counts only when the
    slot is made, but leave it there, as it also removes the copy. The log has no generated columns,
    no TRUNCATE of a single partition, none of the rows that come or go when a partition is attached
    or detached, or are written while it is UNLOGGED, and no values that ALTER TABLE computes (`TYPE
    … USING`, the DEFAULT of a new column). A table that others inherit from is refused.

    When the server was restored, from a backup or from a copy of its disk, or a standby that was
    behind took over, start with a new checkpoint and a new slot: the log's positions are given
    again, and changes at those that were read before are never read. The query notices that only
    as long as the log ends before its own place.

    Streams know the table by its oid, and changes also its place in the publication. One that was
    re-created, or took over the name of another one, ends the query, and so does a change that was
    written while there was no publication; with `failOnDataLoss` false the query goes on where it
    was. A new checkpoint has nothing to compare with: give it a new slot, if the table was taken
    out of the publication and put in again.

    Stream to a table: tasks stage their rows with COPY in tables of their own, and one transaction
    publishes them, together with the batch's number in the table `spark_batches`. A query is known
    there by the id in its checkpoint, so a query with a copy of the checkpoint must not write to
    the same table: a batch with the same number and as many rows counts as repeated. Leave
    `spark_batches` alone, and let a role that takes over from another one read and write it: a
    batch that is repeated, and whose row there is gone or cannot be read, is written again.
    `mode=upsert` replaces rows with the same `key`, `mode=merge` computes the new row from both. A
    column that the DataFrame lacks keeps its value in a row that is there, and has its DEFAULT in a
    new one (and in `excluded`). A batch may have each key at most once, and no null in it, unless
    the unique index is made with NULLS NOT DISTINCT; otherwise it is refused. Columns are found by
    name; structs and maps become JSON, and so do lists for a column of JSON, with DECIMAL, BINARY
    and times in it as texts; the database converts, and refuses what does not fit. As with any
    INSERT it rounds to a column's scale or precision (a large LONG in a `double precision`), and
    cuts what its type has no room for: the time for a `date`, the zone for a `timestamp`, blanks
    for a `varchar`, the end of a text for a `name` or `"char"`. A TIMESTAMP comes in the zone of
    Spark's session (`spark.sql.session.timeZone`): without its zone it is the time on a clock
    there. What has no zone is taken for UTC in a `timestamptz`. PostgreSQL gets values as text, so
    the number 20250101 becomes a `date`, 5 an `interval` of seconds, -1 the `oid` 4294967295, and
    BINARY hexadecimal digits in a `text`: cast them first if you do not mean that. A text for
    `money` is read as the server's `lc_monetary` says. The table's triggers and rules do their
    work; where they leave out rows, Spark's log has a warning. The role must be allowed to create
    tables in the target's schema. A re-created table takes the batches that follow. One that was
    restored from a backup, or is on a standby that was behind and took over, lacks batches that
    Spark does not repeat: `spark_batches` has the last one.

    Output modes: append, and, with `mode=upsert`, complete, for a streaming aggregate: its groups
    replace the existing ones. Spark has no `update` for sinks in Python.

    Batch write: `mode("append")` or `mode("overwrite")`, in one transaction. If the connection
    breaks during its commit, the job fails although its rows may be there. As after any TRUNCATE,
    whoever reads in a transaction of REPEATABLE READ that began before finds the table empty.

    Parallelism: batch: a task for each range. Streams: one task. Writing: one for each partition.
    Replay: any batch; of changes, any that Spark has not committed.
    Guarantee: reading: exactly once, for inserted rows on the conditions above. Writing a stream:
    exactly once, in all three modes; readers see a batch whole or not at all. But a crash of the
    server empties a table, or partition, that is UNLOGGED, and a foreign one may get a batch twice
    if its server's answer is lost; neither is noticed.

    Options:
    {options}

    `${env:NAME}` in `url` and `password` is an environment variable of the process that connects:
    the driver, and each worker.

    Settings: `client_encoding`, `TimeZone` (UTC: so a `timestamp` with DEFAULT now(), or a view
    with `::date`, may differ from what others get), `timezone_abbreviations`, `DateStyle` (ISO,
    YMD: 03/04/2025 is refused), `IntervalStyle`, `bytea_output`, `extra_float_digits`,
    `array_nulls`, `synchronous_commit`, the default isolation and all timeouts are set in each
    connection, whatever the server, the database, the role, the environment or `options` in the
    address say: no statement times out, and one that needs a lock waits for as long as
    `waitSeconds` says. `search_path` is left as it is: a `table` without a schema is the first of
    that name in it, so name the schema where it may change. Where the address leads to several
    servers (several hosts, a load balancer, an endpoint for readers), the driver may ask one, and a
    task another one that is behind: rows that this one does not have yet are **never read**.
    `target_session_attrs=primary` refuses standbys. A pooler must give each connection a session of
    its own (PgBouncer: `pool_mode=session`): else the next statement may find the server's settings
    instead of these, and they may round numbers in changes, turn nulls in arrays into texts, and
    let a crash take batches that count as written.

    TLS: put what libpq takes in its address into `url` or `service`. By default libpq encrypts if
    the server can, and trusts any server. `sslmode=verify-full` requires a certificate for the
    host's name, from an authority in `sslrootcert` (a file, by default `~/.postgresql/root.crt`;
    `system` for those of the operating system); `verify-ca` one for any name; `require` encrypts,
    and trusts any server. `sslcert` and `sslkey` are the client's own certificate. The files are
    read by the driver and by each worker.

    Row-level security: a batch and a stream of inserted rows have the rows that the role may see.
    The log knows no policies, and a snapshot that a policy would cut is refused.

    Types: what Spark has no type for comes as PostgreSQL's own text (json, uuid, enum, interval,
    inet, `char(5)` with its blanks …); NUMERIC without precision as DECIMAL(38,18). TIMESTAMP is
    `timestamptz`, TIMESTAMP_NTZ is `timestamp`. An array has one dimension, whatever its lower
    bound. A column has the type that it had when the query was started, or that `schema` gives it:
    of a column that is a `numeric` or a `double precision` now, a DOUBLE or FLOAT has rounded
    values; other values that do not fit are an error.

    Schema of changes: `operation` (insert, update, delete, truncate, snapshot), `key`, `before`,
    `after` (structs of the table's columns), `position`, `transaction`, `committed`.

    Errors: `ValueError` for wrong options and for values that do not fit, with the column;
    `ConnectionError` for a refusal, a certificate that is not trusted, or a database that is
    unavailable for longer than `waitSeconds`; `TimeoutError` for a lock; `LookupError` for a
    re-created table; `RuntimeError` where going on would lose or repeat rows: a slot that is gone
    or was moved, a publication without the table, a checkpoint that was set back. `url` and
    `password` appear in no error, and Spark redacts them.

    The ideas: Hazelcast Jet's JDBC connectors and map sinks, Flink's and Debezium's change streams.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[postgres]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.postgres import changes, inserted

        return changes.source if "slot" in self.options else inserted.source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.postgres.sink import sink

        return sink
