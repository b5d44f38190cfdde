"""The format `objects`: what is in an object store, as a source and a sink."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import Format, Options, documented
from tutorial_pkg.connectors.objects.options import FORMAT, READ, WRITE


@documented(Options(FORMAT, (*READ, *(option for option in WRITE if option.name == "partitionBy"))))
class ObjectsDataSource(Format):
    """Objects of S3, Google Cloud Storage, Azure, or folders: lines, JSON, CSV, Avro, Parquet.

    `load("s3://bucket/prefix")`, or `gs://`, `az://container/prefix`, `file:///folder`. It needs no
    jar, but the extra `lake`. A stream reads objects as they appear; an object should never change.
    The sink writes each batch completely or not at all: readers of this format follow its
    manifests. A batch skips row groups of Parquet by the query's filters. Questions and answers:
    `docs/formats/objects.md`.

    Parallelism: reading: large objects of lines are cut, Parquet files between row groups; other
        objects are one piece. Writing: one task for each partition of the DataFrame.
    Replay: any batch, as long as its objects exist.
    Guarantee: reading: exactly once, with a checkpoint and an idempotent or transactional sink.
        Writing a stream: exactly once. In folders this holds through a power failure, too. The
        store must refuse to create an object that exists (`If-None-Match`); this is tested when a
        query starts.

    Options; `format` takes `lines` for reading only, `partitionBy` is for writing only:
    {options}

    and, for a stream, `maxFilesPerTrigger` (objects in a batch) and, for reading, `parallelism`
    (at least that many tasks, as long as each has 1 MB to read, or ten objects; by default as many
    as Spark runs at once).

    Schema: `value STRING` for `lines`. Parquet and Avro have that of the first object, or of
    `.schema(…)`. JSON lines and CSV need `.schema(…)`.

    With `deadLetters`, a batch goes on without objects that cannot be read, and records them there.

    Errors: `ValueError` for options, for values that a column cannot hold unchanged (with object
    and column), and for a checkpoint that was set back; `LookupError` for an object that is gone
    before it was read (see `failOnDataLoss`); `RuntimeError` for records of this format that are
    missing or damaged; `PermissionError` if the store refuses, or has archived an object;
    `ConnectionError` if it fails for longer than `waitSeconds`; `OSError` for a full disk.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[lake]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.objects.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.objects.sink import sink

        return sink
