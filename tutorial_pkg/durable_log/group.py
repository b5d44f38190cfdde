"""Numbered segment logs in one folder, and offsets over them.

The connector decides what a number is: a port of `network_lines`, an instance of a built source. A
number that a query no longer uses keeps its log until all of it has been read.
"""

from __future__ import annotations

import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.options import MOST
from tutorial_pkg.core.read_limit import Limits, Taken, shared
from tutorial_pkg.core.worker import cores
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import SegmentWriter, frames

# A slice is one task's work: small enough that all cores get some, large enough to start a task.
MIN_SLICE_BYTES = 1024 * 1024
MAX_SLICE_BYTES = 128 * 1024 * 1024

_ID_KEY = "log"  # in an offset's JSON, beside the numbers

OTHER_SOURCE = (
    "the checkpoint was written by another kind of source, so rows would be lost or duplicated: "
    "use a new checkpoint, or return to the source that wrote this one"
)
_LOST = (
    "It was deleted, truncated or replaced, so rows would be lost: restore it, or start again with "
    "a new log and a new checkpoint"
)


@dataclass(frozen=True)
class LogOffset:
    """The position of the next unread byte in each log.

    Attributes:
        positions: by the log's number; with several folders, by `folder/number`.
        ids: by folder, the id of its logs; the folder of a single group is "". Offsets of the first
            version have no ids.
    """

    positions: Mapping[str, int]
    ids: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> LogOffset:
        positions = {key: position for key, position in json.items() if key != _ID_KEY}
        if not all(isinstance(position, int) for position in positions.values()):
            raise ValueError(OTHER_SOURCE)
        ids = json.get(_ID_KEY) or {}
        return cls(positions, {"": ids} if isinstance(ids, str) else ids)

    def to_json(self) -> dict[str, Any]:
        in_order = sorted(self.positions, key=lambda key: (len(key), key))
        ids = self.ids.get("", self.ids)
        return {key: self.positions[key] for key in in_order} | ({_ID_KEY: ids} if ids else {})


@dataclass
class LogSlice(InputPartition):
    """One task's work: whole frames of a log, from position `start` to `end`."""

    number: str
    directory: Path
    start: int
    end: int


