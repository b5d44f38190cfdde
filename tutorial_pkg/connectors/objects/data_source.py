"""The format `objects`: what is in an object store, as a source and a sink."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource

from tutorial_pkg.builder import Format, Options, documented
from tutorial_pkg.connectors.objects.options import FORMAT, READ, WRITE


@documented(Options(FORMAT, (*READ, *(option for option in WRITE if option.name == "partitionBy"))))
class ObjectsDataSource(Format):
    """Objects of S3, Google Cloud Storage, Azure, or files: read as they come, written whole.

    `load("s3://bucket/prefix")`, or `gs://`, `az://container/prefix`, `file:///folder`. No jar: one
    client in Python, `pip install 'tutorial_pkg[lake]'`. Tested on folders and on an S3 server
    (SeaweedFS). `az://` was tried by hand on Azurite, an emulator of Azure's store, with `endpoint`
    `http://HOST:PORT/ACCOUNT`; `gs://` by hand and in reading only, on fake-gcs-server, an emulator
    that does not know the requests with which the client writes. In a bucket with versioning, the
    current versions count (tried by hand on SeaweedFS).

    An object is read as soon as it is there, and should never change: write a new one under a new
    name. For files that grow there is `file_lines`. Names that begin with `_` or `.` are left out,
    and in a folder those that end with `#` and digits, which the client uses while it writes.

    Batch: all objects that are there when the query is planned.

    Stream: objects as they appear, whatever their names and times: every look lists everything
    below `path`, unless `keysGrow` says that this is not needed. What was found is recorded in the
    store, so an offset is one number. These notes may be deleted together with the checkpoint. A
    replaced object is recognised by its tag.

    Writing: each task uploads objects that do not count yet; a manifest for the whole batch makes
    them count, and only one writer can write it. Read the folder with this format, and you see
    whole batches only: it follows the manifests. Other tools see each object when it is uploaded,
    also those of a batch that is not finished. What dead tasks leave behind is removed with later
    batches of the same query. With `partitionBy` the folders are named `column=value`, as in other
    tools; the columns are in the files, too. `df.write` works with `mode("append")`.

    Parallelism: reading: large objects of lines are cut, Parquet files between row groups; other
        objects are one piece. Writing: one task for each partition of the DataFrame.
    Replay: any batch, as long as its objects are there.
    Guarantee: reading: exactly once, with a checkpoint and an idempotent or transactional sink.
        Writing a stream: exactly once.

    Options; `format` takes `lines` for reading only, `partitionBy` is for writing only:
    {options}

    and, for a stream, `maxFilesPerTrigger` (objects in a batch) and, for reading, `parallelism`
    (at least that many tasks, as long as each has 1 MB to read, or ten objects; by default as many
    as Spark runs at once).

    Credentials: what the client finds in the environment of the driver and of the workers, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; a variable must be set before Spark starts. Or use
    `store.*` with names of variables: `option("store.secret_access_key", "${env:LAKE_KEY}")`.

    Schema: of `lines` it is `value STRING`. Parquet and Avro: that of the first object, or of
    `.schema(…)`; columns that an object lacks are null, and those that are not asked for are left
    out. JSON lines and CSV need `.schema(…)`. A column whose name differs only in case is an error,
    except in JSON lines. So is a CSV header with none of the columns. Values in folders' names
    (`day=1/`) do not become columns.

    Compressed objects are those that end with `.gz` or `.bz2`; other names of compressed files are
    an error. Parquet files are written with checksums, and a damaged one is an error.

    Values: a null is a missing key or `null` in JSON lines, an empty field without quotes in CSV
    (`""` is an empty text). Times that are texts are in ISO 8601. Moments are written in UTC, and
    times without a zone are TIMESTAMP_NTZ. Nanoseconds are cut to microseconds. Decimals are texts
    in JSON lines, so that no digit is lost. Unsigned numbers become wider ones. Nested columns are
    in Parquet, Avro and JSON lines, maps and BINARY in the first two only. Avro's enums and UUIDs
    are texts; a union of null and one type is that type. INT96 is TIMESTAMP, as Spark writes it;
    dates before 1582-10-15 that Spark 2 has written count in the Julian calendar, and are not
    changed. In CSV a quote within quotes is doubled: let Spark write with `option("escape", '"')`,
    because the backslash that it writes otherwise would stay in the value. A quote that is never
    closed takes all that follows, and a number beyond a DOUBLE is infinity, as one beyond a FLOAT
    is in CSV and JSON lines. Texts that are not UTF-8: see `file_lines`.

    Errors: `ValueError` for options, and for rows that do not fit, with the object's name;
    `RuntimeError` where going on would lose or repeat rows: notes that are gone, an object that
    was deleted or replaced before it was read, a checkpoint that was set back; `PermissionError`
    when the store refuses; `ConnectionError` when it fails for longer than `waitSeconds`.

    The ideas: Spark's file source and its log of files; Delta Lake's conditional commits.
    """

    format, install = FORMAT, "pip install 'tutorial_pkg[lake]'"

    def source(self) -> type[DataSource]:
        from tutorial_pkg.connectors.objects.source import source

        return source

    def sink(self) -> type[DataSource]:
        from tutorial_pkg.connectors.objects.sink import sink

        return sink
