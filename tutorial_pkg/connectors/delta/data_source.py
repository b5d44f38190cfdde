"""The format `delta_py`: tables of Delta Lake, as a source and a sink."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import Format, Options, documented
from tutorial_pkg.connectors.delta.options import FORMAT, READ, WRITE

_SHARED = {option.name for option in READ}


@documented(Options(FORMAT, (*READ, *(option for option in WRITE if option.name not in _SHARED))))
class DeltaDataSource(Format):
    """Tables of Delta Lake, made by any tool, without a jar.

    `load("s3://bucket/table")`, or `gs://`, `az://container/table`, `file:///folder`. It needs the
    extra `lake`; the client is delta-rs. A stream reads all rows of the table, then those that each
    version adds; with `changes`, it reads the table's change feed. The sink appends, or replaces
    rows by their key. A batch skips files and row groups by the query's filters. Questions and
    answers: `docs/formats/delta_py.md`.

    Parallelism: reading: `parallelism` tasks share the files; one reads changes. Writing: one task
        for each partition of the DataFrame; an upsert is merged in the driver.
    Replay: any batch, as long as the table's log has its versions, and VACUUM has kept their files.
    Guarantee: reading: exactly once, with a checkpoint and an idempotent or transactional sink.
        Writing a stream: exactly once, in both modes; readers see a batch completely or not at all.
        In folders this holds through a power failure, too. A store must refuse to create an object
        that exists (`If-None-Match`); this is tested when a query starts.

    `mode`, `key`, `evolve` and `partitionBy` are for writing, `maxVersionsPerTrigger` (versions in
    a batch) is for streams.

    Options:
    {options}

    Schema: that of the table. With `changes`, these columns follow: `_change_type`,
    `_commit_version LONG` and `_commit_timestamp TIMESTAMP`.

    Errors: `ValueError` for options, for rows or tables that do not fit, and for a checkpoint that
    was set back; `RuntimeError` if resuming would lose or repeat rows: a table that was re-created
    or set back, a version that its log has lost, a damaged commit; `PermissionError` if the store
    refuses; `ConnectionError` if it cannot be reached for `waitSeconds`; `OSError` for a full disk.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[lake]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.delta.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.delta.sink import sink

        return sink
