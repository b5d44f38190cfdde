"""Checks of notebooks 00 to 08: sinks, files, lines from the network, event time, checkpoints."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.streaming import DataStreamWriter

from tutorial_pkg import network_status
from tutorial_pkg.core.places import project_dir
from workbook.checks.trial import run_and_restart, scratch, session
from workbook.checks.verdict import Case, Wrong, compare, exercise, expect, listed, must_be, show
from workbook.number_files import sink_of, source_of


def _check_frame(answer: Any) -> None:
    got = f"You returned {type(answer).__name__} {show(answer)}"
    text = f"{got}; expected a DataFrame, because only a plan is asked for. Try it without .start()"
    expect(isinstance(answer, DataFrame), f"{text} or .count().")
    columns = f"You returned the columns {answer.columns}; expected ['item']."
    expect(answer.columns == ["item"], f"{columns} Try it without select().")


# ---- 00 ------------------------------------------------------------------------------------------


@exercise()
def check_00_1(answer: DataFrame) -> str:
    """Is `answer` an endless stream of 50 items a second, not started?"""
    _check_frame(answer)
    ends = "You returned a DataFrame that ends or drops items; expected an endless one."
    expect(answer.isStreaming, f"{ends} Try item_stream.")
    plan = answer._jdf.queryExecution().logical().toString()
    text = f"{ends} Try it without limit(), where() and the like."
    expect(not re.search("Limit|Filter|Deduplicate|Sample", plan), text)
    rates = re.findall(r"rowsPerSecond=(\d+)", plan)
    text = f"You returned {' and '.join(rates)} items a second; expected 50."
    expect(rates == ["50"], f"{text} Try items_per_second=50.")
    text = "A query runs; expected a plan only. Try: for query in spark.streams.active: "
    expect(not answer.sparkSession.streams.active, f"{text}query.stop()")
    return "An endless stream, 50 items a second. Nothing has run yet: it is only a plan."


# ---- 01 ------------------------------------------------------------------------------------------

_EXACTLY = r"the reader of the package expects \n, \r and \\ exactly. Try str.replace."
_ESCAPES = [
    Case(("plain, \t'Grüße\u2028\"",), "plain, \t'Grüße\u2028\"", "nothing else is escaped."),
    Case(("a\nb\n",), r"a\nb\n", f"an item must stay on one line, and {_EXACTLY}"),
    Case(("\ra\r\n",), r"\ra\r\n", f"a carriage return may end a line, too, and {_EXACTLY}"),
    Case(("a\\nb",), r"a\\nb", "a newline must differ from a backslash and an n. Escape \\ first."),
    Case(("\\\\pc\\",), r"\\\\pc\\", "each backslash becomes two, even at the end."),
    Case(("",), "", "an empty item stays empty."),
]


@exercise("def escape(item)")
def check_01_1(answer: Callable[[str], str]) -> str:
    """Does `answer` keep an item on one line, so that no two items look alike?"""
    compare(answer, _ESCAPES)
    return "One item, one line, and nothing lost."


@exercise("class JsonWriter(DataSourceStreamWriter)", base=DataSourceStreamWriter)
def check_01_2(answer: Any) -> str:
    """Does this writer's sink publish each batch once, also when it fails or is repeated?"""
    spark = session()
    with scratch() as folder:
        (folder / "in").mkdir()
        (folder / "out").mkdir()

        class Watched(answer):  # type: ignore[misc]
            def commit(self, messages: Any, batchId: int) -> None:
                early = [file.name for file in (folder / "out").glob("batch-*.json")]
                if early and batchId == 0:
                    raise ValueError(f"readers see {early} before `commit`")
                if batchId == 2:
                    raise ValueError("all drafts are there, and then the batch fails")
                super().commit(messages, batchId)

        def query() -> DataStreamWriter:
            rows = spark.readStream.text(str(folder / "in")).repartition(2)
            return rows.writeStream.format("checked").option("path", str(folder / "out"))

        spark.dataSource.register(sink_of(Watched, "checked"))
        steps = [partial(_post, folder / "in", item) for item in ("a\nb\n", "c\n")]
        run_and_restart(query, folder, steps)
        names = [f"batch-{batch}-{task}.json" for batch in (0, 1) for task in (0, 1)]
        try:
            run_and_restart(query, folder, [partial(_post, folder / "in", "d\ne\n")])
        except Wrong:
            found = sorted(file.name for file in (folder / "out").iterdir())
        why = "a repeated batch replaces its files, and `abort` removes the drafts."
        must_be(found, names, "After a repeated and a failed batch there are", why)
        lines = "".join((folder / "out" / name).read_text() for name in names).splitlines()
        rows = sorted(json.loads(line)["value"] for line in lines)
        must_be(rows, ["a", "b", "c"], "Readers see", "each row is there once, as JSON.")
    return "Each batch is there once, whole, and a repeated one replaces itself."


