"""Several segment logs in one directory, each with a number: what an offset by number means.

What the numbers stand for is the connector's affair: ports of `network_lines`, instances of a
source that was built. A number that a query no longer uses keeps its log until that is read.
"""

from __future__ import annotations

import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutorial_pkg.core.disk import replace_file
from tutorial_pkg.core.read_limit import Limits, Taken, shared
from tutorial_pkg.core.worker import cores
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import Frame, SegmentWriter, frames

# A slice is one task's work: small enough for all cores to have some, but worth starting a task.
MIN_SLICE_BYTES = 1024 * 1024
MAX_SLICE_BYTES = 128 * 1024 * 1024

_ID_FILE = "id"
_ID_KEY = "log"  # in an offset's JSON, beside the numbers


Number = int | str  # of a log; behind the name of its folder, where there are several


@dataclass(frozen=True)
class LogOffset:
    """By number, the position of the next unread byte in its log.

    `log` is the id of the group that the positions are in, or by the folder's name the ids of
    several; offsets of version 0.1.0 have none.
    """

    positions: Mapping[Number, int]
    log: str | Mapping[str, str] | None = None

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> LogOffset:
        positions = {_number(key): json[key] for key in json if key != _ID_KEY}
        if not all(isinstance(at, int) for at in positions.values()):
            raise ValueError(OTHER_SOURCE)
        return cls(positions, json.get(_ID_KEY))

    def to_json(self) -> dict[str, Any]:
        known = {} if self.log is None else {_ID_KEY: self.log}
        in_order = sorted(self.positions.items(), key=lambda each: (str(type(each[0])), each[0]))
        return {str(number): at for number, at in in_order} | known


@dataclass(frozen=True)
class LogSlice:
    """Whole frames of the log `number` in `directory`, from position `start` to `end`."""

    number: Number
    directory: Path
    start: int
    end: int


