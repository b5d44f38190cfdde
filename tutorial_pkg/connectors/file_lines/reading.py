"""The byte ranges of files that tasks read, cut so that all cores take part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from tutorial_pkg.connectors.file_lines.line_file import (
    CutOffError,
    LineFile,
    TrackedFile,
    reopen,
)
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.worker import cores, freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

# A task costs some 15 ms, so its part must be worth it, and small enough to be balanced.
_LEAST_PART_BYTES = 8 << 20
_MOST_PART_BYTES = 128 << 20

LONG_LINE = "%s: skipped a line of %d bytes at byte %d: more than option `maxLineBytes` allows."

log = logging.getLogger(__name__)

ToBatch = Callable[["pa.StringArray"], "pa.RecordBatch"]


@dataclass(frozen=True)
class FileRange:
    """The lines that start in `start`..`stop` of a file.

    The first range of a file starts where a line begins, and the last one stops where a line ends.
    The positions between them may lie within a line. `file` is at the end of what was planned. A
    `once` range belongs to a batch query: nothing is known of the file's content then.
    """

    file: TrackedFile
    start: int
    stop: int
    once: bool = False


def partitions_of(ranges: list[FileRange]) -> list[InputPartition]:
    """Give the parts of big files a task each, and let small files share one."""
    total = sum(whole.stop - whole.start for whole in ranges)
    size = min(_MOST_PART_BYTES, max(_LEAST_PART_BYTES, -(-total // cores())))
    partitions, room = [InputPartition([])], size
    for whole in ranges:
        for start in range(whole.start, whole.stop, size):
            stop = min(start + size, whole.stop)
            if stop - start > room:
                partitions.append(InputPartition([]))
                room = size
            partitions[-1].value.append(replace(whole, start=start, stop=stop))
            room -= stop - start
    return partitions


def read_partition(
    partition: InputPartition, options: OptionValues, to_batch: ToBatch
) -> Iterator[pa.RecordBatch]:
    """Yield one record batch for each chunk, so memory stays flat however big the file is."""
    from tutorial_pkg.core.lines import to_lines  # with Arrow, which planning does not need

    freeze_imports()
    for _, text in chunks_of(partition.value, options):
        yield to_batch(to_lines(text))


def chunks_of(ranges: Iterable[FileRange], options: OptionValues) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of ranges as `LineFile.chunks` does, from wherever the files are by now."""
    for part in ranges:
        while lines := _open(part, options):
            with lines:
                try:
                    for end, text in _chunks(lines, part):
                        part = replace(part, start=end)
                        yield end, text
                    break
                except CutOffError:  # while it was read: look for the rest elsewhere
                    if part.once:
                        raise


def _chunks(lines: LineFile, part: FileRange) -> Iterator[tuple[int, bytes]]:
    """Yield each chunk if the file was still the same *after* the chunk was read."""
    start = lines.first_line_start(part.start, part.file.next)
    stop = lines.first_line_start(part.stop, part.file.next)
    _check_same(lines, part)
    skip = None if part.once else partial(log.warning, LONG_LINE, lines.path)
    for chunk in lines.chunks(start, stop, skip):
        _check_same(lines, part)
        yield chunk


def _check_same(lines: LineFile, part: FileRange) -> None:
    if not part.once and not lines.holds(part.file):
        raise CutOffError(f"{lines.path} was truncated while being read")


def _open(part: FileRange, options: OptionValues) -> LineFile | None:
    """Open the file of a range; None if it is gone, and `failOnDataLoss` is false."""
    if part.once:
        return LineFile(part.file.path, options.maxLineBytes)
    if lines := reopen(part.file, options.maxLineBytes):
        return lines
    if options.failOnDataLoss:
        raise FileNotFoundError(
            f"{part.file.path} is gone or was rewritten, and its bytes {part.start} to {part.stop} "
            "belong to a batch that has to be read again; put it back, or set option "
            "`failOnDataLoss` to false to continue without them"
        )
    log.warning("%s is gone. Lost: %d bytes.", part.file.path, part.stop - part.start)
    return None
