"""What a task reads: byte ranges of files, cut so that all cores take part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from tutorial_pkg.connectors.file_lines.line_file import CutOffError, LineFile, text_of
from tutorial_pkg.connectors.file_lines.rotation import Planned, reopen
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.worker import cores, freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

# A task costs some 15 ms, so its part must be worth it, and small enough to be balanced.
_LEAST_PART_BYTES = 8 << 20
_MOST_PART_BYTES = 128 << 20

log = logging.getLogger(__name__)

ToBatch = Callable[["pa.StringArray"], "pa.RecordBatch"]


@dataclass(frozen=True)
class FileRange:
    """The lines that start in `start`..`stop` of a file that was planned to be read.

    `start` of the first range of a file and `stop` of its last are where lines begin; those
    between them may lie within a line.
    """

    file: Planned
    start: int
    stop: int


class FilePartition(InputPartition):
    """What one task reads: a part of a big file, or several small files."""

    def __init__(self, ranges: list[FileRange]) -> None:
        self.ranges = ranges


# ---- Planning --------------------------------------------------------------------------------


def partitions_of(files: list[Planned]) -> list[FilePartition]:
    """Parts of big files get a task each, small files share one."""
    size = _part_bytes(files)
    partitions: list[FilePartition] = []
    room = 0
    for part in (part for file in files for part in _split(file, size)):
        if part.stop - part.start > room:
            partitions.append(FilePartition([]))
            room = size
        partitions[-1].ranges.append(part)
        room -= part.stop - part.start
    return partitions


def _part_bytes(files: list[Planned]) -> int:
    """As Spark does for its own files: all cores take part, unless the parts get too small."""
    total = sum(file.end - file.begin for file in files)
    return min(_MOST_PART_BYTES, max(_LEAST_PART_BYTES, -(-total // cores())))


def _split(file: Planned, most: int) -> Iterator[FileRange]:
    """Cut into equal parts of at most `most` bytes."""
    size = file.end - file.begin
    parts = -(-size // most)
    cuts = [file.begin + size * i // parts for i in range(parts + 1)]
    for start, stop in pairwise(cuts):
        yield FileRange(file, start, stop)


# ---- Reading ---------------------------------------------------------------------------------


def read_partition(
    partition: FilePartition, options: OptionValues, to_batch: ToBatch
) -> Iterator[pa.RecordBatch]:
    """One record batch a chunk, so that memory stays flat however big the file is."""
    from tutorial_pkg.core.lines import to_lines  # with Arrow, which planning does not need

    freeze_imports()
    for part in partition.ranges:
        for position, chunk in _chunks(part, options):
            yield to_batch(to_lines(text_of(chunk, position)))


def _chunks(part: FileRange, options: OptionValues) -> Iterator[tuple[int, bytes]]:
    """The lines of a range, each chunk with its position, from wherever they are by now."""
    done: int | None = None
    while source := _reopened(part, options):
        file, end = source
        with file:
            try:
                for position, chunk in _chunks_of(file, end, part, done):
                    done = position
                    yield position - len(chunk), chunk
                return
            except CutOffError:  # while it was read: the next round finds what is left of it
                if part.file.check is None:
                    raise


def _chunks_of(
    file: LineFile, end: int, part: FileRange, position: int | None
) -> Iterator[tuple[int, bytes]]:
    """Each chunk, with the position behind it, if the file was whole *after* that was read."""
    if position is None:
        position = file.first_line_start(part.start, end)
    stop = file.first_line_start(min(part.stop, end), end)
    _check_whole(file, end, part.file)
    for chunk in file.chunks(position, stop):
        _check_whole(file, end, part.file)
        position += len(chunk)
        yield position, chunk


def _check_whole(file: LineFile, end: int, planned: Planned) -> None:
    is_copy = end < planned.end
    if planned.check is None or is_copy or file.holds(end, planned.check, planned.head):
        return
    raise CutOffError(f"{file.path} was truncated while being read")


def _reopened(part: FileRange, options: OptionValues) -> tuple[LineFile, int] | None:
    """What is left of a file; None if that is nothing, and `failOnDataLoss` is false."""
    try:
        file, end = reopen(part.file, options.maxLineBytes)
    except FileNotFoundError as error:
        if options.failOnDataLoss:
            raise
        log.warning("%s. Lost: %d bytes.", error, part.stop - part.start)
        return None
    if end < part.stop:
        _warn_of_gap(part, end, file.path)
    return file, end


def _warn_of_gap(part: FileRange, end: int, copy: str) -> None:
    log.warning(
        "%s was truncated, and its copy %s has its lines up to byte %d only. What came between "
        "copying and truncating is gone. Lost: %d bytes.",
        part.file.path,
        copy,
        end,
        part.stop - max(part.start, end),
    )
