"""Checks of notebook 03."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader

from workbook.checks.trial import (
    as_json,
    latest,
    rows_between,
    run_to_end,
    scratch,
)
from workbook.checks.verdict import Case, Wrong, compare, exercise, told
from workbook.number_files import source_of

Reader = Callable[[str], DataSourceStreamReader]
MOST_BATCHES = 10
LONG = 3_000_000  # bytes of a line: longer than anybody reads at once

# ---- Exercise 1: where the whole lines end -------------------------------------------------------

_LAST = "It must be after the *last* newline."
_NONE = "Without a newline nothing may be emitted."
_ENDS = [
    Case(
        (b"one\ntw",),
        4,
        _LAST,
        [
            (6, "Half a line goes out: it holds one whole line, of 4 bytes."),
            (3, "3 is the newline's own place: the offset is the byte *after* it."),
        ],
    ),
    Case((b"on",), 0, _NONE),
    Case((b"",), 0, _NONE),
    Case((b"one\n",), 4, _LAST),
    Case((b"a\n\nb\nc",), 5, _LAST),
    Case((b"a\n\n\n",), 4, "Empty lines at the end are whole lines, too."),
    Case((b"a\n \t",), 2, "Blanks may be the first half of a line: hold them back, too."),
    Case((b"\ntw",), 1, "0 is a place, too: an empty line ends there."),
    Case((b"a\rb\nc",), 4, "Only b'\\n' ends a line, and splitlines() cuts at b'\\r', too."),
    Case((b"a\r\nb\nc\rd",), 5, "b'\\r' is a byte like any other: it counts, and ends no line."),
    Case(("ü\nx".encode(),), 3, "ü has two bytes: count bytes, do not decode."),
    Case((b"\xff\n\xc3",), 2, "The file may end within a letter: count bytes, do not decode."),
    Case((b"one\n" + b"x" * LONG,), 4, "The newline may be far from the end: look at all bytes."),
]


@exercise("def next_unread(data)")
def check_03_1(answer: Callable[[bytes], int]) -> str:
    """Does `answer` say up to which byte whole lines can be emitted?"""
    compare(answer, _ENDS, key=_whole_number)
    return "Never half a line, and none twice: the offset comes right after a newline."


def _whole_number(found: Any) -> int:
    if type(found) is not int:
        raise Wrong(f"It must return a whole number, an int, whatever the bytes, not {found!r}.")
    return found


# ---- Exercise 2: a source that survives a restart ------------------------------------------------


NEXT_LINES = ["two", "", " thr\u2028ee ", "two"]
END_OF_FIRST = 6  # bytes: "ünö" and a newline
_IN_SELF = (
    "Spark makes new readers for each restart and for each task, and these know nothing: take the "
    "place from the offsets that Spark hands over, and keep none in `self`."
)


@exercise("class WholeLines(DataSourceStreamReader)", base=DataSourceStreamReader)
def check_03_2(answer: Reader) -> str:
    """Does this reader emit each whole line of a growing file once, also after a restart?

    It is tried step by step, and then, where a Spark session is active, in a query that is
    restarted.
    """
    try:
        with scratch() as folder:
            _step_by_step(answer, folder / "log")
        with scratch() as folder:
            _long_line(answer(str(folder / "log")), folder / "log")
        _in_a_query(answer)
    except UnicodeDecodeError:
        raise Wrong("It cut a letter in two: an offset counts bytes. Open it with 'rb'.") from None
    except ValueError as error:
        if "not found" not in str(error):
            raise
        raise Wrong(
            f"It raised {told(error)}. There may be no newline yet: rfind returns -1 then."
        ) from None
    return "Every whole line once, and a new reader goes on where the old one stopped."


def _step_by_step(answer: Reader, file: Path) -> None:
    file.write_bytes("ünö\ntw".encode())
    first = answer(str(file))
    begin = as_json(first.initialOffset())
    rows, middle = _drained(first, begin)
    if rows != ["ünö"]:
        raise Wrong(_first_fault(rows, begin, middle))
    _append(file, "\n".join(NEXT_LINES).removeprefix("tw").encode() + b"\n")
    rows, end = _drained(first, middle)
    if rows != NEXT_LINES:
        raise Wrong(
            f"From {middle} to {end} it read {rows}, {NEXT_LINES} are wanted: "
            f"{_second_fault(rows, middle, end)}"
        )
    _restart(answer(str(file)), file, middle, end)
    new = vars(answer(str(file)))
    for name, value in vars(first).items():
        if value != new.get(name):
            raise Wrong(f"self.{name} has changed while it read. {_IN_SELF}")


def _drained(reader: DataSourceStreamReader, start: dict[str, Any]) -> tuple[list[str], Any]:
    """The rows of batch after batch until the offset stays as it is, and that offset."""
    rows: list[str] = []
    end = start
    for _ in range(MOST_BATCHES):
        end = latest(reader, start)
        if not isinstance(end, dict):
            raise Wrong(f"`latestOffset` returned {end}: return a dict such as {{'next': 6}}.")
        if end == start:
            break
        reader.commit(start)
        if _went_back(start, end):
            raise Wrong(
                f"`latestOffset` went back, from {start} to {end}. An offset is a place in the "
                "whole file: count from start['next'] on and add that, and keep none in `self`."
            )
        rows += rows_between(reader, start, end)
        start = end
    return rows, end


def _went_back(start: dict[str, Any], end: dict[str, Any]) -> bool:
    places = [(start[key], end.get(key)) for key in start if isinstance(start[key], int)]
    return any(isinstance(now, int) and now < before for before, now in places)


def _first_fault(rows: list[str], begin: dict[str, Any], end: dict[str, Any]) -> str:
    """Why the first batch of 'ünö\\ntw' is wrong."""
    if "tw" in rows and END_OF_FIRST in end.values():
        return f"`read` went on beyond {end}: read as many bytes as the partition has, with 'rb'."
    if rows == ["ü"]:
        return "A row came as its first letter: a row is a tuple: (line,)."
    if "tw" in rows:
        return "Half a line, 'tw', went out: end the offset after the last newline."
    if rows == ["ünö", ""]:
        return "An empty row came after 'ünö': split leaves it behind the last newline."
    if not rows and any(begin.values()):
        return (
            f"`initialOffset` returned {begin}, so the lines that are there already never come: "
            "begin at 0."
        )
    return (
        f"Of 'ünö\\ntw' it read {rows}, up to {end}: ['ünö'] is wanted, and 'tw' held back. "
        f"Counted in bytes, the offset is {END_OF_FIRST} then."
    )


def _second_fault(rows: list[str], middle: dict[str, Any], end: dict[str, Any]) -> str:
    """Why the second batch is wrong, after the end of two, an empty line and three."""
    if "ünö" in rows:
        return "'ünö' came twice. Let `partitions` begin at start['next']."
    if rows[:1] == ["o"]:
        return f"{middle} is within the line 'two', after 'tw': end an offset after a newline."
    if " thr" in rows:
        return "splitlines() cuts at more than newlines: split(b'\\n') does not."
    if rows == NEXT_LINES[:-1]:
        return "a line that was there before is a line, too."
    if rows[:1] == ["two"]:
        return "an empty line is a line, and spaces belong to it."
    if rows[:1] == [""]:
        return "an empty line came. An offset comes *after* the newline: rfind(b'\\n') + 1."
    if end == middle:
        return "`latestOffset` did not see that the file has grown. Read from start['next'] on."
    return (
        "an offset is a position in the whole file, in bytes. Look for the newline from "
        "start['next'] on, and read from there as well."
    )


def _restart(
    reader: DataSourceStreamReader, file: Path, middle: dict[str, Any], end: dict[str, Any]
) -> None:
    """Spark first asks a new reader for the batch it has noted."""
    _append(file, b"four\n")
    found = rows_between(reader, middle, end)
    if found != NEXT_LINES:
        raise Wrong(
            f"After a restart it gave {found} for the offsets of {NEXT_LINES}. Spark repeats a "
            "batch like that: `partitions` and `read` must use nothing but these two offsets."
        )
    rows, after = _drained(reader, end)
    if rows != ["four"]:
        raise Wrong(f"After a restart it went on from {end} to {after}. {_IN_SELF}")


def _long_line(reader: DataSourceStreamReader, file: Path) -> None:
    file.write_bytes(b"x" * LONG + b"\nlast\nto be\rcontinued")
    rows, end = _drained(reader, as_json(reader.initialOffset()))
    _append(file, b"\n")
    more, _ = _drained(reader, end)
    lengths = [len(row) for row in rows + more]
    if lengths != [LONG, len("last"), len("to be\rcontinued")]:
        raise Wrong(
            f"Lines of {LONG:,}, 4 and 15 bytes came as rows of {lengths[:5]} bytes: read on until "
            "there is a newline, b'\\n' only, and no further, however far that is."
        )


def _append(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


def _in_a_query(answer: Reader) -> None:
    """A real query stops within a line and is started again, and once more for what is left.

    With `availableNow` Spark asks a Python reader once: one with a line in each batch needs that.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    spark.dataSource.register(source_of(answer, "checked_source", "value STRING"))
    found: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(row[0] for row in batch.collect())

    with scratch() as folder:
        for piece in (b"one\ntw", b"o\nthree\n", b""):
            _append(folder / "log", piece)
            lines = spark.readStream.format("checked_source").load(str(folder / "log"))
            run_to_end(lines.writeStream.foreachBatch(take), folder)
    if found != ["one", "two", "three"]:
        raise Wrong(f"A real query, restarted, should read one, two, three; it read {found}.")
