"""Checks of notebooks 00 to 08: sinks, files, lines from the network, event time, checkpoints."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests import StreamSink, examine_sink
from workbook.checks import trial
from workbook.checks.verdict import Case, Wrong, compare, exercise, expect, must_be, show
from workbook.number_files import sink_of, source_of
from workbook.senders import HOST, free_ports


@exercise()
def check_00_1(answer: StreamingQuery) -> str:
    """Has `answer` read at least 200 of 50 items per second, and is it stopped?"""
    text = f"You set answer to {show(answer)}; expected a query, as start() returns it."
    expect(isinstance(answer, StreamingQuery), text)
    expect(not answer.isActive, "Your query is running; expected a stopped one. Try query.stop().")
    batches = answer.recentProgress
    rows = sum(batch.numInputRows for batch in batches)
    text = f"Your query read {rows} rows; expected at least 200. Try watch(query, rows=200)."
    expect(rows >= 200, text)
    rates = re.findall(r"rowsPerSecond=(\d+)", batches[0].sources[0].description)
    must_be(rates, ["50"], "Items per second:", "the task says so. Try items_per_second=50.")
    return "At least 200 rows, 50 per second, and then you stopped the query."


_PROMISES = ["every_row_once", "repeated_batch", "failed_batch"]


@exercise("class JsonWriter(DataSourceStreamWriter)")
def check_01_1(answer: Any) -> str:
    """Do readers see each batch of this writer as a whole, and only after its commit?"""
    _examine(answer, _json_rows, _PROMISES[::2])
    return "Readers see whole batches."


@exercise("class RestartableWriter(DataSourceStreamWriter)")
def check_01_2(answer: Any) -> str:
    """Does this writer's sink publish each batch once, also when it fails or is repeated?"""
    files = _examine(answer, _json_rows, _PROMISES[1:])
    drafts = sum(not name.endswith(".json") for name in files)
    text = f"A task failed, and {drafts} drafts are left; expected 1 at most, its own, because "
    expect(drafts <= 1, f"{text}`abort` or `commit` gets all messages.")
    return "Each batch is there once, whole, and a repeated one replaces itself."


@exercise("class ParquetFiles(DataSourceStreamArrowWriter)")
def check_02_1(answer: Any) -> str:
    """Does this Arrow writer store each row once in Parquet files, also if a batch is repeated?"""
    _examine(answer, _parquet_rows, _PROMISES)
    return "Whole batches in Parquet files, and a repeated one replaces itself."


def _examine(writer: Any, read: Callable[[Path], list[str]], promises: list[str]) -> list[str]:
    """Try these promises of the kit with a writer of files; return the names of the files."""
    with trial.scratch() as folder:
        sink = StreamSink(sink_of(writer), partial(read, folder), {"path": folder})
        trial.must_keep_all(examine_sink(lambda _: sink, trial.session(), only=promises))
        return [file.name for file in folder.iterdir()]


def _json_rows(folder: Path) -> list[str]:
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    text = "A line isn't a JSON object with the row's columns. Try row.asDict()."
    expect(all(isinstance(row, dict) for row in rows), text)
    return [row["value"] for row in rows]


def _parquet_rows(folder: Path) -> list[str]:
    tables = [pq.read_table(file) for file in folder.glob("*.parquet")]
    return [value for table in tables for value in table["value"].to_pylist()]


@exercise("class WholeLines(DataSourceStreamReader)")
def check_03_1(answer: Callable[[str], DataSourceStreamReader]) -> str:
    """Does this reader emit each whole line of a growing file once, also after a restart?"""
    spark = trial.session()
    spark.dataSource.register(source_of(answer, "checked_source", "value STRING"))
    with trial.scratch() as folder:
        log = folder / "log"
        pieces = ["ünö\nthe longest line\ntw".encode(), "o\n\n thr\u2028ee\n\n".encode(), b"4\n"]
        rows, _ = trial.rows_after_restart(
            lambda: spark.readStream.format("checked_source").load(str(log)),
            folder,
            [partial(log.write_bytes, data) for data in accumulate(pieces)],
        )
    why = "half a line must wait, and a restart repeats the last batch with the same offsets. Try "
    why += "offsets in bytes from the start of the file, after a b'\\n', and none in `self`."
    expected = ["ünö", "the longest line", "two", "", " thr\u2028ee", "", "4"]
    must_be([line for (line,) in rows], expected, "Restarted, a query read", why)
    return "Every whole line once, and a new reader resumes where the old one stopped."


