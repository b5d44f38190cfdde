"""Checks of notebook 03."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.workbook.checks.trial import as_json, latest, rows_between, scratch
from tutorial_pkg.workbook.checks.verdict import Case, Wrong, compare, exercise
from tutorial_pkg.workbook.number_files import source_of

Reader = Callable[[str], DataSourceStreamReader]
MOST_BATCHES = 10

# ---- Exercise 1: where the whole lines end -------------------------------------------------------

_LAST = "It must be behind the *last* newline."
_NONE = "Without a newline nothing may be emitted."
_ENDS = [
    Case(
        (b"one\ntw",),
        4,
        _LAST,
        [
            (6, "Half a line goes out: it holds one whole line, of 4 bytes."),
            (3, "3 is the newline's own place: the offset is the byte *behind* it."),
        ],
    ),
    Case((b"on",), 0, _NONE),
    Case((b"",), 0, _NONE),
    Case((b"one\n",), 4, _LAST),
    Case((b"a\n\nb",), 3, _LAST),
    Case((b"a\rb\nc",), 4, "Only b'\\n' ends a line, and splitlines() cuts at b'\\r', too."),
    Case(("ü\nx".encode(),), 3, "ü has two bytes: count bytes, do not decode."),
]


@exercise("def next_unread(data)")
def check_03_1(answer: Callable[[bytes], int]) -> str:
    """Does `answer` say up to which byte whole lines can be emitted?"""
    compare(answer, _ENDS, key=_whole_number)
    return "Never half a line, and none twice: the offset lies behind a newline."


def _whole_number(found: Any) -> int:
    if type(found) is not int:
        raise Wrong(f"It must return a whole number, whatever the bytes, not {found!r}.")
    return found


# ---- Exercise 2: a source that survives a restart ------------------------------------------------


@exercise("class WholeLines(DataSourceStreamReader)", base=DataSourceStreamReader)
def check_03_2(answer: Reader) -> str:
    """Does this reader emit each whole line of a growing file once, also after a restart?

    It is tried step by step, and then, where a Spark session is active, in a query that is
    restarted.
    """
    try:
        with scratch() as folder:
            _step_by_step(answer, folder / "log")
        _in_a_query(answer)
    except UnicodeDecodeError:
        raise Wrong(
            "It cut a letter in two: an offset counts bytes, and ü has two. Open it with 'rb'."
        ) from None
    return "Every whole line once, and a new reader goes on where the old one stopped."


def _step_by_step(answer: Reader, file: Path) -> None:
    file.write_bytes("ünö\ntw".encode())
    first = answer(str(file))
    begin = as_json(first.initialOffset())
    offset = latest(answer(str(file)), begin)
    if not isinstance(offset, dict):
        raise Wrong(f"`latestOffset` returned {offset}: return an offset such as {begin}.")
    rows, middle = _drained(first, begin)
    if "tw" in rows:
        raise Wrong("Half a line, 'tw', went out: end the offset behind the last newline.")
    if rows != ["ünö"]:
        raise Wrong(f"Of 'ünö\\ntw' it read {rows}: ['ünö'] is wanted, 'tw' held back.")
    _append(file, b"o\nthree\n")
    rows, end = _drained(first, middle)
    if rows != ["two", "three"]:
        raise Wrong(
            f"After 'tw' came 'o\\nthree\\n', and it read {rows}: an offset is a place in the "
            "whole file; count from start['next'] on, not from 0."
        )
    _restart(answer(str(file)), file, middle, end)


def _drained(reader: DataSourceStreamReader, start: dict[str, Any]) -> tuple[list[str], Any]:
    """The rows of batch after batch until the offset stays as it is, and that offset."""
    rows: list[str] = []
    end = start
    for _ in range(MOST_BATCHES):
        end = latest(reader, start)
        if end == start or _went_back(start, end):
            break
        rows += rows_between(reader, start, end)
        start = end
    return rows, end


def _went_back(start: dict[str, Any], end: dict[str, Any]) -> bool:
    places = [(start[key], end.get(key)) for key in start if isinstance(start[key], int)]
    return any(isinstance(now, int) and now < before for before, now in places)


def _restart(
    reader: DataSourceStreamReader, file: Path, middle: dict[str, Any], end: dict[str, Any]
) -> None:
    """Spark first asks a new reader for the batch it has noted."""
    _append(file, b"four\n")
    found = rows_between(reader, middle, end)
    if found != ["two", "three"]:
        raise Wrong(
            f"After a restart it gave {found} for the offsets of two and three, while the file had "
            "grown. Spark repeats a batch like that: `partitions` and `read` must use nothing but "
            "these two offsets."
        )
    rows, after = _drained(reader, end)
    if rows != ["four"]:
        raise Wrong(
            f"After a restart it went on from {end} to {after}: the place must come from `start`, "
            "which Spark hands over; a new reader knows nothing in `self`."
        )


def _append(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


def _in_a_query(answer: Reader) -> None:
    """A real query stops within a line and is started again."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    spark.dataSource.register(source_of(answer, "checked_source", "value STRING"))
    found: list[str] = []
    with scratch() as folder:
        for piece in (b"one\ntw", b"o\nthree\n"):
            _append(folder / "log", piece)
            _run(spark, folder, found)
    if found != ["one", "two", "three"]:
        raise Wrong(f"A real query, restarted, should read one, two, three; it read {found}.")


def _run(spark: SparkSession, folder: Path, found: list[str]) -> None:
    def take(batch: DataFrame, _: int) -> None:
        found.extend(row[0] for row in batch.collect())

    lines = spark.readStream.format("checked_source").load(str(folder / "log"))
    writer = lines.writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    with suppress(StreamingQueryException):  # told below, in a line
        query.processAllAvailable()
    query.stop()
    if query.exception():
        raise Wrong(f"In a real query it raised {last_error(query)}")
