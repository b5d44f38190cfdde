"""Spark's reader of a source that keeps its rows in numbered logs: offsets, limits, tasks.

A connector adds two things: a *producer*, which appends to the logs while a query runs, and the way
from frames to rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader

from tutorial_pkg.core.options import REQUIRED, Option, OptionValues, integer, local_directory
from tutorial_pkg.core.read_limit import limits_of, read_limit
from tutorial_pkg.core.spark_versions import ReadLimit, SupportsTriggerAvailableNow
from tutorial_pkg.core.waiting import Patience
from tutorial_pkg.core.worker import freeze_imports
from tutorial_pkg.durable_log.group import LogGroup, LogOffset, Logs, LogSlice
from tutorial_pkg.durable_log.segments import Frame, read_frames

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES = 1024 * 1024

Framed = tuple[Frame, memoryview]


class Producer(Protocol):
    """Appends to the logs on separate threads, until `close`."""

    def raise_failure(self) -> None:
        """Raise the error that ended a thread, if one did."""

    def close(self) -> None:
        """Stop appending."""


class LogReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Opens the logs at the first call about offsets, and then starts the producer.

    `options` has `path`, `maxBacklogBytes`, `maxRowsPerTrigger` and `maxBytesPerTrigger`. With the
    trigger `availableNow` no producer starts: the query reads what is in the logs, and stops.
    """

    def __init__(self, options: OptionValues, numbers: Sequence[int], noun: str) -> None:
        self.options = options
        self._numbers, self._noun = numbers, noun
        self._opened: Logs | None = None
        self._producer: Producer | None = None
        self._drain_to: LogOffset | None = None
        self._patience = Patience()

    def open_logs(self) -> Logs:
        """Open the logs for writing; a connector may return logs that it only reads."""
        path, most = Path(self.options.path).resolve(), self.options.maxBacklogBytes
        return LogGroup(path, self._numbers, self._noun, most)

    @abstractmethod
    def start_producer(self, logs: LogGroup) -> Producer:
        """Start appending to the logs of `numbers`. Pause while the group is `full`."""

    @abstractmethod
    def to_batch(self, frames: list[Framed], number: str) -> pa.RecordBatch:
        """Return the rows of neighboring frames, in a task, from nothing but the options."""

    def initialOffset(self) -> dict[str, Any]:
        return self._logs().first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return read_limit(self.options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = self._checked(start)
        self._logs().processed(begin)
        if self._drain_to is None:
            self._produce()
            self._patience.wait(lambda seconds: self._logs().wait_for_more(begin, seconds))
        newest = self._drain_to or self._logs().sync()
        self._patience.answer(newest.positions != begin.positions)
        limits = limits_of(self.options, limit)
        return self._logs().limited(begin, newest, limits).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._logs().end().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._drain_to = self._logs().sync()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[LogSlice]:
        return list(self._logs().slices(self._checked(start), self._checked(end)))

    def read(self, partition: LogSlice) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        frames, size = list[Framed](), 0
        for frame, payload in read_frames(partition.directory, partition.start, partition.end):
            frames.append((frame, payload))
            size += len(payload)
            if size >= BATCH_BYTES or frame.end >= partition.end:
                yield self.to_batch(frames, partition.number)
                frames, size = [], 0

    def commit(self, end: dict[str, Any]) -> None:
        self._logs().delete_below(LogOffset.from_json(end))

    def stop(self) -> None:
        if self._producer:
            self._producer.close()
        if self._opened:
            self._opened.close()

    def _logs(self) -> Logs:
        if self._opened is None:
            self._opened = self.open_logs()
        return self._opened

    def _checked(self, offset: dict[str, Any]) -> LogOffset:
        return self._logs().checked(LogOffset.from_json(offset))

    def _produce(self) -> None:
        """Start the producer the first time; a separate receiver needs none."""
        logs = self._logs()
        if isinstance(logs, LogGroup):
            self._producer = self._producer or self.start_producer(logs)
            self._producer.raise_failure()


def log_options(rows: str, log: str) -> tuple[Option, ...]:
    """Return the options that a `LogReader` needs: a `log` ("port") has `rows` ("lines")."""
    frames = f"in whole frames, at least one of each {log}"
    return (
        Option("path", local_directory, REQUIRED, "the folder of the log, for one source alone"),
        Option(
            "maxBacklogBytes",
            integer(1, unit="bytes"),
            1024**3,
            f"{rows} in the logs of all {log}s that wait for the query; at this size the "
            "source pauses until the query has caught up",
        ),
        Option("maxBytesPerTrigger", integer(1, unit="bytes"), None, f"size of a batch, {frames}"),
        Option("maxRowsPerTrigger", integer(1), None, f"{rows} in a batch, {frames}"),
    )