class Logs(ABC):
    """Logs by number: what an offset over them means to a query that reads them."""

    directory: Path
    id: str | Mapping[str, str]
    _noun: str

    def of(self, number: Number) -> Path:
        return self.directory / str(number)

    @abstractmethod
    def first(self) -> LogOffset:
        """The oldest positions that are still there."""

    @abstractmethod
    def end(self) -> LogOffset:
        """Where the next frames will be."""

    @abstractmethod
    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        """Return when more than `offset` was appended, or after `seconds`."""

    @abstractmethod
    def sync(self) -> LogOffset:
        """Put on disk what was appended so far, and return up to where that is."""

    def processed(self, offset: LogOffset) -> None:  # noqa: B027 -- who writes need not be told
        """The query has come to `offset`."""

    @abstractmethod
    def delete_below(self, offset: LogOffset) -> None:
        """Delete segments that no batch after `offset` needs."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the logs."""

    def completed(self, offset: LogOffset) -> LogOffset:
        """A log that `offset` does not know is read from its beginning."""
        return LogOffset({**self.first().positions, **offset.positions}, offset.log)

    def check(self, offset: LogOffset) -> None:
        """Raise `ValueError` if `offset`, from a checkpoint, is not in these logs."""
        first, end = self.first().positions, self.end().positions
        for number, position in offset.positions.items():
            low, high = first.get(number, 0), end.get(number, 0)
            if not low <= position <= high:
                raise ValueError(
                    f"the checkpoint has read {self._noun} {number} up to position {position}, but "
                    f"the log {self.of(number)} holds {low} to {high}. {_LOST}"
                )
        if offset.log is not None and not _same(offset.log, self.id):
            raise ValueError(
                f"the checkpoint belongs to the log with the id {offset.log}, but that in "
                f"{self.directory} has {self.id}. {_LOST}"
            )

    def limited(self, start: LogOffset, end: LogOffset, limits: Limits) -> LogOffset:
        """As far from `start` towards `end` as one batch may go: in whole frames, one at least.

        The logs that have something share the limits.
        """
        begin, last = self.completed(start).positions, end.positions
        if limits == Limits():
            return end
        waiting = {number: at - begin[number] for number, at in last.items() if begin[number] < at}

        def take(number: Number, share: Limits) -> Taken:
            return _within(share, frames(self.of(number), begin[number], last[number]))

        return LogOffset({**last, **shared(waiting, limits, take)}, end.log)

    def slices(self, start: LogOffset, end: LogOffset) -> Iterator[LogSlice]:
        """Cut what lies between two offsets into work for all cores."""
        begin = self.completed(start).positions
        lengths = [last - begin[number] for number, last in end.positions.items()]
        size = max(MIN_SLICE_BYTES, min(sum(lengths) // cores(), MAX_SLICE_BYTES))
        for number, last in end.positions.items():
            found = frames(self.of(number), begin[number], last)
            for first, following in _cut(found, size):
                yield LogSlice(number, self.of(number), first, following)


class LogGroup(Logs):
    """The logs in `directory`, those of `numbers` and older ones, held by the lock for writing.

    `id` is made with the directory and stays: an offset that names another one belongs to a log
    that is gone. `noun` says in errors what a number is.

    Raises `LogLockedError` and `LogDamagedError`.
    """

    def __init__(self, directory: Path, numbers: Iterable[int], noun: str) -> None:
        self.directory = directory
        self._noun = noun
        self._lock = WriterLock(directory)
        self.id = _id_of(directory)
        self._appended = threading.Event()
        self.writers = {
            number: SegmentWriter(self.of(number), appended=self._appended)
            for number in sorted({*_numbers_in(directory), *numbers})
        }

    def first(self) -> LogOffset:
        return self._offset({number: log.first for number, log in self.writers.items()})

    def end(self) -> LogOffset:
        return self._offset({number: log.end for number, log in self.writers.items()})

    def wait_for_more(self, offset: LogOffset, seconds: float) -> None:
        self._appended.clear()
        if self.end().positions == offset.positions:
            self._appended.wait(seconds)

    def sync(self) -> LogOffset:
        return self._offset({number: log.sync() for number, log in self.writers.items()})

    def delete_below(self, offset: LogOffset) -> None:
        for number, log in self.writers.items():
            log.delete_below(offset.positions.get(number, 0))

    def check_end(self, processed: Mapping[int, int]) -> None:
        """Raise `ValueError` if a query has processed more of a log than there is.

        What came into it now would soon stand where the query is, and be passed over.
        """
        for number, position in processed.items():
            end = self.writers[number].end
            if position > end:
                raise ValueError(
                    f"the query has read {self._noun} {number} up to position {position}, but the "
                    f"log {self.of(number)} ends at {end}. {_LOST}, and without the file "
                    "`query/reported.json`"
                )

    def close(self) -> None:
        for log in self.writers.values():
            log.close()
        self._lock.release()

    def _offset(self, positions: Mapping[Number, int]) -> LogOffset:
        return LogOffset(positions, self.id)


class Backlog:
    """The bytes in the logs, by number, that the query has not processed yet."""

    def __init__(self, logs: Mapping[int, SegmentWriter], max_bytes: int) -> None:
        self.logs = logs
        self._max_bytes = max_bytes
        self._processed = {number: log.first for number, log in logs.items()}

    def processed(self, positions: Mapping[Any, int]) -> None:
        """Note up to where the query has processed each log."""
        self._processed |= positions

    def of(self, number: int) -> int:
        return self.logs[number].end - self._processed[number]

    @property
    def full(self) -> bool:
        return sum(map(self.of, self.logs)) >= self._max_bytes


def is_of_logs(offset: Mapping[str, Any]) -> bool:
    """Whether an offset's JSON is that of logs by number, and of no other source."""
    numbers = offset.keys() - {_ID_KEY}
    return bool(numbers) and all(map(str.isdigit, numbers)) and _ID_KEY in offset


OTHER_SOURCE = (
    "the checkpoint was written by another kind of source, so rows would be lost or come again: "
    "use a new checkpoint, or go back to the source that wrote this one"
)
_LOST = (
    "It was deleted, truncated or replaced, so rows would be lost: restore it, or start again with "
    "a new checkpoint"
)


def _same(known: str | Mapping[str, str], now: str | Mapping[str, str]) -> bool:
    """Whether ids are those of before; of several folders, new ones may have come."""
    if isinstance(known, str) or isinstance(now, str):
        return known == now
    return known.items() <= now.items()


def _number(key: str) -> Number:
    return int(key) if key.isdigit() else key


def _numbers_in(directory: Path) -> list[int]:
    """The existing logs; other names, such as a copy of one, are not ours."""
    names = [found.name for found in directory.iterdir() if found.is_dir()]
    return [int(name) for name in names if re.fullmatch(r"0|[1-9][0-9]*", name)]


def _id_of(directory: Path) -> str:
    """The id of the logs in `directory`, made when there is none: the first time, or by 0.1.0."""
    file = directory / _ID_FILE
    if not file.is_file():
        replace_file(file, uuid.uuid4().hex[:8])
    return file.read_text()


def _within(limits: Limits, found: Iterator[Frame]) -> Taken:
    """Up to the last frame within the limits; the first frame always counts as within."""
    first = next(found)
    taken = Taken(first.end, first.rows, first.payload_bytes)
    for frame in found:
        more = Taken(frame.end, taken.rows + frame.rows, taken.size + frame.payload_bytes)
        if limits.forbid(more):
            break
        taken = more
    return taken


def _cut(found: Iterable[Frame], size: int) -> Iterator[tuple[int, int]]:
    """Start and end of runs of frames of at least `size` bytes; the last may be shorter."""
    start: int | None = None
    end = 0
    for frame in found:
        start, end = frame.position if start is None else start, frame.end
        if end - start >= size:
            yield start, end
            start = None
    if start is not None:
        yield start, end