def _post(folder: Path, text: str) -> None:
    (folder / f"{len(list(folder.iterdir()))}.txt").write_text(text)


# ---- 02 ------------------------------------------------------------------------------------------


@exercise("class MyWriter(DataSourceWriter)", base=DataSourceWriter)
def check_02_1(answer: type[DataSourceWriter]) -> str:
    """Does this writer's `commit` write into `total.txt` how many lines all tasks wrote?"""
    spark = session()
    spark.dataSource.register(sink_of(answer, "checked_total"))
    with scratch() as folder:
        for rows in (90, 60):
            for file in folder.glob("*.csv"):
                file.unlink()
            items = spark.range(0, rows, 1, 3).selectExpr("concat('item ', id) AS item")
            items.write.format("checked_total").mode("append").save(str(folder))
            files = [file for file in folder.iterdir() if file.name != "total.txt"]
            lines = sum(len(file.read_text().splitlines()) for file in files)
            must_be(lines, rows, "Lines in the files:", "each row is a line. Try self.open().")
            total = folder / "total.txt"
            found = total.read_text().strip() if total.exists() else "(no total.txt)"
            why = "each task reports its count in a message. `commit` runs on another copy."
            must_be(found, str(rows), "total.txt says", why)
    return f"{len(files)} tasks reported, and the total is what the files hold: {rows}."


@exercise()
def check_02_2(answer: DataFrame) -> str:
    """Are these the 8,000 rows, in two partitions, without a shuffle?"""
    _check_frame(answer)
    plan = answer._jdf.queryExecution().executedPlan().toString()
    shuffled = "Exchange" in plan or b"ShuffledRDD" in (answer.rdd.toDebugString() or b"")
    text = "The plan has an Exchange; expected none, because it moves rows to other partitions."
    expect(not shuffled, f"{text} Try coalesce().")
    count = answer.rdd.getNumPartitions()
    text = f"You returned {count} partitions; expected 2, because each becomes a file."
    expect(count == 2, f"{text} Try wide.coalesce(2).")
    rows = answer.distinct().count() if answer.count() == 8000 else answer.count()
    expect(rows == 8000, f"You returned {rows} different rows; expected the 8000 of `wide`.")
    return "Eight partitions became two, and no row was moved."


# ---- 03 ------------------------------------------------------------------------------------------

_ENDS = [
    Case((b"one\ntw",), 4, "the offset comes after the last newline, which is byte 3."),
    Case((b"on",), 0, "without a newline no line is complete. rfind returns -1 then."),
    Case((b"a\n\nb\nc",), 5, "only the bytes after the *last* newline wait."),
    Case((b"a\n\n",), 3, "an empty line is a line, too."),
    Case((b"\ntw",), 1, "an empty line ends at byte 0."),
    Case((b"a\rb\nc",), 4, "only b'\\n' ends a line. splitlines() cuts at b'\\r', too."),
    Case(("ü\n\xc3".encode(),), 3, "an offset counts bytes. Try not to decode."),
]


