"""Format `cpu_log`: one line per row, with the time and the machine's CPU usage."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BooleanType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tutorial_pkg.connectors.cpu_log.checkpoint_plan import local_checkpoint, synced_plan
from tutorial_pkg.connectors.cpu_log.data_files import DATA_FILES
from tutorial_pkg.connectors.cpu_log.line_format import LINE_PATTERN, format_lines, parse_lines
from tutorial_pkg.connectors.cpu_log.monitor import cpu_monitor
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory
from tutorial_pkg.connectors.cpu_log.query_owner import this_job, this_owner
from tutorial_pkg.connectors.cpu_log.record import Staged
from tutorial_pkg.connectors.file_lines import (
    FILE_OPTIONS,
    FileLinesReader,
    FileLinesStreamReader,
    local_path,
)
from tutorial_pkg.core.lines import LAST_MILLIS
from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    OptionValues,
    boolean,
    documented,
    integer,
    local_directory,
)
from tutorial_pkg.core.spark_versions import (
    DataSourceStreamArrowWriter,
    stream_reader,
    warn_of_limits,
)
from tutorial_pkg.core.worker import freeze_imports, task_property, this_task

# ---- Options ---------------------------------------------------------------------------------


PATH = Option("path", local_directory, REQUIRED, "where the `data.<i>.csv` files are")
MAX_FILE_BYTES = Option(
    "maxFileBytes",
    integer(1, unit="bytes"),
    None,
    "writing: a file that would grow past it is followed by `data.<i>.1.csv` and so on; "
    "the cut falls between Arrow batches, so one of these may be longer",
)
FAIL_ON_DUPLICATES = Option(
    "failOnDuplicates",
    boolean,
    True,
    "writing: what to do when a checkpoint was set back and its batches would come again in "
    "another form: an error, or publish them too, which loses nothing and may repeat lines",
)
WRITE_OPTIONS = Options("cpu_log", (PATH, MAX_FILE_BYTES, FAIL_ON_DUPLICATES))
READ_OPTIONS = Options("cpu_log", (PATH, *FILE_OPTIONS[1:]))  # the files' own path is ours to say
ALL_OPTIONS = Options("cpu_log", (*WRITE_OPTIONS.declared.values(), *FILE_OPTIONS[1:]))

# ---- Data source -----------------------------------------------------------------------------


@documented(ALL_OPTIONS)
class CpuLogDataSource(DataSource):
    r"""Lines `epoch_millis,cpu_usage,item`, written batch by batch and read back as columns.

    Parallelism: partition *i* of the DataFrame grows `data.<i>.csv`; `repartition(2)` makes two.
    Replay: a batch that comes again is recognised by its query's id, its number and what Spark has
    planned for it in the checkpoint (`checkpoint_plan.py`), and not published again.
    Guarantee: exactly once. Tasks stage their lines, the commit records and then publishes them
    (`publish.py`); readers never see a line that is taken back. It holds when any process is
    killed, and through a power failure, because the plan is on disk before the batch is recorded.
    If a checkpoint was set back all the same, from a backup for example, a batch comes with an old
    number and other lines. Skipping it would lose lines, publishing it may repeat some, and a sink
    cannot know what is right. So this is an error, unless `failOnDuplicates` is false. Spark's own
    last note may be an empty file after a power failure; Spark then says "Incomplete log file".
    Delete that file (`find CHECKPOINT -type f -empty -delete`): Spark plans or repeats that batch,
    and nothing is lost or comes twice. A checkpoint on another file system (HDFS, S3), or without a
    place of its own, has no plan to look at: there the number decides, as in 0.1.0.

    Options:
    {options}

    Write: a single column is the item, several become `Row(name=value, ...)`. Columns that are not
    text appear as Arrow prints them; cast them to STRING for Spark's text. The time and the busy
    fraction of the machine, 0..1, are taken once per Arrow batch. A newline, carriage return or
    backslash in an item is written as `\n`, `\r`, `\\`, and a null as `\N`. A batch DataFrame needs
    `.mode("append")`: Python formats do not support Spark's default mode.

    Read: `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`. A line that does not have this
    format is kept whole in `item`; its other two columns are null.

    Errors: `ValueError` for a wrong option, a column without text form, or a mode that overwrites;
    `RuntimeError` when another query writes to the directory or holds its lock, when a checkpoint
    was set back, when a worker's machine sees another directory, or when one of the files is
    foreign, changed or damaged; `OSError` when the disk refuses. A streaming query starts in the
    background, so its errors, including those for options, are raised by `awaitTermination()`.

    Other queries: a second one that writes here is refused as soon as the first one commits again.
    Until then it waits, for up to ten seconds after the first one's last commit. So a query that
    was stopped while its driver lives on delays the next one a little. What a killed batch job has
    staged is removed by the next commit on its host. `_cpu_log/` is readable by its user only, and
    symbolic links are not followed. Anybody who may write to the directory itself can still replace
    what is in it.

    The idea: the custom sinks of Hazelcast Jet's tutorial, the two-phase commit of Flink's file
    sink, and the redo log of databases.
    """

    @classmethod
    def name(cls) -> str:
        return "cpu_log"

    def schema(self) -> str:
        # Asked for by `load()`: the time to say what is wrong.
        warn_of_limits(self.name(), _read_options(self.options))
        return "timestamp TIMESTAMP_LTZ, cpu_usage DOUBLE, item STRING"

    def writer(self, schema: StructType, overwrite: bool) -> CpuLogWriter:
        return CpuLogWriter(_checked(self.options, schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> CpuLogStreamWriter:
        return CpuLogStreamWriter(_checked(self.options, schema, overwrite), self.options)

    def reader(self, schema: StructType) -> FileLinesReader:
        return FileLinesReader(_read_options(self.options), parse_lines, whole_lines=True)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(FileLinesStreamReader(_read_options(self.options), parse_lines))


# ---- Writing ---------------------------------------------------------------------------------


@dataclass
class StagedByTask(WriterCommitMessage):
    """What one task tells the driver's commit."""

    query: str
    run: str
    host: str
    staged: list[Staged]
    checkpoints: str | None = None  # where the session keeps those that have no place of their own


class CpuLogStreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch: known by its query's id, its number and its plan in the checkpoint."""

    def __init__(self, options: OptionValues, given: Mapping[str, str]) -> None:
        freeze_imports()
        self._location = _of_spark(given, "checkpointLocation")
        self._query_name = _of_spark(given, "queryName")
        self._directory = _directory(options)
        self._directory.check_record()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
        query = task_property("sql.streaming.queryId")
        run = task_property("spark.jobGroup.id")  # Spark's job group of a query is its run
        checkpoints = this_task().getLocalProperty("spark.sql.streaming.checkpointLocation")
        staged = _stage(self._directory, query, iterator)
        return StagedByTask(query, run, os.uname().nodename, staged, checkpoints)

    def commit(self, messages: Sequence[StagedByTask | None], batchId: int) -> None:
        sent = [message for message in messages if message]
        if sent:
            _commit(self._directory, sent, batchId, self._plan(sent, batchId))

    def abort(self, messages: Sequence[StagedByTask | None], batchId: int) -> None:
        for query in {message.query for message in messages if message}:
            self._directory.sweep(query)

    def _plan(self, sent: Sequence[StagedByTask], batch: int) -> str | None:
        if not any(message.staged for message in sent):
            return None  # an empty batch is not recorded, so its plan need not be on the disk
        root = sent[0].checkpoints
        return synced_plan(local_checkpoint(self._location, root, self._query_name), batch)


class CpuLogWriter(DataSourceArrowWriter):
    """One batch job, with an id of its own: Spark never repeats its commit."""

    def __init__(self, options: OptionValues) -> None:
        self._directory = _directory(options)
        owner = this_job()
        self._directory.wait_for_turn(owner)
        self._job = owner.query

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
        staged = _stage(self._directory, self._job, iterator)
        return StagedByTask(self._job, self._job, os.uname().nodename, staged)

    def commit(self, messages: Sequence[StagedByTask | None]) -> None:
        sent = [message for message in messages if message]
        if sent:
            _commit(self._directory, sent, batch=None, plan=None)

    def abort(self, messages: Sequence[StagedByTask | None]) -> None:
        self._directory.sweep(self._job)


