"""A sink that keeps all promises, and for each promise one that breaks just this one.

Spark's workers import this module for each query, so it imports no more than it must.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import subprocess
import time
import unicodedata
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType

from tutorial_pkg.core.spark_versions import DataSourceStreamArrowWriter

DOWN, AWAY, RESTARTED, SLOW = ".down", ".away", ".restarted", ".slow"  # a server, in files
MEETING_SECONDS = 10

Rows = list[tuple[Any, ...]]


@dataclass
class Staged(WriterCommitMessage):
    query: str
    file: Path


class Writer(DataSourceStreamWriter):
    """A file for each batch; its name says which batch of which query it holds."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, iterator: Iterator[Row]) -> Staged:
        query = TaskContext.get().getLocalProperty("sql.streaming.queryId")
        file = self.path / f".{uuid.uuid4()}.staged"
        file.write_bytes(pickle.dumps(self.taken(iterator)))
        return Staged(query, file)

    def taken(self, iterator: Iterator[Row]) -> Rows:
        return [tuple(map(self.kept, row)) for row in iterator]

    def kept(self, value: Any) -> Any:
        """A time with its zone: Spark hands it over as the local one of the task's process."""
        return value.astimezone(UTC) if isinstance(value, datetime) else value

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        self.connect()
        self.publish(self.name_of(messages, batchId), self.rows_of(messages))
        for message in messages:
            message.file.unlink()

    def connect(self) -> None:
        if (self.path / DOWN).exists():
            raise ConnectionRefusedError("the server is away")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        for message in filter(None, messages):
            message.file.unlink()

    def name_of(self, messages: Sequence[Any], batch: int) -> str:
        return f"{messages[0].query}-{batch}"

    def rows_of(self, messages: Sequence[Any]) -> Rows:
        return [row for staged in messages for row in pickle.loads(staged.file.read_bytes())]

    def publish(self, name: str, rows: Rows) -> None:
        """A batch that is repeated replaces itself, in one step."""
        draft = self.path / f".{name}.draft"
        draft.write_bytes(pickle.dumps(rows))
        draft.replace(self.path / f"{name}.rows")


def checksum_of(rows: Rows) -> str:
    return hashlib.sha256("".join(sorted(map(repr, rows))).encode()).hexdigest()


class Table(DataSourceWriter):
    """A batch that is no part of a stream."""

    def __init__(self, path: str) -> None:
        self.stream = Writer(path)

    def write(self, iterator: Iterator[Row]) -> Staged:
        file = self.stream.path / f".{uuid.uuid4()}.staged"
        file.write_bytes(pickle.dumps(self.stream.taken(iterator)))
        return Staged("", file)

    def commit(self, messages: Sequence[Any]) -> None:
        self.stream.publish(str(uuid.uuid4()), self.stream.rows_of(messages))


class Files(DataSource):
    """All promises kept; each sink below has another writer, or lacks a check."""

    stream_writer: type[Writer] = Writer
    table: type[Table] = Table
    breaks: ClassVar[str] = ""  # the promise, if the class is not called like it

    @classmethod
    def name(cls) -> str:
        return f"kit_{cls.__name__.lower()}_sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:
        self.check_mode(overwrite)
        self.check_options()
        return self.stream_writer(self.options["path"])

    def writer(self, schema: StructType, overwrite: bool) -> Table:
        self.check_mode(overwrite)
        return self.table(self.options["path"])

    def check_mode(self, overwrite: bool) -> None:
        if overwrite:
            raise ValueError("use the output mode `append`")

    def check_options(self) -> None:
        known = {"path", "checkpointlocation"}
        for name in {name.lower() for name in self.options} - known:
            raise ValueError(f"unknown option `{name}`")


