"""Format `file_lines`: the lines of text files, as a batch or as they are appended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.file_lines.files import (
    find_files,
    local_path,
    notes_directory,
    sizes_now,
)
from tutorial_pkg.connectors.file_lines.line_file import LineFile
from tutorial_pkg.connectors.file_lines.notes import Notes
from tutorial_pkg.connectors.file_lines.offset import FileOffset, TrackedFile
from tutorial_pkg.connectors.file_lines.reading import (
    FilePartition,
    FileRange,
    ToBatch,
    partitions_of,
    read_partition,
)
from tutorial_pkg.connectors.file_lines.tailing import Tail
from tutorial_pkg.core.line_options import EVENT_TIME, MODE, lines_schema
from tutorial_pkg.core.options import (
    REQUIRED,
    Option,
    Options,
    OptionValues,
    boolean,
    choice,
    documented,
    integer,
    local_directory,
    not_empty,
)
from tutorial_pkg.core.pauses import Patience
from tutorial_pkg.core.read_limit import Limits, limits_of, read_limit
from tutorial_pkg.core.spark_versions import (
    ReadLimit,
    SupportsTriggerAvailableNow,
    stream_reader,
)
from tutorial_pkg.core.worker import outlive_ctrl_c, uncollected

if TYPE_CHECKING:
    import pyarrow as pa

# ---- Options ---------------------------------------------------------------------------------


def new_or_old_directory(text: str) -> str:
    """Return the absolute path of a directory that exists, or that can be made there."""
    path = Path(local_directory(text))
    if not (path.parent.is_dir() and (path.is_dir() or not path.exists())):
        raise ValueError
    return str(path)


LEAST_LINE_BYTES = 1 << 20
LATEST = {"latest": True}  # in an initial offset: start where the files end at the first look
FILE_OPTIONS = (
    Option("path", not_empty, REQUIRED, "the files to read", "a file, directory or glob"),
    Option(
        "startFrom",
        choice("earliest", "latest"),
        "earliest",
        "whether a new streaming query reads what is in the files already",
    ),
    Option(
        "maxBytesPerTrigger",
        integer(1, unit="bytes"),
        None,
        "about how much one streaming batch takes: lines that start within it are taken whole",
    ),
    Option(
        "maxRowsPerTrigger",
        integer(1, unit="lines"),
        None,
        "how many lines one streaming batch takes at most",
    ),
    Option(
        "maxLineBytes",
        integer(LEAST_LINE_BYTES, 1 << 30, unit="bytes"),
        64 << 20,
        "a longer line is skipped with a warning (in a batch query it is an error); this bounds "
        "the memory of a task",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        True,
        "whether a query fails when bytes of a batch that must be read again are gone for good; "
        "otherwise it continues without them, with a warning that counts them",
    ),
    Option(
        "restAfter",
        integer(1, 1 << 31, unit="seconds"),
        60,
        "a file that has not changed for this long rests: its position moves from the "
        "offset to a note beside the files",
    ),
    Option(
        "notesDirectory",
        new_or_old_directory,
        None,
        "where the positions of resting files are; by default `_file_lines` in the directory that "
        "`path` is about",
        "a local directory, or a name in one",
    ),
)
OPTIONS = Options("file_lines", (*FILE_OPTIONS, EVENT_TIME, MODE))


def parse_file_options(options: Options, given: Mapping[str, str]) -> OptionValues:
    """Return the values of `options`, which include FILE_OPTIONS, with `path` made absolute."""
    values = options.parse(given)
    values.path = local_path(values.path)
    return values


def stream_options(given: Mapping[str, str]) -> OptionValues:
    """Return the options of `file_lines` for a reader outside Spark."""
    return parse_file_options(OPTIONS, given)


# ---- Data source -----------------------------------------------------------------------------


@documented(OPTIONS)
class FileLinesDataSource(DataSource):
    """Lines of text files: `value STRING`, with `eventTime` also `event_time TIMESTAMP`.

    Parallelism: files are split by byte range, so that one big file uses all cores.
    Replay: a batch is read again from the same byte ranges, as long as files are only appended to.
    Guarantee: every complete line once from the source on; with an idempotent sink exactly once.

    Options:
    {options}

    A line ends with a newline; one carriage return before it is dropped, and so is a byte order
    mark at a file's start. Bytes that are not UTF-8 become U+FFFD; UTF-16 is refused. Directories
    and globs leave out names that start with `.` or `_`, anything that is not a regular file, and
    in a stream compressed files, with one warning. All nodes need the same path to the files.

    A stream tails the files and holds back an unfinished line. It follows files through rotation by
    rename, `copytruncate` and `compress`. A warning counts what it has to leave out:
    lines between the last look and a truncation that are in no copy, and files that come and go
    between two looks. Very many files are fine, up to about 100,000.

    Errors: `ValueError` for a wrong option, a path that matches nothing or compressed files
    (batch), UTF-16, a missing note, or under FAILFAST a malformed line; `FileNotFoundError` if a
    batch that is to be read again has lost its file and `failOnDataLoss` is true.

    More: docs/formats/file_lines.md. The idea: Flink's file source and `tail -F`.
    """

    @classmethod
    def name(cls) -> str:
        return "file_lines"

    def schema(self) -> str:
        return lines_schema(parse_file_options(OPTIONS, self.options))

    def reader(self, schema: StructType) -> FileLinesReader:
        options = parse_file_options(OPTIONS, self.options)
        return FileLinesReader(options, _to_batch(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_file_options(OPTIONS, self.options)
        return stream_reader(FileLinesStreamReader(options, _to_batch(options)))


def _to_batch(options: OptionValues) -> ToBatch:
    from tutorial_pkg.core.lines import lines_batch  # with Arrow, which a schema does not need

    return partial(lines_batch, options=options)


# ---- Batch -----------------------------------------------------------------------------------


class FileLinesReader(DataSourceReader):
    """Reads what the files hold at the time of planning.

    With `whole_lines` it stops at each file's last newline, because a writer may be at work.
    """

    def __init__(self, options: OptionValues, to_batch: ToBatch, whole_lines: bool = False) -> None:
        self.options = options
        self.to_batch = to_batch
        self.whole_lines = whole_lines

    def partitions(self) -> list[FilePartition]:
        path = self.options.path
        files = find_files(path)
        if not files:
            raise ValueError(f"option `path`: no file at {path}; correct it, or write the file")
        ends = {file: self._end(file, status[2]) for file, status in files.items()}
        ranges = [
            FileRange(TrackedFile(file, "", end), 0, end, once=True)
            for file, end in ends.items()
            if end
        ]
        return partitions_of(ranges) or [FilePartition([])]

    def read(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _end(self, path: str, size: int) -> int:
        if not self.whole_lines:
            return size
        with LineFile(path, self.options.maxLineBytes) as lines:
            return lines.last_line_end(0, size)


# ---- Streaming: the reader -------------------------------------------------------------------


class FileLinesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tails the files. All progress is in the offset, and no file stays open between two calls."""

    def __init__(self, options: OptionValues, to_batch: ToBatch) -> None:
        outlive_ctrl_c()
        self.options = options
        self.to_batch = to_batch
        self._notes = Notes(notes_directory(options))
        self._tail = Tail(options, self._notes, FileOffset({}))
        self._until: dict[str, int] | None = None
        self._unread: int | None = None
        self._patience = Patience()

    def initialOffset(self) -> dict[str, Any]:
        """Return the same offset each time: Spark calls this until the first batch is done."""
        nothing_read = FileOffset({}).to_json()
        return nothing_read if self.options.startFrom == "earliest" else nothing_read | LATEST

    def getDefaultReadLimit(self) -> ReadLimit:
        return read_limit(self.options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = sizes_now(self.options.path)
        self._tail = Tail(self.options, self._notes, FileOffset({}), self._until)

    @uncollected()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if LATEST.items() <= start.items():  # this batch only records where the files end
            return self._tail.take(self._tail.look(FileOffset({})), Limits()).to_json()
        begin = FileOffset.from_json(start)
        if not self._tail.ends_at(begin):
            self._tail = Tail(self.options, self._notes, begin, self._until)
        self._check_path(begin)
        self._patience.wait()
        available = self._tail.look(begin)
        self._patience.answer(available is not begin)
        if available is begin:
            self._unread = 0
            return start
        end = self._tail.take(available, limits_of(self.options, limit))
        self._unread = self._tail.unread
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the bytes after the last `latestOffset`, for the query's progress.

        Two offsets would not show it: a resting file is in one, and in a note of the other.
        """
        return None if self._unread is None else {"unread": self._unread}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        if LATEST.items() <= start.items():
            return []
        begin, target = FileOffset.from_json(start), FileOffset.from_json(end)
        ranges = []
        for number, file in self._notes.changed_files(begin, target).items():
            before = self._notes.find(begin, number)
            if file.next > (before.next if before else 0):
                ranges.append(FileRange(file, before.next if before else 0, file.next))
        return partitions_of(ranges)

    def read(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _check_path(self, begin: FileOffset) -> None:
        path = self.options.path
        if any(file and file.path == path for file in begin.files.values()) and Path(path).is_dir():
            raise ValueError(
                f"option `path`: {path} was a file and is a directory now; move it away, "
                "or start with a new checkpoint directory"
            )
