"""Format `cpu_log`: one line per row, with the time and the machine's CPU usage."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from tutorial_pkg.core.cpu_log_lines import LINE_PATTERN, format_lines, parse_lines, text_bytes
from tutorial_pkg.core.cpu_monitor import CpuMonitor
from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    documented,
    integer,
    not_empty,
)
from tutorial_pkg.core.publish import DATA_FILES, Owner, PublishedDirectory, Staged

OPTIONS = Options(
    "cpu_log",
    [
        Option("path", not_empty, REQUIRED, "a directory", "where the `data.<i>.csv` files are"),
        Option(
            "maxFileBytes",
            integer(1),
            None,
            "a number of bytes from 1",
            "a file that would grow past it is followed by `data.<i>.1.csv` and so on",
        ),
    ],
)


@documented(OPTIONS)
class CpuLogDataSource(DataSource):
    r"""Lines `epoch_millis,cpu_usage,item`: written batch by batch, read back as three columns.

    Write: every row of any DataFrame becomes a line; partition *i* grows `data.<i>.csv`.
    Read: `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`.
    A batch DataFrame needs `.mode("append")`: Spark's default mode is not for Python formats.

    Options: {options}
    """

    @classmethod
    def name(cls) -> str:
        return "cpu_log"

    def schema(self) -> str:
        return "timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING"

    def writer(self, schema: StructType, overwrite: bool) -> CpuLogWriter:
        return CpuLogWriter(_checked(OPTIONS.parse(self.options), overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> CpuLogStreamWriter:
        return CpuLogStreamWriter(_checked(OPTIONS.parse(self.options), overwrite))

    def reader(self, schema: StructType) -> CpuLogReader:
        return CpuLogReader(OPTIONS.parse(self.options))


@dataclass
class StagedByTask(WriterCommitMessage):
    """What one task tells the driver's commit."""

    query: str
    run: str
    staged: list[Staged]


class CpuLogStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SimpleNamespace) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
        task = TaskContext.get()
        query = task.getLocalProperty("sql.streaming.queryId")
        run = task.getLocalProperty("spark.jobGroup.id")
        return StagedByTask(query, run, _stage(_directory(self._options), query, iterator))

    def commit(self, messages: Sequence[StagedByTask | None], batchId: int) -> None:
        _commit(_directory(self._options), messages, batchId)

    def abort(self, messages: Sequence[StagedByTask | None], batchId: int) -> None:
        _abort(_directory(self._options), messages)


class CpuLogWriter(DataSourceArrowWriter):
    def __init__(self, options: SimpleNamespace) -> None:
        self._options = options
        self._job = f"batch-{uuid.uuid4()}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedByTask:
        staged = _stage(_directory(self._options), self._job, iterator)
        return StagedByTask(self._job, self._job, staged)

    def commit(self, messages: Sequence[StagedByTask | None]) -> None:
        _commit(_directory(self._options), messages, None)

    def abort(self, messages: Sequence[StagedByTask | None]) -> None:
        _abort(_directory(self._options), messages)


class CpuLogReader(DataSourceReader):
    def __init__(self, options: SimpleNamespace) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        files = sorted(Path(self._options.path).glob(DATA_FILES))
        return [InputPartition(str(file)) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is None:
            return
        text = Path(partition.value).read_bytes().decode()
        yield parse_lines(pa.array(text.split("\n")[:-1], pa.string()))


def parse_cpu_log(df: DataFrame) -> DataFrame:
    """The lines in column `value` as `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`.

    A line that is not of the format is kept whole in `item`; its other two columns are null.
    """
    value = F.col("value")
    millis, usage, item = (F.get(F.split(value, ",", 3), index) for index in range(3))
    is_line = value.rlike(LINE_PATTERN)
    return df.select(
        F.when(is_line, F.timestamp_millis(millis.cast("bigint"))).alias("timestamp"),
        F.when(is_line, usage.cast("double")).alias("cpu_usage"),
        F.when(is_line, _restored(item)).otherwise(value).alias("item"),
    )


def _restored(item):
    # Cut at the escaped backslashes first: what is left of a backslash then starts an escape.
    parts = F.transform(
        F.split(item, r"\\\\"),
        lambda part: F.replace(
            F.replace(part, F.lit(r"\n"), F.lit("\n")), F.lit(r"\r"), F.lit("\r")
        ),
    )
    return F.when(item != F.lit(r"\N"), F.array_join(parts, "\\"))


@cache
def _monitor() -> CpuMonitor:
    """One per worker process: Spark reuses them, so the reference outlives a task."""
    return CpuMonitor()


def _checked(options: SimpleNamespace, overwrite: bool) -> SimpleNamespace:
    if overwrite:
        raise ValueError(
            "format `cpu_log` appends: use mode `append` (batch) or output mode `append` "
            "(streaming); to begin anew, delete the directory"
        )
    return options


def _directory(options: SimpleNamespace) -> PublishedDirectory:
    return PublishedDirectory(Path(options.path), options.maxFileBytes)


def _stage(
    directory: PublishedDirectory, query: str, batches: Iterator[pa.RecordBatch]
) -> list[Staged]:
    stage = directory.stage(query, TaskContext.get().partitionId())
    try:
        for batch in batches:
            if batch.num_rows:
                lines = format_lines(batch, int(time.time() * 1000), _monitor().usage())
                stage.write(memoryview(text_bytes(lines)))
    except BaseException:
        stage.discard()
        raise
    return stage.finish()


def _commit(
    directory: PublishedDirectory, messages: Sequence[StagedByTask | None], batch: int | None
) -> None:
    staged = [piece for message in messages if message for piece in message.staged]
    first = next(message for message in messages if message)
    owner = Owner(first.query, first.run, os.uname().nodename, os.getppid(), 0.0)
    directory.commit(owner, batch, staged)


def _abort(directory: PublishedDirectory, messages: Sequence[StagedByTask | None]) -> None:
    for query in {message.query for message in messages if message}:
        directory.sweep(query)