class every_row_once(Files):
    class stream_writer(Writer):
        """Its buffer takes 500 rows."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            return super().taken(iterator)[:500]


class last_buffer(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Empties its buffer of 100 rows when it is full."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            rows = super().taken(iterator)
            return rows[: len(rows) // 100 * 100] if len(rows) > 100 else rows


class full_buffer(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Its buffer takes 4,096 rows, as many do."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            return super().taken(iterator)[:4096]


class after_empty(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Takes a task without rows for the end."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            found: Rows = []
            for message in messages:
                rows = pickle.loads(message.file.read_bytes())
                if not rows and any(message.query for message in messages):
                    break
                found += rows
            return found


class ArrowWriter(Writer, DataSourceStreamArrowWriter):
    """Gets record batches."""

    def taken(self, iterator: Iterator[Any]) -> Rows:
        return [
            tuple(map(self.kept, row.values())) for each in iterator for row in each.to_pylist()
        ]


class first_record_batch(Files):
    breaks = "every_row_once"

    class stream_writer(ArrowWriter):
        """Takes the record batch that comes for all there is."""

        def taken(self, iterator: Iterator[Any]) -> Rows:
            return super().taken(islice(iterator, 1))


class no_empty_bytes(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Asks whether there is something."""

        def kept(self, value: Any) -> Any:
            return super().kept(value) if value or not isinstance(value, bytes) else None