@exercise("def next_unread(data)")
def check_03_1(answer: Callable[[bytes], int]) -> str:
    """Does `answer` say up to which byte whole lines can be emitted?"""
    compare(answer, _ENDS)
    return "Never half a line, and none twice: the offset comes right after a newline."


@exercise("class WholeLines(DataSourceStreamReader)", base=DataSourceStreamReader)
def check_03_2(answer: Callable[[str], DataSourceStreamReader]) -> str:
    """Does this reader emit each whole line of a growing file once, also after a restart?"""
    spark, batches = session(), dict[int, list[str]]()
    spark.dataSource.register(source_of(answer, "checked_source", "value STRING"))
    with scratch() as folder:

        def query() -> DataStreamWriter:
            lines = spark.readStream.format("checked_source").load(str(folder / "log"))
            return lines.writeStream.foreachBatch(take)

        def take(rows: DataFrame, batch: int) -> None:
            batches[batch] = [row[0] for row in rows.collect()]

        pieces = ["ünö\ntw".encode(), "o\n\n thr\u2028ee\n".encode(), b""]
        run_and_restart(query, folder, [partial(_append, folder / "log", p) for p in pieces])
    rows = [row for _, batch in sorted(batches.items()) for row in batch]
    why = "half a line must wait, and a restart repeats the last batch with the same offsets. Try "
    why += "offsets in bytes from the start of the file, after a b'\\n', and none in `self`."
    must_be(rows, ["ünö", "two", "", " thr\u2028ee"], "Restarted, a query read", why)
    return "Every whole line once, and a new reader goes on where the old one stopped."


