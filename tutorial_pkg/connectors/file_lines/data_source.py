"""Format `file_lines`: the lines of text files, as a batch or as they are appended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from tutorial_pkg.connectors.file_lines.files import (
    id_of,
    list_files,
    local_path,
    notes_directory,
)
from tutorial_pkg.connectors.file_lines.line_file import LineFile, TrackedFile
from tutorial_pkg.connectors.file_lines.offset import FileOffset, Notes
from tutorial_pkg.connectors.file_lines.reading import (
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
)
from tutorial_pkg.core.read_limit import Limits, limits_of, read_limit
from tutorial_pkg.core.spark_versions import (
    ReadLimit,
    SupportsTriggerAvailableNow,
    stream_reader,
)
from tutorial_pkg.core.waiting import Patience

if TYPE_CHECKING:
    import pyarrow as pa

LEAST_LINE_BYTES = 1 << 20
LATEST = {"latest": True}  # in an initial offset: start where the files end at the first look
FILE_OPTIONS = (
    Option("path", local_directory, REQUIRED, "the files", "a local file, directory or glob"),
    Option("startFrom", choice("earliest", "latest"), "earliest", "where a new stream begins"),
    Option("maxBytesPerTrigger", integer(1, unit="bytes"), None, "about how much a batch takes"),
    Option("maxRowsPerTrigger", integer(1, unit="lines"), None, "how much it takes at most"),
    Option(
        "maxLineBytes",
        integer(LEAST_LINE_BYTES, 1 << 30, unit="bytes"),
        64 << 20,
        "a stream skips a longer line with a warning; in a batch query it is an error",
    ),
    Option("failOnDataLoss", boolean, True, "whether a stream ends if bytes of a batch are gone"),
    Option("restAfter", integer(1, 1 << 31, unit="seconds"), 60, "until a file counts as resting"),
    Option("notesDirectory", local_directory, None, "of notes; default `_file_lines`"),
)
OPTIONS = Options("file_lines", (*FILE_OPTIONS, EVENT_TIME, MODE))


def stream_options(given: Mapping[str, str]) -> OptionValues:
    """Return the values of the options of `file_lines`, also for a reader outside Spark."""
    options = OPTIONS.parse(given)
    local_path(options.path)
    return options


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
    rename, `copytruncate` and `compress`. A warning names the file if it has to leave out
    lines between the last look and a truncation that are in no copy, or files that come and go
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
        return lines_schema(stream_options(self.options))

    def reader(self, schema: StructType) -> FileLinesReader:
        options = stream_options(self.options)
        return FileLinesReader(options, _to_batch(options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = stream_options(self.options)
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

    def partitions(self) -> list[InputPartition]:
        path = self.options.path
        listing = list_files(path)
        if listing.compressed:
            raise ValueError(
                f"option `path`: {min(listing.compressed)} is compressed, and lines are read from "
                "plain text; use a pattern that leaves it out, such as `*.csv`, or Spark's `text`"
            )
        if not listing.matching:
            raise ValueError(f"option `path`: no file at {path}; correct it, or write the file")
        # Each file once, however many names it has.
        names = sorted(listing.matching.intersection(listing.path_of.values()))
        ends = {name: listing.files[name][2] for name in names}
        if self.whole_lines:
            for name, end in ends.items():
                with LineFile(name, self.options.maxLineBytes) as lines:
                    ends[name] = lines.last_line_end(0, end)
        return partitions_of(
            [FileRange(TrackedFile(name, "", end), 0, end, once=True) for name, end in ends.items()]
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)


# ---- Streaming: the reader -------------------------------------------------------------------


class FileLinesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Tails the files. All progress is in the offset, and no file stays open between two calls."""

    def __init__(self, options: OptionValues, to_batch: ToBatch) -> None:
        self.options = options
        self.to_batch = to_batch
        self._notes = Notes(notes_directory(options))
        self._tail: Tail | None = None
        self._until: dict[str, int] | None = None
        self._patience = Patience()

    def initialOffset(self) -> dict[str, Any]:
        """Return the same offset each time: Spark calls this until the first batch is done."""
        nothing_read = FileOffset({}).to_json()
        return nothing_read if self.options.startFrom == "earliest" else nothing_read | LATEST

    def getDefaultReadLimit(self) -> ReadLimit:
        return read_limit(self.options)

    def prepareForTriggerAvailableNow(self) -> None:
        statuses = list_files(self.options.path).files.values()
        self._until = {id_of(status): status[2] for status in statuses}
        self._tail = None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        tail = self._tail_from(FileOffset.from_json(start))
        self._patience.wait()
        is_news = tail.look()
        self._patience.answer(is_news)
        if LATEST.items() <= start.items():  # this batch only records where the files end
            return tail.take(Limits()).to_json()
        return tail.take(limits_of(self.options, limit)).to_json() if is_news else start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the bytes after the last `latestOffset`, for the query's progress.

        Two offsets would not show it: a resting file is in one, and in a note of the other.
        """
        return {"unread": self._tail.unread} if self._tail else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if LATEST.items() <= start.items():
            return []
        before = self._notes.all_files(FileOffset.from_json(start))
        ranges = []
        for number, file in self._notes.all_files(FileOffset.from_json(end)).items():
            first = before[number].next if number in before else 0
            if file.next > first:
                ranges.append(FileRange(file, first, file.next))
        return partitions_of(ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self.options, self.to_batch)

    def _tail_from(self, offset: FileOffset) -> Tail:
        if self._tail is None or self._tail.offset != offset:
            self._tail = Tail(self.options, self._notes, offset, self._until)
        return self._tail
