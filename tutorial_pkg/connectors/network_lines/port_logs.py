"""The segment logs of all ports together: what an offset by port means for them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tutorial_pkg.core.segment_log import Frame, SegmentWriter, WriterLock, frames

# A slice is one task's work: small enough for all cores to have some, but worth starting a task.
MIN_SLICE_BYTES = 1024 * 1024
MAX_SLICE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class Offset:
    """By port, the position of the next unread byte in its log."""

    positions: Mapping[int, int]

    @classmethod
    def from_json(cls, json: Mapping[str, int]) -> Offset:
        return cls({int(port): position for port, position in json.items()})

    def to_json(self) -> dict[str, int]:
        return {str(port): position for port, position in sorted(self.positions.items())}


@dataclass(frozen=True)
class Slice:
    """Whole frames of the log in `directory`, from position `start` to `end`."""

    directory: Path
    start: int
    end: int


class PortLogs:
    """The logs in `directory`, those of `ports` and older ones, held by the lock for writing.

    Raises `LogLockedError` and `LogDamagedError`.
    """

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self.directory = directory
        self._lock = WriterLock(directory)
        old = {int(found.name) for found in directory.iterdir() if found.name.isdigit()}
        self.writers = {
            port: SegmentWriter(directory / str(port)) for port in sorted({*old, *ports})
        }

    def first(self) -> Offset:
        """The oldest positions that are still there."""
        return Offset({port: log.first for port, log in self.writers.items()})

    def end(self) -> Offset:
        return Offset({port: log.end for port, log in self.writers.items()})

    def sync(self) -> Offset:
        """Put on disk what was appended so far, and return up to where that is."""
        return Offset({port: log.sync() for port, log in self.writers.items()})

    def with_all_ports(self, offset: Offset) -> Offset:
        """A port that `offset` does not know is read from its log's beginning."""
        unknown = self.writers.keys() - offset.positions.keys()
        begins = {port: self.writers[port].first for port in unknown}
        return Offset({**begins, **offset.positions})

    def check(self, offset: Offset) -> None:
        """Raise `ValueError` if `offset`, from a checkpoint, is not in the logs."""
        first, end = self.first().positions, self.end().positions
        for port, position in offset.positions.items():
            low, high = first.get(port, 0), end.get(port, 0)
            if not low <= position <= high:
                raise ValueError(
                    f"the checkpoint has read port {port} up to position {position}, but the log "
                    f"{self.directory / str(port)} holds {low} to {high}. It was deleted, cut or "
                    "exchanged, so lines would be lost: restore it, or start anew with a new "
                    "checkpoint"
                )

    def limited(self, start: Offset, end: Offset, rows: int | None, size: int | None) -> Offset:
        """As far from `start` towards `end` as one batch of `rows` and `size` bytes may go.

        The ports that have something share the limits; each may give at least one frame.
        """
        waiting = [port for port in end.positions if start.positions[port] < end.positions[port]]
        positions = dict(end.positions)
        for port in waiting:
            found = frames(self._of(port), start.positions[port], end.positions[port])
            positions[port] = _limit(found, _share(rows, waiting), _share(size, waiting))
        return Offset(positions)

    def slices(self, start: Offset, end: Offset) -> Iterator[tuple[int, Slice]]:
        """Cut what lies between two offsets into work for all cores, each with its port."""
        lengths = {port: last - start.positions[port] for port, last in end.positions.items()}
        share = sum(lengths.values()) // (os.cpu_count() or 1)
        size = max(MIN_SLICE_BYTES, min(share, MAX_SLICE_BYTES))
        for port, last in end.positions.items():
            found = frames(self._of(port), start.positions[port], last)
            for first, following in _cut(found, size):
                yield port, Slice(self._of(port), first, following)

    def delete_below(self, offset: Offset) -> None:
        """Delete segments that no batch after `offset` needs."""
        for port, log in self.writers.items():
            log.delete_below(offset.positions.get(port, 0))

    def close(self) -> None:
        for log in self.writers.values():
            log.close()
        self._lock.release()

    def _of(self, port: int) -> Path:
        return self.directory / str(port)


def _share(limit: int | None, waiting: Sequence[int]) -> float:
    return math.inf if limit is None else limit / len(waiting)


def _limit(found: Iterator[Frame], max_rows: float, max_bytes: float) -> int:
    """Where the last frame within the limits ends; the first frame always counts as within."""
    first = next(found)
    position, rows, size = first.end, first.rows, first.payload_bytes
    for frame in found:
        rows, size = rows + frame.rows, size + frame.payload_bytes
        if rows > max_rows or size > max_bytes:
            break
        position = frame.end
    return position


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
