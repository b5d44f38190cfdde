"""Format `postgres`: its class, with the help that users read."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import LIMIT, Format, Options, documented
from tutorial_pkg.connectors.postgres.options import FORMAT, READ, WRITE

_ROWS = "rows in a batch; for changes: messages of the log, plus two for each transaction"


@documented(Options(FORMAT, (*WRITE, *READ, replace(LIMIT, meaning=_ROWS))))
class PostgresDataSource(Format):
    """Read, stream and write tables of a PostgreSQL database. Needs the extra `postgres`.

    - `spark.read` with `table` or `query`: rows as Arrow; with a `key` in parallel ranges. Filters
      become part of the `WHERE`.
    - `spark.readStream` with `table` and `key`: inserted rows, by a growing column of whole
      numbers. With several writers, set `awaitWriters`: otherwise late commits are never read.
    - `spark.readStream` with `table` and `slot`: every insert, update and delete, from the server's
      log; with `snapshot`, the existing rows first. Needs `wal_level=logical`, a role with
      REPLICATION that owns the table, and a primary key. The server keeps its log until Spark has
      committed: drop slot and publication when the query will never run again.
    - `writeStream`: `mode` append, upsert or merge, and the output mode complete with upsert.
    - `df.write` in the modes append and overwrite, in one transaction.

    Parallelism: batch: one task per range. Streams: one task. Writing: one task per partition.
    Replay: any batch; of changes, any batch that Spark hasn't committed.
    Guarantee: reading: exactly once. Writing a stream: exactly once in all three modes; readers see
        a batch whole or not at all. Conditions: docs/formats/postgres.md.

    Errors: `ValueError` for wrong options, and for values that don't fit, with the column;
    `ConnectionError` for a refusal, or a database that is away for longer than `waitSeconds`;
    `TimeoutError` for a lock; `LookupError` for a re-created table; `RuntimeError` if changes are
    missing. `url` and `password` appear in no error, and `${env:NAME}` in them is an
    environment variable of the driver and of each worker.

    Options:
    {options}

    Schema of changes: `operation` (insert, update, delete, truncate, snapshot), `key`, `before`,
    `after` (structs of the table's columns), `position`, `transaction`, `committed`.

    More in docs/formats/postgres.md: types, settings, TLS, and what a slot does to your server.
    The ideas: Hazelcast Jet's JDBC connectors and map sinks, Flink's and Debezium's change streams.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[postgres]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.postgres import changes, tables

        return changes.source if "slot" in self.options else tables.source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.postgres.sink import sink

        return sink