@exercise("class OwnRest(SmallReader)")
def check_04_1(answer: Any) -> str:
    """Does this reader complete each line with the bytes of its own connection?"""
    port = free_ports()
    listener = _Listener(answer(port))
    one, two, three = (socket.create_connection((HOST, port)) for _ in range(3))
    with one, two, three:
        for sender, data in ((one, b"le"), (two, b"right\nne"), (one, b"ft\n"), (three, b"w\n")):
            sender.sendall(data)
            listener.read()
    why = "each connection has its own rest. Try a dictionary by socket."
    must_be(sorted(listener.rows), ["left", "right", "w"], "The lines of three senders became", why)
    return "Each connection completes its own lines."


@exercise("class Kept(SmallReader)")
def check_04_2(answer: Any) -> str:
    """Does a new reader return the lines that an earlier one has saved, so that none is lost?"""
    port = free_ports(2)
    with trial.scratch() as folder:
        first = _Listener(answer(port, str(folder / "lines")))
        with socket.create_connection((HOST, port)) as sender:
            for data in ("a\n\n", "ünö\nb\n"):
                start = first.offset
                sender.sendall(data.encode())
                first.read()
        why = "each line arrives once, also if a reader has only saved it. Try those from `start`."
        must_be(first.rows, ["a", "", "ünö", "b"], "`read` returned", why)
        second = answer(port + 1, str(folder / "lines"))  # the batch failed, the query restarts
        for end, expected in (({"lines": 3}, ["ünö"]), (first.offset, ["ünö", "b"])):
            rows = [row[0] for row in second.readBetweenOffsets(start, end)]
            what = f"A new reader's readBetweenOffsets({start}, {end}) returned"
            must_be(rows, expected, what, "the batch is repeated. Try the lines [start:end].")
        rows = _Listener(second, start).rows  # as if Spark had not recorded the batch
        must_be(rows, ["ünö", "b"], f"A new reader's read({start}) returned", why)
    return "The failed batch was read again, and each line is there once."


class _Listener:
    """Calls a reader's `read` as Spark does, without Spark."""

    def __init__(self, reader: Any, offset: Any = None) -> None:
        self.reader, self.offset, self.rows = reader, offset or {"lines": 0}, list[str]()
        self.read()  # the first one opens the port

    def read(self) -> None:
        for _ in range(5):  # one call accepts a connection, the next one receives
            rows, self.offset = self.reader.read(self.offset)
            self.rows += [row[0] for row in rows]


_GOOD, _BAD = "1583309377078,0.50,good", "what, no time?"
_TIME, _ZERO = (datetime.fromtimestamp(seconds, UTC) for seconds in (1583309377.078, 0))
_TIMED = [
    Case(([_GOOD], "FAILFAST"), [(_GOOD, _TIME)], "the time is in UTC: fromtimestamp(…, UTC)."),
    Case(([_GOOD, _BAD], "PERMISSIVE"), [(_GOOD, _TIME), (_BAD, None)], "no line is lost."),
    Case(([",x", "12", "0,"], "DROPMALFORMED"), [("0,", _ZERO)], "digits must precede the comma."),
    Case(([_GOOD, _BAD], "FAILFAST"), ValueError(_BAD), "it has no time. Try raise, and {line!r}."),
]


@exercise("def with_time(lines, mode)")
def check_05_1(answer: Callable[..., Any]) -> str:
    """Does `answer` yield each line with its event time, and treat the others as `mode` says?"""
    compare(answer, _TIMED, key=lambda rows: [tuple(row) for row in rows])
    return "Each line has the time at which it happened, in UTC."


_SLICES = [
    Case(({"A": 5}, {"A": 24}, 10), [("A", 5, 15), ("A", 15, 24)], "24 is the end. Try min."),
    Case(({"A": 30}, {"A": 30}, 10), [], "nothing is unread. Try range(first, stop, size)."),
    Case(({}, {"A": 4, "B": 7}, 10), [("A", 0, 4), ("B", 0, 7)], "new ports start at 0. Try get."),
]


@exercise("def slices(start, end, size)")
def check_06_1(answer: Callable[..., Any]) -> str:
    """Is each unread byte in exactly one slice of the requested size?"""
    compare(answer, _SLICES)
    return "Each byte is read once, and all tasks have work."


