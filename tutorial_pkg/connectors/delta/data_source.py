"""The format `delta_py`: tables of Delta Lake, as a source and a sink."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import Format, Options, documented
from tutorial_pkg.connectors.delta.options import FORMAT, READ, WRITE

_SHARED = {option.name for option in READ}


@documented(Options(FORMAT, (*READ, *(option for option in WRITE if option.name not in _SHARED))))
class DeltaDataSource(Format):
    """Tables of Delta Lake, made by any tool, without a jar.

    `load("s3://bucket/table")`, or `gs://`, `az://container/table`, `file:///folder`. The name
    `delta` belongs to the jar's format. The client is delta-rs: `pip install 'tutorial_pkg[lake]'`.
    Tested on folders and on an S3 server (SeaweedFS). Nobody has tried `gs://` yet, and on Azurite,
    an emulator of Azure's store, delta-rs itself fails from the third version on.

    Batch: the table as it is, or as it was in `version`.

    Stream of appended rows: first all rows of the table, then those that each version adds. The
    offset is the version. Compacting changes no rows, so it does not show. A version that deletes
    or updates rows ends the query, unless `rewritten=skip` leaves it out.

    Stream of changes, with `changes`: for tables with `delta.enableChangeDataFeed`. After the
    table's columns come `_change_type` (insert, delete, update_preimage, update_postimage),
    `_commit_version LONG` and `_commit_timestamp TIMESTAMP`. One task reads them.

    Writing: tasks write Parquet files, and one commit adds them, together with the batch's number,
    as an application transaction. `mode=upsert` replaces rows with the same `key`; then a batch has
    to fit into the driver's memory, and has each key once at most. It also takes the output mode
    `complete`; a row that an aggregation drops then stays. A missing table is created. Several
    queries, and other tools, may write to one table: whichever commits second tries again. Files of
    failed task attempts are removed by VACUUM (`DeltaTable(…).vacuum()`). `df.write` works with
    `mode("append")`.

    Parallelism: reading: `parallelism` tasks share the files. Writing: one for each partition.
    Replay: any batch whose versions are still in the table's log and not removed by VACUUM.
    Guarantee: reading: exactly once, with a checkpoint and an idempotent or transactional sink.
        Writing a stream: exactly once, in both modes; readers see a batch whole or not at all.

    `mode`, `key`, `evolve` and `partitionBy` are for writing, `maxVersionsPerTrigger` (versions in
    a batch) is for streams.

    Options:
    {options}

    Credentials: as in format `objects`.

    Schema: that of the table. A row's columns are found by name and must have the table's types;
    those that it lacks are null, or with `mode=upsert` keep their values in an existing row. A
    column that the table lacks is an error, or `evolve` adds it. A stream ends at a version that
    gives the table a new column; a newly created DataFrame continues from there. In a partition
    column an empty text becomes null, as Delta's log has none; BINARY cannot be a partition column.

    Not supported: tables with column mapping; when reading, deletion vectors; when writing, tables
    with constraints, generated or identity columns, or nested values that must not be null. If
    partition values contain spaces and the like, delta-rs itself does not find the changes of
    updated or deleted rows; the query then ends.

    Errors: `ValueError` for options, and for rows or tables that do not fit; `RuntimeError` where
    going on would lose or repeat rows: a table that was re-created (it has a new id) or set back, a
    version that its log has forgotten, a checkpoint that was set back; `ConnectionError` where the
    store cannot be reached for `waitSeconds`, or refuses.

    The ideas: Delta Lake's transaction log, and the source and the sink of its jar for Spark.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[lake]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.delta.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.delta.sink import sink

        return sink