def _of_spark(given: Mapping[str, str], name: str) -> str | None:
    """What the user has told Spark with `.option` or by a method; Spark passes it to us, too."""
    return next((text for key, text in given.items() if key.lower() == name.lower()), None)


def _stage(
    directory: PublishedDirectory, query: str, batches: Iterator[pa.RecordBatch]
) -> list[Staged]:
    """The hot path: one pass per Arrow batch, no loop over rows."""
    freeze_imports()
    stage = directory.stage(query, this_task().partitionId())
    try:
        for batch in batches:
            if batch.num_rows:
                stage.write(format_lines(batch, int(time.time() * 1000), cpu_monitor().usage()))
        return stage.finish()
    except BaseException:
        stage.discard()
        raise


def _commit(
    directory: PublishedDirectory,
    sent: Sequence[StagedByTask],
    batch: int | None,
    plan: str | None,
) -> None:
    for message in sent:
        if message.host != os.uname().nodename:
            directory.check_sees(message.staged, message.host)
    owner = this_owner(sent[0].query, sent[0].run)
    directory.commit(owner, batch, [staged for message in sent for staged in message.staged], plan)


# ---- Checks before the first task ------------------------------------------------------------

_WITH_TEXT = (StringType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType)


def _checked(given: Mapping[str, str], schema: StructType, overwrite: bool) -> OptionValues:
    options = WRITE_OPTIONS.parse(given)
    if overwrite:
        raise ValueError(
            'format `cpu_log` only appends: use `.mode("append")` or '
            '`.outputMode("append")`; to begin anew, delete the directory'
        )
    _check_columns(schema)
    _check_path(Path(options.path))
    return options


def _check_columns(schema: StructType) -> None:
    if not schema.fields:
        raise ValueError("format `cpu_log`: the DataFrame has no column to write")
    for field in schema.fields:
        if not isinstance(field.dataType, _WITH_TEXT):
            raise ValueError(
                f"format `cpu_log`: column `{field.name}` of type "
                f"{field.dataType.simpleString()} has no text form; cast it to STRING first"
            )


def _check_path(path: Path) -> None:
    """`path` or the nearest folder above it that exists must be a folder to write in."""
    existing = next(at for at in (path, *path.absolute().parents) if os.access(at, os.F_OK))
    if not existing.is_dir():
        raise ValueError(
            f"format `cpu_log`: option `path` must be a directory, but {existing} is a file"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(
            f"format `cpu_log`: option `path` must be a directory to write in, but {existing} is "
            "read-only; choose another one, or change its permissions"
        )


def _directory(options: OptionValues) -> PublishedDirectory:
    return PublishedDirectory(options.path, options.maxFileBytes, options.failOnDuplicates)


# ---- Reading ---------------------------------------------------------------------------------


def _read_options(given: Mapping[str, str]) -> OptionValues:
    options = READ_OPTIONS.parse(given)
    options.path = local_path(str(Path(options.path) / DATA_FILES))
    return options


def parse_cpu_log(df: DataFrame) -> DataFrame:
    """The lines in column `value` as `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`.

    Works on any DataFrame of lines, streaming or not. A line that does not have this format, or
    whose time is past the year 9999, is kept whole in `item`; its other two columns are null.
    """
    value = F.col("value")
    millis, usage, item = (F.get(F.split(value, ",", 3), index) for index in range(3))
    millis = millis.try_cast("bigint")
    is_line = value.rlike(LINE_PATTERN) & (millis <= LAST_MILLIS)
    return df.select(
        F.when(is_line, F.timestamp_millis(millis)).alias("timestamp"),
        F.when(is_line, usage.cast("double")).alias("cpu_usage"),
        F.when(is_line, _restored(item)).otherwise(value).alias("item"),
    )


def _restored(item: Column) -> Column:
    # Cut at the escaped backslashes first: what is left of a backslash then starts an escape.
    parts = F.transform(F.split(item, r"\\\\"), _with_line_ends)
    return F.when(item != F.lit(r"\N"), F.array_join(parts, "\\"))


def _with_line_ends(text: Column) -> Column:
    newlines = F.replace(text, F.lit(r"\n"), F.lit("\n"))
    return F.replace(newlines, F.lit(r"\r"), F.lit("\r"))
