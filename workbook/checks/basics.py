"""Checks of notebooks 00 to 08: sinks, files, lines from the network, event time, checkpoints."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.streaming import StreamingQuery

from spark_connector_tests import StreamSink, examine_sink
from workbook.checks import trial
from workbook.checks.verdict import Case, compare, exercise, expect, must_be, show
from workbook.number_files import sink_of, source_of
from workbook.senders import HOST, free_ports


@exercise()
def check_00_1(answer: StreamingQuery) -> str:
    """Has `answer` read at least 200 of 50 items per second, and is it stopped?"""
    text = f"You set answer to {show(answer)}; expected a query, as start() returns it."
    expect(isinstance(answer, StreamingQuery), text)
    expect(not answer.isActive, "Your query is running; expected a stopped one. Try query.stop().")
    rows = sum(batch.numInputRows for batch in answer.recentProgress)
    text = f"Your query read {rows} rows; expected at least 200. Try watch(query, rows=200)."
    expect(rows >= 200, text)
    source = answer.recentProgress[0].sources[0].description
    text = f"Your query reads {source}; expected 50 rows per second. Try items_per_second=50."
    expect("rowsPerSecond=50," in source, text)
    return "At least 200 rows, 50 per second, and then you stopped the query."


@exercise("class JsonWriter(DataSourceStreamWriter)")
def check_01_1(answer: Any) -> str:
    """Do readers see each batch of this writer as a whole, and only after its commit?"""
    _examine(answer, _json_rows, "every_row_once", "failed_batch")
    return "Readers see whole batches."


@exercise("class RestartableWriter(DataSourceStreamWriter)")
def check_01_2(answer: Any) -> str:
    """Does this writer's sink publish each batch once, also when it fails or is repeated?"""
    files = _examine(answer, _json_rows, "repeated_batch", "failed_batch")
    drafts = sum(not name.endswith(".json") for name in files)
    text = f"A task failed, and {drafts} drafts are left; expected 1 at most, its own, because "
    expect(drafts <= 1, f"{text}`abort` or `commit` gets all messages.")
    return "Each batch is there once, whole, and a repeated one replaces itself."


@exercise("class ParquetFiles(DataSourceStreamArrowWriter)")
def check_02_1(answer: Any) -> str:
    """Does this Arrow writer store each row once in Parquet files, also if a batch is repeated?"""
    _examine(answer, _parquet_rows, "every_row_once", "repeated_batch", "failed_batch")
    return "Whole batches in Parquet files, and a repeated one replaces itself."


def _examine(writer: Any, read: Callable[[Path], list[str]], *promises: str) -> list[str]:
    """Try these promises of the kit with a writer of files; return the names of the files."""
    with trial.scratch() as folder:
        sink = StreamSink(sink_of(writer), partial(read, folder), {"path": folder})
        trial.must_keep_all(examine_sink(lambda _: sink, trial.session(), only=promises))
        return [file.name for file in folder.iterdir()]


def _json_rows(folder: Path) -> list[str]:
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    expect(all(isinstance(row, dict) for row in rows), "A line is no object. Try row.asDict().")
    return [row["value"] for row in rows]


def _parquet_rows(folder: Path) -> list[str]:
    tables = [pq.read_table(file) for file in folder.glob("*.parquet")]
    return [value for table in tables for value in table["value"].to_pylist()]


@exercise("class WholeLines(DataSourceStreamReader)")
def check_03_1(answer: Any) -> str:
    """Does this reader emit each whole line of a growing file once, also after a restart?"""
    spark = trial.session()
    spark.dataSource.register(source_of(answer, "checked_source", "value STRING"))
    with trial.scratch() as folder:
        log = folder / "log"
        data = "ünö\nthe longest line\ntwo\n\n thr\u2028ee\n\n4\n".encode()
        rows, _ = trial.rows_after_restart(
            lambda: spark.readStream.format("checked_source").load(str(log)),
            folder,
            [partial(log.write_bytes, data[:size]) for size in (25, 39, 41)],  # 25: at "tw"
        )
    why = "half a line must wait. Try the offset, in bytes, after the last b'\\n', and not `self`."
    expected = data.decode().split("\n")[:-1]
    must_be([line for (line,) in rows], expected, "Restarted, a query read", why)
    return "Every whole line once, and a new reader resumes where the old one stopped."