def _append(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


# ---- 04 ------------------------------------------------------------------------------------------

_TEXT = "first\n\n Grüße\rfrom\u2028afar \n\ufeffreturn\r\nlast"
_LINES = ["first", "", " Grüße\rfrom\u2028afar ", "\ufeffreturn\r"]


@exercise("def cut(rest, received)")
def check_04_1(answer: Callable[[bytes, bytes], tuple[list[str], bytes]]) -> str:
    """Does `answer` make the same lines of the same bytes, however they are cut into pieces?"""
    data = _TEXT.encode()
    for size in (len(data), 1, 3):
        lines, rest = list[str](), b""
        for start in range(0, len(data), size):
            complete, rest = answer(rest, data[start : start + size])
            lines += listed(complete)
        what = f"In pieces of {size} bytes, {data!r} became"
        why = "only b'\\n' ends a line, and a character may be cut in two. Try split(b'\\n')."
        must_be((lines, rest), (_LINES, b"last"), what, why)
    try:
        lines, _ = answer(b"", b"one\xfftwo\n")
    except Exception:
        lines = ["one\ufffdtwo"]  # to refuse such a line is right, too
    text = f"b'one\\xfftwo\\n' became {lines}; expected an error or a mark. Try errors='replace'."
    expect(re.fullmatch(r"one\W.*two", "".join(lines)), text)
    return "The same lines, however the bytes arrive."


@exercise()
def check_04_2(answer: Path | str) -> str:
    """Has the listener of this log kept two lines and dropped one that was too long?"""
    got = f"You returned {type(answer).__name__} {show(answer)}"
    text = f"{got}; expected the log's folder. Try work / 'mine' / 'log'."
    expect(isinstance(answer, Path | str), text)
    status = network_status(Path(answer))
    expect(status.ports, f"No query has listened for the log {answer}. Try the folder 'log' in it.")
    lines = sum(port.lines for port in status.ports.values())
    dropped = sum(port.dropped["too_long"] for port in status.ports.values())
    text = f"{lines} lines were kept and {dropped} dropped; expected 2 and 1. Try maxLineBytes=100,"
    text += " each of the three lines once, and a wait for the status before you stop the query."
    expect((lines, dropped) == (2, 1), text)
    spark = SparkSession.getActiveSession()
    runs = status.listening and (spark is None or bool(spark.streams.active))
    expect(not runs, "The query still listens; expected a stopped one. Try query.stop().")
    return f"{lines} lines kept, {dropped} dropped and counted, and the memory stays flat."


# ---- 05 ------------------------------------------------------------------------------------------


@exercise()
def check_05_1(answer: Any) -> str:
    """Is `answer` the smallest delay, in whole seconds, that no line exceeds?"""
    got = f"You returned {type(answer).__name__} {show(answer)}"
    number = isinstance(answer, Real) and not isinstance(answer, bool) and math.isfinite(answer)
    expect(number, f"{got}; expected a number of seconds. Try total_seconds().")
    text = f"You returned {answer}; expected whole seconds, rounded up. Try math.ceil."
    expect(answer == int(answer), text)
    behind = _seconds_behind()
    late = sum(seconds > answer for seconds in behind)
    text = f"You returned {answer}; expected more, because {late} lines would be behind the "
    text += "watermark. Try the largest distance between a line and the highest time before it."
    expect(not late, text)
    text = f"You returned {answer}; expected less, because every result would wait longer than it "
    expect(answer == math.ceil(max(behind)), f"{text}has to. Are these milliseconds?")
    return "Nothing is late, and no result comes later than it has to."


def _seconds_behind() -> list[float]:
    """Return how far each line is behind the highest event time up to it."""
    with open(project_dir() / "data" / "cpu_log_disordered.csv") as file:
        millis = [int(line.partition(",")[0]) for line in file]
    newest = accumulate(millis, max)
    return [(high - own) / 1000 for high, own in zip(newest, millis, strict=True)]


_STARTS = "windows start at multiples of `slide`, and each contains its start but not its end."
_WINDOWS = [
    Case((25, 30, 10), [0, 10, 20], _STARTS),
    Case((30, 30, 10), [10, 20, 30], _STARTS),
    Case((75, 60, 20), [20, 40, 60], _STARTS),
    Case((5, 30, 10), [-20, -10, 0], "a window may begin before second 0."),
    Case((21, 25, 10), [0, 10, 20], "there are three such windows, though 25 // 10 is 2."),
    Case((17, 5, 10), [], "windows of 5 seconds every 10 leave gaps, and 17 is in one."),
    Case((-35, 30, 10), [-60, -50, -40], "-35 // 10 is -4."),
    Case((25,), [0, 10, 20], "the default length is 30 and the default slide is 10."),
]


@exercise("def windows_of(second, length=30, slide=10)")
def check_05_2(answer: Callable[..., list[int]]) -> str:
    """Does `answer` return the starts of all sliding windows that contain an event?"""
    compare(answer, _WINDOWS, key=lambda result: sorted(listed(result)))
    return "All windows that contain it: three, with a length of 30 seconds and a slide of 10."


# ---- 06 ------------------------------------------------------------------------------------------

_LEAST = "it is the smallest of the ports' newest times, minus the delay."
_SILENT = "a port that has sent nothing may be far behind. Compare with None: 0 is a time, too."
_COALESCED = [
    Case(([("A", 70), ("A", 75)], ["A", "B"], 5), [None, None], _SILENT),
    Case(([("A", 70), ("B", 10)], ["A", "B"], 5), [None, 5], _LEAST),
    Case(([("A", 30), ("B", 40), ("B", 20)], ["A", "B"], 5), [None, 25, 25], _LEAST),
    Case(([("A", 70), ("B", 20), ("A", 90), ("B", 95)], ["A", "B"], 7), [None, 13, 13, 83], _LEAST),
    Case(
        ([("A", 50), ("B", 40), ("B", 20)], ["A", "B"], 5), [None, 35, 35], "20 is older than 40."
    ),
    Case(([("A", 0), ("B", 0)], ["A", "B"], 5), [None, -5], _SILENT),
    Case(([("A", 5), ("B", 6)], ["A", "B", "C"], 5), [None, None], _SILENT),
    Case(([], ["A", "B"], 5), [], "there is one watermark for each event."),
]


@exercise("def coalesced(events, ports, delay)")
def check_06_1(answer: Callable[..., list[int | None]]) -> str:
    """Does `answer` return the least of the ports' watermarks after each event?"""
    compare(answer, _COALESCED, key=listed)
    return "The smallest watermark counts, so no port is late because another is ahead."


_DELAY_SECONDS, _FIRST_SECOND, _LAST_SECOND = 25, 890, 900


@exercise()
def check_06_2(answer: str, begin: int) -> str:
    """Does the line `answer` move the watermark to between 890 and 900 s after `begin` (in ms)?"""
    got = f"You returned {show(answer)}"
    line = isinstance(answer, str) and "\n" not in answer
    expect(line, f"{got}; expected one line, a str without its newline.")
    prefix = re.match(r"(\d{1,15}),", answer)
    if prefix is None:
        raise Wrong(f"{got}; expected epoch milliseconds before a comma, or its time is null.")
    second = (int(prefix[1]) - begin) / 1000 - _DELAY_SECONDS
    text = f"{got}, which moves the watermark to second {second:,g}; expected {_FIRST_SECOND} to "
    text += f"{_LAST_SECOND}. Try: begin is in milliseconds, and the query waits {_DELAY_SECONDS} "
    expect(_FIRST_SECOND <= second <= _LAST_SECOND, f"{text}seconds.")
    return "One line in which nothing happened, and all results move on."


def a_heartbeat(begin: int) -> str:
    """Return a line that passes `check_06_2`, to continue a notebook without a right answer."""
    return f"{begin + (_LAST_SECOND - 5 + _DELAY_SECONDS) * 1000},0.0,heartbeat"


# ---- 07 ------------------------------------------------------------------------------------------

_CHECKPOINTS = (  # first batch with a note, batches begun, batches committed, the reason
    (0, 3, 3, "the last batch is committed, so nothing is repeated. Names with a dot are hidden."),
    (0, 3, 2, "offsets/2 has no commits/2. An offset is the last line of a note, as a dict."),
    (0, 12, 11, "the last batch is 11. As texts, 9 would be higher."),
    (0, 12, 12, "the last commit is 11. As texts, 9 would be higher."),
    (5, 8, 7, "Spark deletes old notes. Compare batch numbers, not counts of files."),
    (0, 1, 0, "batch 0 has no batch before it, so its start is None."),
)


@exercise("def repeated(checkpoint)")
def check_07_1(answer: Callable[[Path], Any]) -> str:
    """Does `answer` tell from a checkpoint which batch is going to be repeated?"""
    for first, batches, commits, why in _CHECKPOINTS:
        with scratch() as folder:
            _write_checkpoint(folder, first, batches, commits)
            last = batches - 1
            expected = (last, _offset(last - 1) if last else None, _offset(last))
            case = Case((folder,), expected if commits < batches else None, why)
            compare(answer, [case], key=lambda r: tuple(r) if isinstance(r, list) else r)
    return "Begun and not committed: that batch runs again, with the very same offsets."


def _offset(batch: int) -> dict[str, int]:
    return {"next": 10 * (batch + 1), "batch": batch}


def _write_checkpoint(folder: Path, first: int, batches: int, commits: int) -> None:
    """As Spark does, with the hidden checksum beside each note; notes before `first` are gone."""
    for kind, start, end in (("offsets", first, batches), ("commits", max(0, first - 1), commits)):
        (folder / kind).mkdir()
        for batch in range(start, end):
            last = json.dumps(_offset(batch)) if kind == "offsets" else "{}"
            (folder / kind / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{last}')
            (folder / kind / f".{batch}.crc").write_bytes(b"crc\0")
    if commits < batches:  # the query died while it wrote the note
        (folder / "commits" / f".{commits}.tmp").touch()


_SAVED = {"11000": 5120, "11001": 880}
_GONE = "a port that is gone still has unread lines in its log."
_PORTS = [
    Case((_SAVED, [11000, 11001]), _SAVED, "what is saved wins over 0. A key in JSON is a str."),
    Case((_SAVED, [11000]), _SAVED, _GONE),
    Case((_SAVED, [11000, 11001, 11002]), {**_SAVED, "11002": 0}, "a new port starts at 0."),
    Case((_SAVED, [12000]), {**_SAVED, "12000": 0}, _GONE),
    Case(({}, [11000]), {"11000": 0}, "nothing is saved, so 11000 is new."),
    Case(({"11000": 0}, [11001]), {"11000": 0, "11001": 0}, _GONE),
]


@exercise("def restore(saved, ports)")
def check_07_2(answer: Callable[..., dict[str, int]]) -> str:
    """Does `answer` resume from a saved offset with other ports, losing and repeating nothing?"""
    compare(answer, _PORTS)
    return "Old ports are read to their end, new ones start empty."


# ---- 08 ------------------------------------------------------------------------------------------

_CSV = "batch-*.csv"


@exercise("def write_batch(folder, batch_id, lines)")
def check_08_1(answer: Callable[..., Any]) -> str:
    """Does `answer` write each batch into one file, once, and all of it or nothing?"""
    with scratch() as folder:
        expected: dict[str, str] = {}
        for batch, lines in ((1, ["a"]), (10, ["b", "b", ""]), (1, [" c ", "d"])):
            name = f"batch-{batch}.csv"
            file, before = folder / name, _visible(folder)
            inode = file.stat().st_ino if file.exists() else None
            answer(folder, batch, _watched(lines, folder, before))
            expected[name] = "".join(f"{line}\n" for line in lines)
            why = "a repeated batch replaces its file, and each line ends with a newline."
            must_be(_visible(folder), expected, "Readers see", why)
            text = f"{name} was written in place, so readers may see half of it. Try a draft, and"
            expect(not before or inode != file.stat().st_ino, f"{text} rename it at the end.")
        for batch in (1, 2):
            try:
                answer(folder, batch, _broken_off())
            except OSError:
                why = "the lines broke off. Try a draft, and rename it when it is whole."
                must_be(_visible(folder), expected, "Readers see", why)
            else:
                raise Wrong("It swallowed an OSError; expected that it comes out. Try no `except`.")
        answer(folder, 2, iter(["f"]))
        found = _visible(folder).get("batch-2.csv")
        must_be(found, "f\n", "After a failure the batch is", "an old draft may be there.")
    return "A repeated batch replaces its file, and nobody sees half of one."


def _visible(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("batch-*.csv")}


def _watched(lines: list[str], folder: Path, before: dict[str, str]) -> Iterator[str]:
    """Yield the lines; while they are written, readers must see what they saw before."""
    for line in lines:
        yield line
        why = "the batch is not complete. Try a draft with another name."
        must_be(_visible(folder), before, "Readers see", why)


def _broken_off() -> Iterator[str]:
    yield "e"
    raise OSError("the power fails")


def _difference(sent: str, arrived: str, why: str) -> Case:
    """Each letter is a line."""
    lost, more = Counter(sent) - Counter(arrived), Counter(arrived) - Counter(sent)
    return Case((list(sent), list(arrived)), (dict(lost), dict(more)), why)


_DIFFERENCES = [
    _difference("abc", "cab", "the order does not count."),
    _difference("abc", "aac", "one line is lost and another is duplicated. First the lost ones."),
    _difference("aab", "ab", "a line sent twice must arrive twice. Sets cannot count."),
    _difference("ab", "aaab", "three copies are two too many."),
    _difference("ab", "abx", "a line that was never sent counts as too often."),
]


@exercise("def compare(sent, arrived)")
def check_08_2(answer: Callable[..., Any]) -> str:
    """Does `answer` find what is lost and what came too often, as multisets?"""
    compare(answer, _DIFFERENCES, key=_two_dicts)
    return "Every line as often as it was sent: that is exactly once, and this proves it."


def _two_dicts(result: Any) -> tuple[dict[str, int], ...]:
    pair = isinstance(result, tuple | list) and len(result) == 2
    right = pair and all(isinstance(one, Mapping) for one in result)
    expect(right, f"You returned {show(result)}; expected two dictionaries, lost and too often.")
    return tuple(dict(one) for one in result)
