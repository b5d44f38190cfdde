"""Format `file_lines`: the lines of text files, as a batch or as they are appended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.file_lines.file_search import (
    FoundFile,
    find_files,
    local_path,
    notes_directory,
    sizes_now,
)
from tutorial_pkg.connectors.file_lines.folding import FoldedFiles
from tutorial_pkg.connectors.file_lines.line_file import LineFile
from tutorial_pkg.connectors.file_lines.offset import FileOffset, TrackedFile
from tutorial_pkg.connectors.file_lines.ranges import (
    FilePartition,
    ToBatch,
    partitions_of,
    read_partition,
)
from tutorial_pkg.connectors.file_lines.rotation import Planned
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
    warn_of_limits,
)
from tutorial_pkg.core.worker import outlive_ctrl_c, uncollected

if TYPE_CHECKING:
    import pyarrow as pa

# ---- Options ---------------------------------------------------------------------------------


def new_or_old_directory(text: str) -> str:
    """The absolute path of a directory that exists, or can be made where it is to be."""
    path = Path(local_directory(text))
    if not (path.parent.is_dir() and (path.is_dir() or not path.exists())):
        raise ValueError
    return str(path)


LATEST = {"latest": True}  # of an initial offset: begin where the files end at the first look
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
        integer(1 << 20, 1 << 30, unit="bytes"),
        64 << 20,
        "a longer line is an error: this bounds the memory that a task may need",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        True,
        "what a query does when bytes of a batch that must be read again are gone for good: fail, "
        "or go on without them, with a warning that counts them",
    ),
    Option(
        "restAfter",
        integer(1, 1 << 31, unit="seconds"),
        60,
        "a file that has not changed for this long is at rest: it leaves the offset for a note, "
        "and where the kernel reports no changes, one is noticed up to two minutes late",
    ),
    Option(
        "notesDirectory",
        new_or_old_directory,
        None,
        "where the notes of files at rest are; without it `_file_lines` in the directory that "
        "`path` names",
        "a local directory, or a name in one",
    ),
)
OPTIONS = Options("file_lines", (*FILE_OPTIONS, EVENT_TIME, MODE))


def parse_file_options(options: Options, given: Mapping[str, str]) -> OptionValues:
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

    Options:
    {options}

    A line ends with a newline; one carriage return before it is dropped, and so is a byte-order
    mark at a file's start. Bytes that are not UTF-8 become U+FFFD. Files whose names start with `.`
    or `_`, and whatever is not a regular file, are left out of directories and globs. The files
    must have the same path on all nodes of a cluster.

    A stream tails the files. It holds back an unfinished line until its newline comes, however long
    it gets (past `maxLineBytes` with a warning). A file is recognised by its inode or its path, and
    by its first KiB and the one before the next unread byte. A *renamed* file is read to its end
    under any name in its directory. A *replaced* file that begins with the same lines is read on
    from the same place. A *truncated or rewritten* file is read from its start. What was unread
    before is read from its copy (`copytruncate`), if there is one next to it whose name begins with
    the file's own and is not matched by `path`; without one the log warns. A *deleted* file is
    forgotten, with a warning, as soon as there is something new elsewhere. Two names of one file
    count as one file. Between two looks a query cannot see more than one file come and go under a
    name that `path` matches; nor can it tell a file that was truncated and grew past the old place
    with the very same bytes. A file that is preallocated, or mapped, and filled in place counts as
    rewritten while its first KiB fills: its lines come again then, with that warning.

    A batch takes from each file as many bytes as it had when the query was planned. Rewriting a
    file at that moment may tear a line: write a new file, and rename it.

    A batch that failed is read again, also from a renamed file or a copy. What is in neither is
    gone. `failOnDataLoss=true` then ends the query, since these bytes were promised to a batch: put
    them back, or go on without them. One loss does not count as a failure: lines that
    `copytruncate` itself loses, because they were written after its copy and before it truncated
    the file. The query goes on with what the copy has, and the log counts the bytes.

    Very many files: those at rest (`restAfter`) leave the offset for a *note*, a file in
    `notesDirectory` that never changes; a checkpoint needs the notes as much as its offsets (see
    `folding.py`). Times and clocks decide only when a file is looked at: one that grows again, is
    renamed, or comes back with an old time goes on where it was read to. The reader holds about 400
    bytes for each file, and twice as many while it is new. A query that has read nothing for a
    second looks five times a second. On Linux the kernel hints at what changed since the last look
    (`inotify`), so the next look notices growth, however many files there are. Besides, 64 files at
    rest are looked at each time, and all within two minutes. That is the only way to find changes
    on a network file system, on other systems, or through a link elsewhere or a memory map, and for
    two minutes after a limit of the kernel was reached. Then a warning says so; nothing is lost.
    This assumes that a directory's time of change moves with each new name, or that a delay of two
    minutes does not matter, and that no file is renamed three times within three listings.

    Errors: `ValueError` for a wrong option, a path that matches nothing (batch), a compressed file,
    a line of more than `maxLineBytes` (its newline not counted), a missing note, or under FAILFAST
    a malformed line; `FileNotFoundError` if a batch that is to be read again has lost its file.

    The idea: Flink's file source and `tail -F`.
    """

    @classmethod
    def name(cls) -> str:
        return "file_lines"

    def schema(self) -> str:
        options = parse_file_options(OPTIONS, self.options)
        warn_of_limits(self.name(), options)
        return lines_schema(options)

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

    With `whole_lines` it stops at each file's last newline: what follows is being written.
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
        planned = (Planned(file.path, file.id, self._end(file)) for file in files)
        return partitions_of([file for file in planned if file.end]) or [FilePartition([])]

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

    def __init__(self, options: OptionValues, to_batch: ToBatch) -> None:
        outlive_ctrl_c()
        self.options = options
        self.to_batch = to_batch
        self._folded = FoldedFiles(notes_directory(options))
        self._tail = Tail(options, self._folded)
        self._unread: int | None = None
        self._patience = Patience()

    def initialOffset(self) -> dict[str, Any]:
        """The same whenever Spark asks, which it does until the first batch is through."""
        nothing_read = FileOffset({}).to_json()
        return nothing_read if self.options.startFrom == "earliest" else nothing_read | LATEST

    def getDefaultReadLimit(self) -> ReadLimit:
        return read_limit(self.options)

    def prepareForTriggerAvailableNow(self) -> None:
        self._tail.stop_at(sizes_now(self.options.path))

    @uncollected()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if LATEST.items() <= start.items():  # this batch only notes where the files end
            return self._tail.taken(self._tail.look(FileOffset({})), Limits()).to_json()
        begin = FileOffset.from_json(start)
        self._check_path(begin)
        self._patience.wait()
        available = self._tail.look(begin)
        self._patience.answer(available is not begin)
        if available is begin:
            self._unread = 0
            return start
        end = self._tail.taken(available, limits_of(self.options, limit))
        self._unread = self._tail.unread
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The bytes behind the last `latestOffset`, for the query's progress.

        Two offsets would not show it: a file at rest is in one, and in a note of the other.
        """
        return None if self._unread is None else {"unread": self._unread}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        if LATEST.items() <= start.items():
            return []
        begin, target = FileOffset.from_json(start), FileOffset.from_json(end)
        files = self._folded.changed(begin, target).items()
        planned = (_planned(self._folded.find(begin, number), file) for number, file in files)
        return partitions_of([file for file in planned if file.begin < file.end])

    def read(self, partition: FilePartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _check_path(self, begin: FileOffset) -> None:
        path = self.options.path
        if any(file and file.path == path for file in begin.files.values()) and Path(path).is_dir():
            raise ValueError(
                f"option `path`: {path} was a file and is a directory now; move it away, "
                "or start with a new checkpoint directory"
            )


def _planned(before: TrackedFile | None, file: TrackedFile) -> Planned:
    """A file from where it was read to, to where it is to be read."""
    start = before or TrackedFile(file.path, file.id)
    return Planned(file.path, file.id, file.next, file.check, file.head, start.next, start.check)