@exercise("class OwnRest(SmallReader)")
def check_04_1(answer: Any) -> str:
    """Does this reader complete each line with the bytes of its own connection?"""
    port = free_ports()
    listener = _Listener(answer(port))
    connect = partial(socket.create_connection, (HOST, port))
    with connect() as one, connect() as two:
        for sender, data in ((one, b"le"), (two, b"right\n"), (one, b"ft\n")):
            sender.sendall(data)
            listener.read()
    why = "each connection has its own rest. Try a dictionary by socket."
    must_be(sorted(listener.rows), ["left", "right"], "The lines of two senders became", why)
    return "Each connection completes its own lines."


@exercise("class Kept(SmallReader)")
def check_04_2(answer: Any) -> str:
    """Does a new reader return the lines that an earlier one has saved, so that none is lost?"""
    port = free_ports(2)
    with trial.scratch() as folder:
        first = _Listener(answer(port, str(folder / "lines")))
        with socket.create_connection((HOST, port)) as sender:
            sender.sendall("a\n\nünö\nb\n".encode())
            first.read()
        why = "all lines are in the file. Try those from `start` to the last one, or to `end`."
        must_be(first.rows, ["a", "", "ünö", "b"], "`read` returned", why)
        second = answer(port + 1, str(folder / "lines"))  # the batch failed, the query restarts
        rows = [row[0] for row in second.readBetweenOffsets({"lines": 2}, {"lines": 3})]
        must_be(rows, ["ünö"], "A new reader's `readBetweenOffsets` from 2 to 3 returned", why)
        must_be(_Listener(second, 2).rows, ["ünö", "b"], "Its `read` from 2 returned", why)
    return "The failed batch was read again, and each line is there once."


class _Listener:
    """Calls a reader's `read` as Spark does, without Spark."""

    def __init__(self, reader: Any, start: int = 0) -> None:
        self.reader, self.offset, self.rows = reader, {"lines": start}, list[str]()
        self.read()  # the first one opens the port

    def read(self) -> None:
        for _ in range(5):  # one call accepts a connection, the next one receives
            rows, self.offset = self.reader.read(self.offset)
            self.rows += [row[0] for row in rows]


_GOOD, _BAD = "1583309377078,0.50,good", "what, no time?"
_TIME = datetime.fromtimestamp(1583309377.078, UTC)
_TIMED = [
    Case(([_GOOD], "FAILFAST"), [(_GOOD, _TIME)], "the time is in UTC: fromtimestamp(…, UTC)."),
    Case(([_GOOD, _BAD], "PERMISSIVE"), [(_GOOD, _TIME), (_BAD, None)], "no line is lost."),
    Case(([",x", "12", _GOOD], "DROPMALFORMED"), [(_GOOD, _TIME)], "digits must precede a comma."),
    Case(([_GOOD, _BAD], "FAILFAST"), ValueError(_BAD), "it has no time. Try raise, and {line!r}."),
]


@exercise("def with_time(lines, mode)")
def check_05_1(answer: Callable[..., Any]) -> str:
    """Does `answer` yield each line with its event time, and treat the others as `mode` says?"""
    compare(answer, _TIMED, key=lambda rows: [tuple(row) for row in rows])
    return "Each line has the time at which it happened, in UTC."


_SLICES = [
    Case(({"A": 5, "B": 9}, {"A": 8, "B": 9}, 2), [("A", 5, 7), ("A", 7, 8)], "8 is A's end."),
    Case(({}, {"A": 4, "B": 7}, 10), [("A", 0, 4), ("B", 0, 7)], "new ports start at 0. Try get."),
]


@exercise("def slices(start, end, size)")
def check_06_1(answer: Callable[..., Any]) -> str:
    """Is each unread byte in exactly one slice of the requested size?"""
    compare(answer, _SLICES, key=lambda slices: slices and sorted(map(tuple, slices)))
    return "Each byte is read once, and all tasks have work."