_NINE, _TEN = "a,9,x", "a,10,y, z"
_ACCEPTED = [
    Case(({"a": 2}, ["a,1,x", "a,2,y"]), ([], {"a": 2}), "1 and 2 were seen before."),
    Case(({"a": 8}, [_NINE, _TEN]), ([_NINE, _TEN], {"a": 10}), "as texts, 9 is more."),
    Case(({"a": 5}, ["b,1,x"]), (["b,1,x"], {"a": 5, "b": 1}), "each sender has its numbers."),
    Case(({}, ["a,0,x", "a,0,x"]), (["a,0,x"], {"a": 0}), "0 is new, but only once."),
]


@exercise("def accept(seen, lines)")
def check_07_1(answer: Callable[..., Any]) -> str:
    """Does `answer` drop the lines that have arrived before, and no others?"""
    compare(answer, _ACCEPTED, key=lambda r: tuple(r) if isinstance(r, list) else r)
    return "A repeated line is dropped, also after a restart, because `seen` is in the offset."


_BATCHES: list[tuple[int, list[str]]] = [(1, ["a"]), (10, ["b", "b", ""]), (1, [" c ", "d"])]
_DRAFT = "they see whole batches only. Try a draft with another name, and rename it."


@exercise("def write_batch(folder, batch_id, lines)")
def check_08_1(answer: Callable[..., Any]) -> str:
    """Does `answer` write each batch into one file, once, and all of it or nothing?"""

    def broken_off() -> Iterator[str]:
        yield "half"
        raise OSError("the power fails")

    def readers_see() -> dict[str, str]:
        return {file.name: file.read_text() for file in folder.glob("batch-*.csv")}

    before: dict[str, str] = {}
    seen: list[dict[str, str]] = []
    with trial.scratch() as folder:
        for batch, lines in _BATCHES:
            with suppress(OSError):
                answer(folder, batch, broken_off())
                raise Wrong("You swallowed an OSError; expected that you raise it.")
            must_be(readers_see(), before, "The lines broke off. Readers see", _DRAFT)
            seen.clear()
            sys.setprofile(lambda *_: seen.append(readers_see()))  # at any time
            try:
                answer(folder, batch, iter(lines))
            finally:
                sys.setprofile(None)
            after = before | {f"batch-{batch}.csv": "".join(f"{line}\n" for line in lines)}
            why = "a batch has one file, and each line ends with a newline."
            must_be(readers_see(), after, "Readers see", why)
            odd = [texts for texts in seen if texts not in (before, after)]
            must_be(odd[:1], [], "Meanwhile readers saw", _DRAFT)
            before = after
    return "A repeated batch replaces its file, and no one sees half of one."


_TILL = """CREATE TABLE till (euros INT); INSERT INTO till VALUES (0);
CREATE TABLE done (query TEXT, batch INT, PRIMARY KEY (query, batch));
INSERT INTO done VALUES ('q', 0);"""
_FULL = "BEGIN SELECT * FROM a_full_disk; END;"  # not an IntegrityError
_TRY = "Try one transaction, and no `except`."
_PAYMENTS = [  # query, batch, euros, and what fails; what is in the till then
    Case(("q", 1, 50, ""), 50, "the batch is new."),
    Case(("q", 1, 50, ""), 50, "the batch is repeated. Try to look into `done` first."),
    Case(("r", 1, 20, ""), 70, "it is batch 1 of another query. Try both columns of `done`."),
    Case(("q", 2, 30, "UPDATE ON till"), sqlite3.Error(), f"the UPDATE fails. {_TRY}"),
    Case(("q", 2, 30, "INSERT ON done"), sqlite3.Error(), f"the INSERT fails. {_TRY}"),
    Case(("q", 2, 30, ""), 100, f"the batch failed before, and changed nothing. {_TRY}"),
    Case(("q", 0, 90, ""), 100, "`done` has batch 0, of an earlier run. Try to look there first."),
]


@exercise("def pay(path, query_id, batch_id, euros)")
def check_08_2(answer: Callable[..., Any]) -> str:
    """Does `answer` add each batch of each query once, and change nothing if it fails?"""
    with trial.scratch() as folder, closing(sqlite3.connect(folder / "till.db")) as database:
        database.executescript(_TILL)

        def till_after(query: str, batch: int, euros: int, failing: str) -> Any:
            database.executescript("DROP TRIGGER IF EXISTS full;")
            if failing:
                database.executescript(f"CREATE TRIGGER full BEFORE {failing} {_FULL}")
            answer(folder / "till.db", query, batch, euros)
            return database.execute("SELECT euros FROM till").fetchone()[0]

        compare(till_after, _PAYMENTS)
    return "Each batch of each query counts once, whatever fails."
