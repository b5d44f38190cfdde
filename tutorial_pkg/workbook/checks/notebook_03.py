"""Checks of notebook 03."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.workbook.checks.trial import as_json, latest, rows_between, scratch, told
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Reader = Callable[[str], DataSourceStreamReader]
MOST_BATCHES = 10


@exercise
def check_03_1(answer: Callable[[bytes], int]) -> Verdict:
    """Does `answer` say up to which byte whole lines can be emitted?"""
    if not callable(answer):
        return not_yet("A function is wanted: def next_unread(data): ...")
    cases = (b"one\ntw", b"one\n", b"on", b"", b"a\n\nb", b"a\rb\nc", "ü\nx".encode())
    found = {data: _call(answer, data) for data in cases}
    strange = next((data for data, value in found.items() if type(value) is not int), None)
    if strange is not None:
        return not_yet(f"It must return a whole number, whatever the bytes: try it on {strange!r}.")
    wrong = _place(found)
    return wrong or right("Never half a line, and none twice: the offset lies behind a newline.")


def _place(found: dict[bytes, Any]) -> Verdict | None:
    """What is wrong with the offsets that were found for these bytes."""
    if found[b"one\ntw"] == 6:
        return not_yet("Half a line goes out: b'one\\ntw' holds one whole line, of 4 bytes.")
    if found[b"one\ntw"] == 3:
        return not_yet("3 is the newline's own place: the offset is the byte *behind* it, 4.")
    if found[b"on"] != 0 or found[b""] != 0:
        return not_yet("Without a newline nothing may be emitted: for b'on' the answer is 0.")
    if (found[b"one\ntw"], found[b"one\n"], found[b"a\n\nb"]) != (4, 4, 3):
        return not_yet("It must be behind the *last* newline: 4 for b'one\\n', 3 for b'a\\n\\nb'.")
    if found[b"a\rb\nc"] != 4:
        return not_yet("Only b'\\n' ends a line, and splitlines() cuts at b'\\r', too: use rfind.")
    if found["ü\nx".encode()] != 3:
        return not_yet("For 'ü\\nx'.encode() it is 3: ü has two bytes. Count bytes, do not decode.")
    return None


def _call(function: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return function(data)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


@exercise
def check_03_2(answer: Reader) -> Verdict:
    """Does this reader emit each whole line of a growing file once, also after a restart?

    It is tried step by step, and then, where a Spark session is active, in a query that is
    restarted.
    """
    if not isinstance(answer, type) or not issubclass(answer, DataSourceStreamReader):
        return not_yet("A class is wanted: class WholeLines(...): with DataSourceStreamReader.")
    try:
        with scratch() as folder:
            return _step_by_step(answer, folder / "log") or _in_a_query(answer) or _TAILED
    except UnicodeDecodeError:
        return not_yet(
            "It cut a letter in two: an offset counts bytes, and ü has two. Open it with 'rb'."
        )
    except Exception as error:  # whatever the learner's class raises is a wrong answer
        return not_yet(f"It raised {told(error)}")


_TAILED = right("Every whole line once, and a new reader goes on where the old one stopped.")


def _step_by_step(answer: Reader, file: Path) -> Verdict | None:
    file.write_bytes("ünö\ntw".encode())
    first = answer(str(file))
    begin = as_json(first.initialOffset())
    offset = latest(answer(str(file)), begin)
    if not isinstance(offset, dict):
        return not_yet(f"`latestOffset` returned {offset}: return an offset such as {begin}.")
    rows, middle = _drained(first, begin)
    if rows != ["ünö"]:
        return _half_a_line(rows)
    _append(file, b"o\nthree\n")
    rows, end = _drained(first, middle)
    if rows != ["two", "three"]:
        return not_yet(
            f"After 'tw' came 'o\\nthree\\n', and it read {rows}: an offset is a place in the "
            "whole file; count from start['next'] on, not from 0."
        )
    return _restarted(answer(str(file)), file, middle, end)


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


def _half_a_line(found: list[str]) -> Verdict:
    if "tw" in found:
        return not_yet("Half a line, 'tw', went out: end the offset behind the last newline.")
    return not_yet(f"Of 'ünö\\ntw' it read {found}: ['ünö'] is wanted, 'tw' held back.")


def _restarted(
    reader: DataSourceStreamReader, file: Path, middle: dict[str, Any], end: dict[str, Any]
) -> Verdict | None:
    """What is wrong with a new reader, which Spark first asks for the batch it has noted."""
    _append(file, b"four\n")
    found = rows_between(reader, middle, end)
    if found != ["two", "three"]:
        return not_yet(
            f"After a restart it gave {found} for the offsets of two and three, while the file had "
            "grown. Spark repeats a batch like that: `partitions` and `read` must use nothing but "
            "these two offsets."
        )
    rows, after = _drained(reader, end)
    if rows != ["four"]:
        return not_yet(
            f"After a restart it went on from {end} to {after}: the place must come from `start`, "
            "which Spark hands over; a new reader knows nothing in `self`."
        )
    return None


def _append(file: Path, data: bytes) -> None:
    with file.open("ab") as out:
        out.write(data)


def _in_a_query(answer: Reader) -> Verdict | None:
    """What is wrong in a real query that stops within a line and is started again."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return None
    spark.dataSource.register(_source_with(answer))
    found: list[str] = []
    with scratch() as folder:
        for piece in (b"one\ntw", b"o\nthree\n"):
            _append(folder / "log", piece)
            query = _started(spark, folder, found)
            if query.exception():
                return not_yet(f"In a real query it raised {last_error(query)}")
    if found == ["one", "two", "three"]:
        return None
    return not_yet(f"A real query, restarted, should read one, two, three; it read {found}.")


def _started(spark: SparkSession, folder: Path, found: list[str]) -> StreamingQuery:
    def take(batch: DataFrame, _: int) -> None:
        found.extend(row[0] for row in batch.collect())

    lines = spark.readStream.format("checked_source").load(str(folder / "log"))
    writer = lines.writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    with suppress(StreamingQueryException):  # the caller looks at query.exception()
        query.processAllAvailable()
    query.stop()
    return query


def _source_with(reader: Reader) -> type[DataSource]:
    class CheckedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "checked_source"

        def schema(self) -> str:
            return "value STRING"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            return reader(str(self.options["path"]))

    return CheckedSource