class Logs(ABC):
    """Numbered logs, for a query that reads them.

    `noun` is what errors call a number: "port", for example.
    """

    directory: Path
    noun: str

    def of(self, number: int | str) -> Path:
        """Return the folder of one log."""
        return self.directory / str(number)

    @abstractmethod
    def first(self) -> LogOffset:
        """Return the oldest positions that are still in the logs."""

    @abstractmethod
    def end(self) -> LogOffset:
        """Return where the next frames will be."""

    @abstractmethod
    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        """Return when more than `offset` is there, or after `seconds`."""

    def sync(self) -> LogOffset:
        """Put everything on disk that was appended, and return up to where that is."""
        return self.end()

    @abstractmethod
    def processed(self, offset: LogOffset) -> None:
        """The query has read up to `offset`."""

    @abstractmethod
    def delete_below(self, offset: LogOffset) -> None:
        """Delete segments that no batch after `offset` needs."""

    @abstractmethod
    def close(self) -> None:
        """Close the logs and release their lock."""

    def checked(self, offset: LogOffset) -> LogOffset:
        """Return an offset from a checkpoint, with the first positions of the logs that it lacks.

        Raises `ValueError` if it is not in these logs.
        """
        first, end = self.first(), self.end()
        for number, position in offset.positions.items():
            low, high = first.positions.get(number, 0), end.positions.get(number, 0)
            if not low <= position <= high:
                raise ValueError(
                    f"the query has read {self.noun} {number} up to position {position}, but the "
                    f"log {self.of(number)} holds {low} to {high}. {_LOST}"
                )
        if not offset.ids.items() <= end.ids.items():  # further folders may have been added
            raise ValueError(
                f"the checkpoint belongs to the log with the id {offset.ids.get('', offset.ids)}, "
                f"but that in {self.directory} has {end.ids.get('', end.ids)}. {_LOST}"
            )
        return LogOffset({**first.positions, **offset.positions}, offset.ids)

    def limited(self, start: LogOffset, end: LogOffset, limits: Limits) -> LogOffset:
        """Return how far one batch may go from `start` towards `end`.

        A batch has whole frames, at least one of each log that has something. Those logs share the
        limits.
        """
        if limits == Limits():
            return end
        begin, last = {**self.first().positions, **start.positions}, end.positions
        waiting = {number: at - begin[number] for number, at in last.items() if begin[number] < at}

        def take(number: str, share: Limits) -> Taken:
            taken = Taken(begin[number])
            for frame in frames(self.of(number), begin[number], last[number]):
                more = Taken(frame.end, taken.rows + frame.rows, taken.size + frame.payload_bytes)
                if frame.position > begin[number] and share.forbid(more):  # the first one counts
                    break
                taken = more
            return taken

        return LogOffset({**last, **shared(waiting, limits, take)}, end.ids)

    def slices(self, start: LogOffset, end: LogOffset) -> Iterator[LogSlice]:
        """Cut the frames between two offsets into work for all cores."""
        begin = {**self.first().positions, **start.positions}
        total = sum(last - begin[number] for number, last in end.positions.items())
        size = max(MIN_SLICE_BYTES, min(total // cores(), MAX_SLICE_BYTES))
        for number, last in end.positions.items():
            at = begin[number]
            for frame in frames(self.of(number), at, last):
                if frame.end - at >= size or frame.end >= last:
                    yield LogSlice(number, self.of(number), at, frame.end)
                    at = frame.end


class LogGroup(Logs):
    """The logs in `directory`, open for writing: those of `numbers`, and older ones.

    Its id is created with the directory and stays. An offset with a different id belongs to a log
    that is gone. The logs are `full` when `max_backlog_bytes` wait for the query.

    Raises `LogLockedError` and `LogDamagedError`.
    """

    def __init__(
        self, directory: Path, numbers: Iterable[int], noun: str, max_backlog_bytes: int = MOST
    ) -> None:
        self.directory, self.noun = directory, noun
        self._max_backlog_bytes = max_backlog_bytes
        self._lock = WriterLock(directory)
        id_file = directory / "id"
        if not id_file.is_file():
            replace_file(id_file, uuid.uuid4().hex[:8])
        self.id = id_file.read_text()
        folders = [path.name for path in directory.iterdir() if path.is_dir()]  # copies, too
        older = [int(name) for name in folders if re.fullmatch(r"0|[1-9][0-9]*", name)]
        self._appended = threading.Event()
        self.writers = {
            number: SegmentWriter(self.of(number), appended=self._appended)
            for number in sorted({*older, *numbers})
        }
        self._processed = {number: log.first for number, log in self.writers.items()}

    @property
    def full(self) -> bool:
        """Whether writing should pause until the query has caught up."""
        return sum(map(self.backlog, self.writers)) >= self._max_backlog_bytes

    def backlog(self, number: int) -> int:
        """Return the bytes in one log that wait for the query."""
        return self.writers[number].end - self._processed[number]

    def processed(self, offset: LogOffset) -> None:
        self._processed |= {int(number): at for number, at in offset.positions.items()}

    def first(self) -> LogOffset:
        return self._offset(lambda log: log.first)

    def end(self) -> LogOffset:
        return self._offset(lambda log: log.end)

    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        self._appended.clear()
        if self.end().positions == offset.positions:
            self._appended.wait(seconds)

    def sync(self) -> LogOffset:
        return self._offset(lambda log: log.sync())

    def delete_below(self, offset: LogOffset) -> None:
        for number, log in self.writers.items():
            log.delete_below(offset.positions.get(str(number), 0))

    def close(self) -> None:
        for log in self.writers.values():
            log.close()
        self._lock.release()

    def _offset(self, position: Callable[[SegmentWriter], int]) -> LogOffset:
        positions = {str(number): position(log) for number, log in self.writers.items()}
        return LogOffset(positions, {"": self.id})


def is_of_logs(offset: Mapping[str, Any]) -> bool:
    """Return whether an offset's JSON belongs to numbered logs, and to no other source."""
    numbers = offset.keys() - {_ID_KEY}
    return bool(numbers) and all(map(str.isdigit, numbers)) and _ID_KEY in offset
