"""The sink of `cpu_log`: tasks stage lines, the driver's side commits them (`publish`)."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
import zlib
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DateType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from tutorial_pkg.builder import (
    REQUIRED,
    BatchContext,
    Option,
    OptionValues,
    SinkBuilder,
    SinkContext,
    TargetContext,
    boolean,
    integer,
    local_directory,
)
from tutorial_pkg.connectors.cpu_log.line_format import format_lines
from tutorial_pkg.connectors.cpu_log.monitor import cpu_monitor
from tutorial_pkg.connectors.cpu_log.publish import PublishedDirectory, crash_point
from tutorial_pkg.connectors.cpu_log.record import Batch, Staged
from tutorial_pkg.core.disk import naming, sync_directory

PATH = Option("path", local_directory, REQUIRED, "the directory of the `data.<i>.csv` files")
WRITE_OPTIONS = (
    PATH,
    Option(
        "maxFileBytes",
        integer(1, unit="bytes"),
        None,
        "writing: when a file is followed by `data.<i>.1.csv`; a single Arrow batch may be longer",
    ),
    Option(
        "failOnDuplicates",
        boolean,
        True,
        "writing: whether a checkpoint that was set back is an error, or may duplicate lines",
    ),
)

_WITH_TEXT = (StringType, BooleanType, NumericType, DateType, TimestampType, TimestampNTZType)


class Stage:
    """The lines of one task attempt, in files that no reader looks at.

    The first file is created with the first line, and with `maxFileBytes` there may be several.
    """

    def __init__(self, directory: PublishedDirectory, query: str, partition: int) -> None:
        self._directory, self._query, self._partition = directory, query, partition
        self._finished: list[Staged] = []
        self._path: Path | None = None
        self._length = self._crc32 = 0

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append a line for each row: the hot path, without a loop over the rows."""
        if batch.num_rows:
            self.write(format_lines(batch, int(time.time() * 1000), cpu_monitor().usage()))

    def write(self, lines: bytes) -> None:
        limit = self._directory.max_file_bytes
        if self._path is None or (limit and self._length + len(lines) > limit):
            self._finish_file()
            self._path = self._directory.staged_path(f"{self._query}.{uuid.uuid4().hex}")
            self._file = self._path.open("xb", buffering=0)
            self._length = self._crc32 = 0
        rest = memoryview(lines)
        with naming(self._path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._crc32 = zlib.crc32(lines, self._crc32)
        self._length += len(lines)

    def finish(self) -> list[Staged]:
        """Sync the files, and return what the commit has to know about them."""
        crash_point("staging")
        self._finish_file()
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Delete the files of a task that has failed."""
        if self._path:
            self._file.close()
            self._path.unlink(missing_ok=True)
        for staged in self._finished:
            self._directory.staged_path(staged.name).unlink(missing_ok=True)

    def _finish_file(self) -> None:
        if self._path:
            with self._file, naming(self._path):
                os.fsync(self._file.fileno())
            name, self._path = self._path.name, None
            self._finished.append(Staged(name, self._partition, self._length, self._crc32))


def create(context: SinkContext) -> Stage:
    return Stage(_directory(context.options), context.query, context.index)


def commit(context: BatchContext, handles: list[list[Staged]]) -> None:
    staged = [file for handle in handles for file in handle]
    number = context.batch if context.streaming else None
    plan = read_plan(context.checkpoint, context.batch) if staged else None
    batch = Batch(context.query, context.run, number, plan)
    _directory(context.options).commit(batch, staged)


def abort(context: BatchContext, handles: list[list[Staged]]) -> None:
    _directory(context.options).sweep(context.query)


def read_plan(checkpoint: str | None, batch: int) -> str | None:
    """Return a digest of what Spark has planned for a batch, or None if that is unknown.

    The plan is Spark's file `offsets/N`. A repeated batch has the same one, byte for byte; one that
    was planned again has a new timestamp in it. Spark does not sync its checkpoint, so this does:
    after a power failure, a recorded batch needs its plan.
    """
    try:
        folder = Path(local_directory(checkpoint or ""))
    except ValueError:  # another file system, or none
        return None
    plan = folder / "offsets" / str(batch)
    if not plan.is_file():
        return None
    for path in (folder / "metadata", folder, plan, plan.parent):
        sync_directory(path)
    return hashlib.sha256(plan.read_bytes()).hexdigest()


def _directory(options: OptionValues) -> PublishedDirectory:
    return PublishedDirectory(options.path, options.maxFileBytes, options.failOnDuplicates)


def check(context: TargetContext) -> None:
    """Raise `ValueError` for columns that the sink cannot write."""
    if not context.schema.fields:
        raise ValueError("format `cpu_log`: the DataFrame has no column to write")
    for field in context.schema:
        if not isinstance(field.dataType, _WITH_TEXT):
            raise ValueError(
                f"format `cpu_log`: column `{field.name}` of type "
                f"{field.dataType.simpleString()} has no text form; cast it to STRING first"
            )


sink = (
    SinkBuilder.stream("cpu_log", create)
    .receive_batch(Stage.write_rows)
    .flush(Stage.finish)
    .destroy(Stage.close)
    .commit(commit)
    .abort(abort)
    .check(check)
    .options(*WRITE_OPTIONS)
    .retry(seconds=0)  # nothing here is remote
    .also_batch()
    .build()
)
