"""Format `file_lines`: the lines of text files, as a batch or as they are appended."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.file_lines.file_search import (
    FoundFile,
    find_files,
    local_path,
    names_of,
)
from tutorial_pkg.connectors.file_lines.line_file import LineFile, open_if_same, text_of
from tutorial_pkg.connectors.file_lines.tailing import FileOffset, Limits, Tail, limited
from tutorial_pkg.core.lines import EVENT_TIME, MODE, lines_batch, lines_schema, to_lines
from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    choice,
    documented,
    integer,
    not_empty,
)
from tutorial_pkg.core.read_limit import read_limit
from tutorial_pkg.core.worker import settle

# A task costs some 15 ms, so its part must be worth it, and small enough to be balanced.
_LEAST_PART_BYTES = 8 << 20
_MOST_PART_BYTES = 128 << 20

# ---- Options ---------------------------------------------------------------------------------

FILE_OPTIONS = (
    Option("path", not_empty, REQUIRED, "a file, directory or glob", "the files to read"),
    Option(
        "startFrom",
        choice("earliest", "latest"),
        "earliest",
        "earliest or latest",
        "whether a new streaming query reads what is in the files already",
    ),
    Option(
        "maxBytesPerTrigger",
        integer(1),
        None,
        "a number of bytes from 1",
        "about how much one streaming batch takes: lines that start within it are taken whole",
    ),
    Option(
        "maxRowsPerTrigger",
        integer(1),
        None,
        "a number of lines from 1",
        "how many lines one streaming batch takes at most",
    ),
    Option(
        "maxLineBytes",
        integer(1 << 20, 1 << 30),
        64 << 20,
        "1048576..1073741824 bytes",
        "a longer line is an error: this bounds the memory that a task may need",
    ),
)
OPTIONS = Options("file_lines", (*FILE_OPTIONS, EVENT_TIME, MODE))


def parse_file_options(options: Options, given: Mapping[str, str]) -> SimpleNamespace:
    """The values of `options`, among them FILE_OPTIONS, with `path` made absolute."""
    values = options.parse(given)
    values.path = local_path(values.path)
    return values


# ---- Data source -----------------------------------------------------------------------------


@documented(OPTIONS)
class FileLinesDataSource(DataSource):
    """Lines of text files: `value STRING`, with `eventTime` also `event_time TIMESTAMP`.

    Parallelism: files are split by byte range, so that one big file uses all cores.
    Replay: a batch is read again from the same byte ranges, as long as files are only appended to.
    Guarantee: every complete line once from the source on; with an idempotent sink exactly once.

    {options}

    A line ends with a newline; one carriage return before it is dropped, and so is a byte-order
    mark at a file's start. What is not UTF-8 becomes U+FFFD. Names that start with `.` or `_` and
    what is no regular file are left out of directories and globs. The files must have the same
    path on all nodes of a cluster.

    Streaming tails: it holds half a line back until its newline comes. A file is known again by
    its inode or its path, and by the bytes before the next unread one. A *renamed* file is read
    to its end under any name in its directory. A *truncated or rewritten* file is read from its
    start, and what was unread before from its copy (`copytruncate`), if one lies beside it, has
    a name that goes on from its own, and is not matched by `path`; without one the log warns.
    A *deleted* file is forgotten, with a warning. Two names of one file are one file. Between two
    looks a query cannot see more than one file come and go under a name that `path` matches.

    Errors: `ValueError` for a wrong option, a path that means nothing (batch), a compressed file,
    a line longer than `maxLineBytes`, or under FAILFAST a malformed line; `FileNotFoundError` if
    a batch that is to be read again has lost its file.

    The idea: Flink's file source and `tail -F`.
    """

    @classmethod
    def name(cls) -> str:
        return "file_lines"

    def schema(self) -> str:
        return lines_schema(parse_file_options(OPTIONS, self.options))

    def reader(self, schema: StructType) -> FileLinesReader:
        options = parse_file_options(OPTIONS, self.options)
        return FileLinesReader(options, partial(lines_batch, options=options))

    def streamReader(self, schema: StructType) -> FileLinesStreamReader:
        options = parse_file_options(OPTIONS, self.options)
        return FileLinesStreamReader(options, partial(lines_batch, options=options))


# ---- Reading byte ranges, for batch and streaming --------------------------------------------

ToBatch = Callable[[pa.StringArray], pa.RecordBatch]


@dataclass(frozen=True)
class FileRange:
    """The lines that start in `start`..`stop` of a file whose lines up to `end` are wanted.

    `start` of the first range of a file and `stop` of its last are where lines begin; those
    between them may lie within a line. `check` is that of `end`, or None if nothing is to be
    checked.
    """

    path: str
    id: str
    start: int
    stop: int
    end: int
    check: str | None = None


class FilePartition(InputPartition):
    """What one task reads: a part of a big file, or several small files."""

    def __init__(self, ranges: list[FileRange]) -> None:
        self.ranges = ranges


def partitions_of(files: list[FileRange]) -> list[FilePartition]:
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


def _part_bytes(files: list[FileRange]) -> int:
    """As Spark does for its own files: all cores take part, unless the parts get too small."""
    total = sum(file.stop - file.start for file in files)
    per_core = -(-total // (os.cpu_count() or 1))
    return min(_MOST_PART_BYTES, max(_LEAST_PART_BYTES, per_core))


def _split(whole: FileRange, most: int) -> Iterator[FileRange]:
    """Cut into equal parts of at most `most` bytes."""
    size = whole.stop - whole.start
    parts = -(-size // most)
    cuts = [whole.start + size * i // parts for i in range(parts + 1)]
    for start, stop in pairwise(cuts):
        yield replace(whole, start=start, stop=stop)


def read_partition(
    partition: FilePartition, options: SimpleNamespace, to_batch: ToBatch
) -> Iterator[pa.RecordBatch]:
    """One record batch a chunk, so that memory stays flat however big the file is."""
    settle()
    for part in partition.ranges:
        with open_range(part, options.maxLineBytes) as file:
            position = file.first_line_start(part.start, part.end)
            stop = file.first_line_start(part.stop, part.end)
            for chunk in file.chunks(position, stop):
                yield to_batch(to_lines(text_of(chunk, position)))
                position += len(chunk)


def open_range(part: FileRange, max_line_bytes: int) -> LineFile:
    """Open the file that has what was planned, though it may have been renamed since."""
    if part.check is None:
        return LineFile(part.path, max_line_bytes)
    for path in names_of(part.path, part.id):
        file = open_if_same(path, part.end, part.check, max_line_bytes)
        if file:
            return file
    raise FileNotFoundError(
        f"{part.path} is gone or was rewritten, and its bytes up to {part.end} belong to a batch "
        "that has to be read again; put it back, or start with a new checkpoint directory"
    )


# ---- Batch -----------------------------------------------------------------------------------


class FileLinesReader(DataSourceReader):
    """Reads what the files hold at the time of planning.

    With `whole_lines` it stops at each file's last newline: what follows is being written.
    """

    def __init__(
        self, options: SimpleNamespace, to_batch: ToBatch, whole_lines: bool = False
    ) -> None:
        self.options = options
        self.to_batch = to_batch
        self.whole_lines = whole_lines

    def partitions(self) -> list[FilePartition]:
        path = self.options.path
        files = [file for file in find_files(path) if file.matches]
        if not files:
            raise ValueError(f"option `path`: no file at {path}; correct it, or write the file")
        ends = [self._end(file) for file in files]
        ranges = [
            FileRange(file.path, file.id, 0, end, end)
            for file, end in zip(files, ends, strict=True)
            if end
        ]
        return partitions_of(ranges) or [FilePartition([])]

    def read(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _end(self, file: FoundFile) -> int:
        if not self.whole_lines:
            return file.size
        with LineFile(file.path, self.options.maxLineBytes) as lines:
            return lines.last_line_end(0, file.size)


# ---- Streaming: the reader -------------------------------------------------------------------


class FileLinesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tails the files: all progress is in the offset, and nothing is open between two calls."""

    def __init__(self, options: SimpleNamespace, to_batch: ToBatch) -> None:
        self.options = options
        self.to_batch = to_batch
        self._until: dict[str, int] | None = None
        self._available: FileOffset | None = None

    def initialOffset(self) -> dict[str, Any]:
        nothing_read = FileOffset({})
        if self.options.startFrom == "earliest":
            return nothing_read.to_json()
        return self._advance(nothing_read).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return read_limit(self.options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = {file.id: file.size for file in find_files(self.options.path)}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = FileOffset.from_json(start)
        self._available = self._advance(begin)
        if isinstance(limit, ReadAllAvailable):
            return self._available.to_json()
        limits = Limits(self.options.maxRowsPerTrigger, self.options.maxBytesPerTrigger)
        return limited(begin, self._available, limits, self.options.maxLineBytes).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._available.to_json() if self._available else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        begin, target = FileOffset.from_json(start), FileOffset.from_json(end)
        ranges = [
            FileRange(file.path, file.id, begin.next_of(number), file.next, file.next, file.check)
            for number, file in target.files.items()
        ]
        return partitions_of([part for part in ranges if part.start < part.stop])

    def read(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _advance(self, begin: FileOffset) -> FileOffset:
        path = self.options.path
        if Path(path).is_dir() and any(file.path == path for file in begin.files.values()):
            raise ValueError(
                f"option `path`: {path} was a file and is a directory now; move it away, "
                "or start with a new checkpoint directory"
            )
        found = find_files(path)
        return Tail(begin, found, self._until, self.options.maxLineBytes).advanced()
