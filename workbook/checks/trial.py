"""Try a learner's sink or source as Spark would, but in this process and in milliseconds.

What travels between Spark's processes is pickled here as well, so that `self` is forgotten where
Spark forgets it, and offsets go through JSON as they do in a checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tutorial_pkg.core.errors import last_error
from workbook.checks.verdict import Wrong

MOST_PIECES = 10_000  # that a part is read in: the trials have a few rows


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@contextmanager
def as_task(partition: int, attempt: int = 0, batch: int = 0) -> Iterator[None]:
    """Within it `TaskContext.get()` is that of a task of the query "q", for this partition."""
    context: Any = object.__new__(TaskContext)
    context._partitionId, context._attemptNumber = partition, attempt
    context._taskAttemptId = partition + 1000 * attempt
    context._stageId, context._localProperties = (
        0,
        {
            "sql.streaming.queryId": "q",
            "streaming.sql.batchId": str(batch),
        },
    )
    before, TaskContext._taskContext = TaskContext._taskContext, context
    try:
        yield
    finally:
        TaskContext._taskContext = before


def copied(thing: Any) -> Any:
    """What another process would have of it."""
    return cloudpickle.loads(cloudpickle.dumps(thing))


def written(
    writer: Any, parts: Sequence[Iterable[Any]], attempt: int = 0, batch: int = 0
) -> list[WriterCommitMessage | None]:
    """The messages of tasks, one for each part, that write with a copy of `writer`.

    A part holds rows, or record batches where the writer takes these.
    """
    messages = []
    for number, rows in enumerate(parts):
        with as_task(number, attempt, batch):
            messages.append(copied(copied(writer).write(iter(rows))))
    return messages


def left_open(writer: Any, rows: Iterable[Any], folder: Path) -> bool:
    """Whether all files are still empty when a task's `write` has returned.

    The task's writer is alive then: its process outlives the task.
    """
    with as_task(0):
        task = copied(writer)
        task.write(iter(rows))
        return not any(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def rows_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    """The values that tasks read between two offsets."""
    found: list[str] = []
    for number, part in enumerate(reader.partitions(as_json(start), as_json(end))):
        with as_task(number):
            for pieces, piece in enumerate(copied(reader).read(copied(part))):
                if pieces == MOST_PIECES:
                    raise Wrong(
                        f"`read` did not end: from {start} to {end} it gave more than {pieces:,} "
                        "rows or batches. Does it wait for more bytes than the file has?"
                    )
                found += _values(piece)
    return found


def _values(piece: Any) -> list[str]:
    return piece.column(0).to_pylist() if isinstance(piece, pa.RecordBatch) else [piece[0]]


def latest(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    offset: dict[str, Any] = as_json(reader.latestOffset(as_json(start), ReadAllAvailable()))
    return offset


def as_json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def broken_off(items: Iterable[Any]) -> Iterator[Any]:
    """The items, and then an error, as when a task's input fails half-way."""
    yield from items
    raise OSError("the power fails")


def breaks_off(call: Callable[..., Any], *arguments: Any) -> bool:
    """Whether the OSError of `broken_off` comes out of the call, or another error because of it."""
    try:
        call(*arguments)
    except Exception as error:
        if isinstance(error, OSError) or isinstance(error.__context__, OSError):
            return True
        raise
    return False


class Renamed(NamedTuple):
    """A file that got another name: which it had, what it held, and what readers saw before."""

    file: Path
    target: Path
    text: str
    visible: dict[str, str]


@contextmanager
def renames(folder: Path, readers_see: str) -> Iterator[list[Renamed]]:
    """Within it, all files that are renamed; readers see what matches in the folder."""
    seen: list[Renamed] = []

    def notice(file: Path, target: Path) -> None:
        visible = texts(folder, readers_see)
        seen.append(Renamed(file, target, file.read_text(), visible))

    _watchers.append(notice)
    try:
        yield seen
    finally:
        _watchers.remove(notice)


_watchers: list[Callable[[Path, Path], None]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Python calls it before a file gets another name, however the function was imported."""
    if event in ("os.rename", "os.link"):  # the first of os.replace, too
        for notice in _watchers:
            notice(*(Path(os.fsdecode(name)) for name in arguments[:2]))


sys.addaudithook(_audit)


def texts(folder: Path, readers_see: str) -> dict[str, str]:
    """What readers see: the text of each file, by its name."""
    return {file.name: file.read_text() for file in folder.glob(readers_see)}


def run_to_end(writer: DataStreamWriter, folder: Path) -> None:
    """Run a real query over all there is, with its checkpoint in the folder."""
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    ended: bool | None = True
    with suppress(StreamingQueryException):  # told below, in a line
        ended = query.awaitTermination(60)
    if query.exception():
        raise Wrong(f"In a real query it raised {last_error(query)}")
    if not ended:
        query.stop()
        raise Wrong(
            "In a real query it was not done after a minute: does it wait for what never comes, or "
            "keep a place where other processes do not see it, as in the class?"
        )


def context_of(index: int = 0, count: int = 1, **options: Any) -> SimpleNamespace:
    """What the builder hands to `create`."""
    return SimpleNamespace(index=index, count=count, options=SimpleNamespace(**options))


class Buffer:
    """Stands for the builder's buffer: what `fill` adds."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.tokens: list[Any] = []
        self.closed = False

    def add(self, row: Any, token: Any = None) -> None:
        self.rows.append(row)
        self.tokens += [token] if token is not None else []

    def close(self) -> None:
        self.closed = True