_SENT = ["a,8,x", "a,9,x", "a,10,y, z"]
_ACCEPTED = [
    Case(({"a": 8}, _SENT), (_SENT[1:], {"a": 10}), "8 was seen before. Try to compare integers."),
    Case(({"a": 5}, ["b,0,x"] * 2), (["b,0,x"], {"a": 5, "b": 0}), "each sender starts at 0."),
]


@exercise("def accept(seen, lines)")
def check_07_1(answer: Callable[..., Any]) -> str:
    """Does `answer` drop the lines that have arrived before, and no others?"""
    compare(answer, _ACCEPTED, key=lambda r: tuple(r) if isinstance(r, list) else r)
    return "A repeated line is dropped, also after a restart, because `seen` is in the offset."


_DRAFT = "Try a draft with another name, and rename it."
_FILES = [  # a batch and its lines; what readers see then
    Case((1, [b"a", b""]), {"batch-1.csv": "a\n\n"}, "each line ends with a newline."),
    Case((2, [b"b", b"\xff"]), ValueError(), "its second line fails. Try not to catch that."),
    Case((1, [b"c"]), {"batch-1.csv": "c\n"}, f"batch 1 is replaced, and 2 has failed. {_DRAFT}"),
    Case((2, [b"d"]), {"batch-1.csv": "c\n", "batch-2.csv": "d\n"}, "batch 2 has one line."),
]


@exercise("def write_batch(folder, batch_id, lines)")
def check_08_1(answer: Callable[..., Any]) -> str:
    """Does `answer` write each batch into one file, once, and all of it or nothing?"""
    with trial.scratch() as folder:

        def files_after(batch: int, lines: list[bytes]) -> dict[str, str]:
            with trial.no_file_in_place(folder, "batch-*.csv", _DRAFT):
                answer(folder, batch, map(bytes.decode, lines))
            return {file.name: file.read_text() for file in folder.glob("batch-*.csv")}

        compare(files_after, _FILES)
    return "A repeated batch replaces its file, and no one sees half of one."


# What fails must not be an IntegrityError: `INSERT OR IGNORE` would ignore it.
_TILL = """CREATE TABLE till (euros INT); INSERT INTO till VALUES (0);
CREATE TABLE done (query TEXT, batch INT, PRIMARY KEY (query, batch));
CREATE TRIGGER a BEFORE UPDATE ON till WHEN NEW.euros > 999 BEGIN SELECT json('full'); END;
CREATE TRIGGER b BEFORE INSERT ON done WHEN NEW.batch = 3 BEGIN SELECT json('full'); END;"""
_TRY = "Try one transaction, and no `except`."
_PAYMENTS = [  # query, batch, euros; what is in the till then
    Case(("q", 1, 50), 50, "the batch is new."),
    Case(("q", 1, 50), 50, "the batch is repeated. Try to look into `done` first."),
    Case(("r", 1, 20), 70, "it is batch 1 of another query. Try both columns of `done`."),
    Case(("q", 2, 999), sqlite3.Error(), f"the UPDATE fails. {_TRY}"),
    Case(("q", 2, 30), 100, f"the batch failed before, and changed nothing. {_TRY}"),
    Case(("q", 3, 40), sqlite3.Error(), f"the INSERT fails. {_TRY}"),
    Case(("q", 4, 50), 150, f"batch 3 failed before, and changed nothing. {_TRY}"),
]


@exercise("def pay(path, query_id, batch_id, euros)")
def check_08_2(answer: Callable[..., Any]) -> str:
    """Does `answer` add each batch of each query once, and change nothing if it fails?"""
    with trial.scratch() as folder, closing(sqlite3.connect(folder / "till.db")) as database:
        database.executescript(_TILL)

        def till_after(*payment: Any) -> Any:
            answer(folder / "till.db", *payment)
            return database.execute("SELECT euros FROM till").fetchone()[0]

        compare(till_after, _PAYMENTS)
    return "Each batch of each query counts once, whatever fails."