class until_2038(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Counts seconds in 32 bits."""

        def kept(self, value: Any) -> Any:
            late = isinstance(value, datetime) and value.year > 2037
            return super().kept(value - timedelta(0, 2**32) if late else value)


class float_times(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Counts seconds since 1970 in a float, which has no room for microseconds far from it."""

        def kept(self, value: Any) -> Any:
            value, begin = super().kept(value), datetime(1970, 1, 1, tzinfo=UTC)
            if not isinstance(value, datetime):
                return value
            return begin + timedelta(seconds=(value - begin).total_seconds())


class floats(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Has one type for numbers."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            rows = super().taken(iterator)
            return [tuple(int(float(v)) if type(v) is int else v for v in row) for row in rows]


class no_sign(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Writes what follows the sign."""

        def kept(self, value: Any) -> Any:
            return abs(value) if isinstance(value, float) else super().kept(value)


class no_least(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Takes the least number of all for a sign of its own."""

        def kept(self, value: Any) -> Any:
            return None if value == -(2**63) else super().kept(value)


class short_bytes(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Has room for 255 bytes."""

        def kept(self, value: Any) -> Any:
            return value[:255] if isinstance(value, bytes) else super().kept(value)


class float_decimals(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Writes JSON, whose numbers are floats to most."""

        def kept(self, value: Any) -> Any:
            return Decimal(str(float(value))) if isinstance(value, Decimal) else super().kept(value)


class swapped(Files):
    breaks = "every_row_once"

    class stream_writer(Writer):
        """Its INT and its LONG column are each other's."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            rows = super().taken(iterator)
            return [(text, flag, large, small, *rest) for text, flag, small, large, *rest in rows]


class whole_batches(Files):
    class stream_writer(Writer):
        """Publishes what each task wrote by itself."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            for part, message in enumerate(messages):
                name = f"{self.name_of(messages, batchId)}-{part}"
                self.publish(name, self.rows_of([message]))
                time.sleep(0.2)


class never_taken_back(Files):
    class stream_writer(Writer):
        """Takes the earlier batches away while it publishes one."""

        def publish(self, name: str, rows: Rows) -> None:
            earlier = list(self.path.glob("*.rows"))
            for file in earlier:
                file.rename(file.with_suffix(".aside"))
            super().publish(name, rows)
            time.sleep(0.2)
            for file in earlier:
                if file.stem != name:
                    file.with_suffix(".aside").rename(file)


class empty_batch(Files):
    class stream_writer(Writer):
        """Looks at the first row before it asks whether there is one."""

        def publish(self, name: str, rows: Rows) -> None:
            first = rows[0]
            super().publish(name, [first, *rows[1:]])


class Changing(Writer):
    """Makes something else of each text."""

    def taken(self, iterator: Iterator[Row]) -> Rows:
        return [(self.changed(text), *rest) for text, *rest in super().taken(iterator)]

    def changed(self, text: str | None) -> str | None:
        raise NotImplementedError


class awkward_text(Files):
    class stream_writer(Changing):
        """One row is one line, so line ends in text must go."""

        def changed(self, text: str | None) -> str | None:
            return text and text.replace("\n", " ")


class short_texts(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """Has two bytes for a text's length."""

        def changed(self, text: str | None) -> str | None:
            return text and text[:65_535]


class composed(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """Writes a letter and its accent as one character."""

        def changed(self, text: str | None) -> str | None:
            return text and unicodedata.normalize("NFC", text)


class torn_lines(Files):
    breaks = "awkward_text"

    class stream_writer(Writer):
        """Escapes two line ends, and its file is read by `splitlines`, which knows more of them."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            rows = super().taken(iterator)
            whole = "\r\n"
            return [
                (line, *rest)
                for text, *rest in rows
                for line in ([text] if not text or set(whole) & set(text) else text.splitlines())
            ]


class no_line_end(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """Takes the line end off that a line has when it is read."""

        def changed(self, text: str | None) -> str | None:
            return text and text.rstrip("\n")


class no_blanks(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """A column of fixed length is filled up with blanks, so those at the end must go."""

        def changed(self, text: str | None) -> str | None:
            return text and text.rstrip(" ")


class c_texts(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """Takes a NUL for the end."""

        def changed(self, text: str | None) -> str | None:
            return text and text.split("\0")[0]


class unquoted(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """Decodes what nobody has encoded."""

        def changed(self, text: str | None) -> str | None:
            return text and unquote(text)


class numbers_of_texts(Files):
    breaks = "awkward_text"

    class stream_writer(Changing):
        """A column that takes a text for a number where it can, as SQLite's `STRING`."""

        def changed(self, text: str | None) -> str | None:
            try:
                number = float(text or "")
            except ValueError:
                return text
            return str(int(number) if number.is_integer() else number)


class nulls(Files):
    class stream_writer(Changing):
        """Makes text of whatever comes."""

        def changed(self, text: str | None) -> str:
            return str(text)


class word_for_null(Files):
    breaks = "nulls"

    class stream_writer(Changing):
        """Has a word for a null, and a text may be that word."""

        def changed(self, text: str | None) -> str | None:
            return None if text == r"\N" else text


class no_nan(Files):
    breaks = "nulls"

    class stream_writer(Writer):
        """Has one sign for what is missing and what is no number."""

        def kept(self, value: Any) -> Any:
            return super().kept(value) if value == value else None


class no_infinity(Files):
    breaks = "nulls"

    class stream_writer(Writer):
        """Writes JSON, which has no word for it."""

        def kept(self, value: Any) -> Any:
            return None if value in (math.inf, -math.inf) else super().kept(value)


class empty_text(Files):
    class stream_writer(Changing):
        """Asks whether there is something."""

        def changed(self, text: str | None) -> str | None:
            return text or None


class equal_rows(Files):
    class stream_writer(Writer):
        """Wants to be sure that no text comes twice."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            return list({row[0]: row for row in super().rows_of(messages)}.values())


class checksum(Files):
    breaks = "equal_rows"

    class stream_writer(Writer):
        """Knows a repeated batch by what it holds."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return checksum_of(self.rows_of(messages))


class equal_parts(Files):
    breaks = "equal_rows"

    class stream_writer(Writer):
        """Names what a task has written after its content."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            parts = {staged.file.read_bytes() for staged in messages}
            return [row for part in sorted(parts) for row in pickle.loads(part)]


class any_zone(Files):
    class stream_writer(Writer):
        """Keeps a time as it comes; it is right where all processes have the same zone."""

        def kept(self, value: Any) -> Any:
            return value


class repeated_batch(Files):
    class stream_writer(Writer):
        """Takes every commit for a new batch."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return str(uuid.uuid4())


class failed_batch(Files):
    class stream_writer(Writer):
        """Publishes all that is staged, whoever has staged it."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            staged = [Staged("", file) for file in self.path.glob(".*.staged")]
            return super().rows_of(staged)

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            """Leaves clearing up to the next commit."""


class clears_all(Files):
    breaks = "failed_batch"

    class stream_writer(Writer):
        """Clears up thoroughly."""

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            for file in self.path.iterdir():
                file.unlink()


class no_rubbish(Files):
    class stream_writer(Writer):
        """Takes what a task has written for harmless."""

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            """Nothing was published."""


class abort_fails(Files):
    breaks = "no_rubbish"

    class stream_writer(Writer):
        """Does not expect None in place of the message of a task that failed."""

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            for message in messages:
                message.file.unlink()


class dies_in_commit(Files):
    class stream_writer(Writer):
        """Notes that the batch is done, and then publishes it."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            note = self.path / f".done-{self.name_of(messages, batchId)}"
            if not note.exists():
                note.touch()
                self.publish(self.name_of(messages, batchId), self.rows_of(messages))


class renames(Files):
    breaks = "dies_in_commit"

    class stream_writer(Writer):
        """Publishes one file after the other, so quickly that nobody sees it."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            self.connect()
            name = self.name_of(messages, batchId)
            for part, message in enumerate(messages):
                message.file.replace(self.path / f"{name}-{part}.rows")


class errors_told(Files):
    class stream_writer(Writer):
        """Does what it can."""

        def publish(self, name: str, rows: Rows) -> None:
            try:
                super().publish(name, rows)
            except OSError:
                """There will be another batch."""


class skips_rows(Files):
    breaks = "errors_told"

    class stream_writer(Writer):
        """Leaves out a row that it cannot write."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            found: Rows = []
            for row in iterator:
                try:
                    found.append(tuple(map(self.kept, row)))
                except OSError:
                    continue
            return found


class pool(Files):
    breaks = "errors_told"

    class stream_writer(Writer):
        """Has threads for its rows, and does not ask how it went."""

        def taken(self, iterator: Iterator[Row]) -> Rows:
            found: Rows = []

            def take(row: Row) -> None:
                found.append(tuple(map(self.kept, row)))

            with ThreadPoolExecutor(2) as threads:
                threads.map(take, iterator)
            return found


class one_note(Files):
    breaks = "new_query"

    class stream_writer(Writer):
        """Notes which batch was the last one, whoever wrote it."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            note, work = self.path / ".note", super().name_of(messages, batch)
            last, name = note.read_text().split() if note.exists() else ("", "")
            if last != work:
                name = str(uuid.uuid4())
                draft = self.path / f".{name}.note-draft"
                draft.write_text(f"{work} {name}")
                draft.replace(note)
            return name


class new_query(Files):
    class stream_writer(Writer):
        """Knows a batch by its number, and any query's batch 0 is batch 0."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return str(batch)


class by_path(Files):
    breaks = "new_query"

    def streamWriter(self, schema: StructType, overwrite: bool) -> Writer:
        """Knows a query by the path of its checkpoint."""
        writer: Any = super().streamWriter(schema, overwrite)
        writer.place = self.options["checkpointLocation"].replace("/", "_")
        return writer

    class stream_writer(Writer):
        place: str

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return f"{self.place}-{batch}"


class no_number(Files):
    breaks = "new_query"

    class stream_writer(Writer):
        """Asks whether a batch has a number, and 0 is none to `or`."""

        def name_of(self, messages: Sequence[Any], batch: int) -> str:
            return f"{messages[0].query}-{batch or uuid.uuid4()}"


class two_queries(Files):
    class stream_writer(Writer):
        """One name for the drafts of all. A query's first batch waits for another query's."""

        def publish(self, name: str, rows: Rows) -> None:
            self.draft, own = self.path / ".draft", pickle.dumps(rows)
            others = self.draft.exists() or self.comes_later(name)
            Path(f"{self.draft}-{name}").write_bytes(own)
            Path(f"{self.draft}-{name}").replace(self.draft)
            until = time.monotonic() + MEETING_SECONDS
            while others and self.holds(own) and time.monotonic() < until:
                time.sleep(0.01)
            self.draft.replace(self.path / f"{name}.rows")

        def comes_later(self, name: str) -> bool:
            known = {file.name.rpartition("-")[0] for file in self.path.glob("*.rows")}
            return bool(known) and name.rpartition("-")[0] not in known

        def holds(self, own: bytes) -> bool:
            return self.draft.exists() and self.draft.read_bytes() == own


class other_writers(Files):
    class stream_writer(Writer):
        """Has room for the messages of four tasks."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            return super().rows_of(messages[:4])


class one_digit(Files):
    breaks = "other_writers"

    class stream_writer(Writer):
        """A task's file has the task's number, and there is room for one digit."""

        def rows_of(self, messages: Sequence[Any]) -> Rows:
            files = {number % 10: message for number, message in enumerate(messages)}
            return super().rows_of([*files.values()])


class stale(Files):
    breaks = "failed_batch"

    class stream_writer(Writer):
        """A task's file has the name of the task, and a commit takes all files of its batch."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            task = TaskContext.get()
            batch = task.getLocalProperty("streaming.sql.batchId")
            staged = super().write(iterator)
            name = f".{staged.query}-{batch}-{task.partitionId()}.staged"
            return Staged(staged.query, staged.file.replace(self.path / name))

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            query = messages[0].query
            files = sorted(self.path.glob(f".{query}-{batchId}-*.staged"))
            super().commit([Staged(query, file) for file in files] or messages, batchId)

        def abort(self, messages: Sequence[Any], batchId: int) -> None:
            """The next attempt has the same names."""


class complete_mode(Files):
    def check_mode(self, overwrite: bool) -> None:
        """Appends, whatever is wanted."""


class always_adds(Files):
    breaks = "complete_mode"

    def writer(self, schema: StructType, overwrite: bool) -> Table:
        """Adds rows, whatever is wanted."""
        return self.table(self.options["path"])


class batch_write(Files):
    class table(Table):
        """Thinks that `write` has published."""

        def commit(self, messages: Sequence[Any]) -> None:
            """Nothing is left to do."""


class one_table(Files):
    breaks = "batch_write"

    class table(Table):
        """A batch without a number has no name of its own."""

        def commit(self, messages: Sequence[Any]) -> None:
            self.stream.publish("table", self.stream.rows_of(messages))


class table_checksum(Files):
    breaks = "batch_write"

    class table(Table):
        """Recognises a repeated batch by what it holds."""

        def commit(self, messages: Sequence[Any]) -> None:
            rows = self.stream.rows_of(messages)
            self.stream.publish(checksum_of(rows), rows)


HELD: list[Any] = []


class steady(Files):
    class stream_writer(Writer):
        """Opens what it needs for each batch, and closes nothing."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            HELD.extend(open("/dev/null") for _ in range(20))
            return super().write(iterator)


class unknown_option(Files):
    def check_options(self) -> None:
        """Takes whatever comes."""


class nothing_left(Files):
    class stream_writer(Writer):
        """Starts a helper in each task, and forgets it."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            subprocess.Popen(["sleep", "600"], start_new_session=True)
            return super().write(iterator)


OPEN: list[Any] = []  # of a worker, which lives longer than the query


class nothing_open(Files):
    class stream_writer(Writer):
        """Opens a file, and forgets it."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            staged = super().write(iterator)
            OPEN.append(staged.file.open())
            return staged


class killed(Files):
    class stream_writer(Writer):
        """Publishes, and notes later that it has: a good while later the first time."""

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            note = self.path / f".done-{self.name_of(messages, batchId)}"
            if not note.exists():
                self.publish(str(uuid.uuid4()), self.rows_of(messages))
                time.sleep(0 if any(self.path.glob(".done-*")) else 4)
                note.touch()


class attempts(Files):
    breaks = "killed"

    class stream_writer(Writer):
        """A task's file has the number of the attempt, and the next Spark counts from 0 again."""

        def write(self, iterator: Iterator[Row]) -> Staged:
            staged = super().write(iterator)
            name = f".{TaskContext.get().taskAttemptId()}.part"
            return Staged(staged.query, staged.file.replace(self.path / name))

        def commit(self, messages: Sequence[Any], batchId: int) -> None:
            """What is seen of a batch is what its files hold now."""
            self.connect()
            name = self.name_of(messages, batchId)
            draft = self.path / f".{name}.index-draft"
            draft.write_bytes(pickle.dumps(list(messages)))
            draft.replace(self.path / f".{name}.index")
            for index in self.path.glob(f".{messages[0].query}-*.index"):
                rows = self.rows_of(pickle.loads(index.read_bytes()))
                self.publish(index.stem[1:], rows)


class Passing(Writer):
    """After something has happened to the server, it takes the next batch for done."""

    event = SLOW

    def publish(self, name: str, rows: Rows) -> None:
        happened = self.path / self.event
        if happened.exists():
            happened.unlink()
        else:
            super().publish(name, rows)


class server_slow(Files):
    stream_writer = Passing


class server_away(Files):
    class stream_writer(Passing):
        event = AWAY


class server_restarted(Files):
    class stream_writer(Passing):
        event = RESTARTED


MUTANTS = [
    kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Files) and kind is not Files
]
