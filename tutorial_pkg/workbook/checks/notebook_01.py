"""Checks of notebook 01."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.workbook.checks.trial import (
    breaks_off,
    broken_off,
    copied,
    scratch,
    told,
    written,
)
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Writer = Callable[[str], DataSourceStreamWriter]
Rows = list[dict[str, Any]]
ROWS = [Row(number=number, name=f"item {number}") for number in range(5)]
BATCHES = ([ROWS[:2], ROWS[2:3]], [ROWS[3:4], ROWS[4:]])
READERS_SEE = "batch-*.json"
UNTOUCHED = "tab\t, Grüße \"'"  # what unicode_escape, json.dumps and repr would change


@exercise
def check_01_1(answer: Callable[[str], str]) -> Verdict:
    """Does `answer` keep an item on one line, and can the item be told from it again?"""
    if not callable(answer):
        return not_yet("A function is wanted: def escape(item): ...")
    items = ("a\nb", "a\rb", "a\\b", "a\\nb", "plain, 1", UNTOUCHED)
    escaped = {item: _call(answer, item) for item in items}
    if any(isinstance(text, Exception) or not isinstance(text, str) for text in escaped.values()):
        return not_yet("It must return a string for every string: try it on 'a\\nb'.")
    wrong = _too_much(escaped) or _too_little(escaped)
    return wrong or right("One item, one line, and nothing lost.")


def _too_much(escaped: dict[str, str]) -> Verdict | None:
    """What is wrong where nothing was to be escaped."""
    plain = escaped["plain, 1"]
    if plain != "plain, 1" and "plain, 1" in plain:
        return not_yet(
            f"An item without a newline must stay as it is; {plain} has something "
            "around it. (repr() puts quotes around a text: use str.replace.)"
        )
    if plain != "plain, 1":
        return not_yet("A comma needs no escape: the reader splits at the first two only.")
    if escaped[UNTOUCHED] != UNTOUCHED:
        return not_yet(
            f"Only newline, carriage return and backslash are escaped; of {UNTOUCHED!r} it made "
            f"{escaped[UNTOUCHED]!r}. (unicode_escape, repr and json.dumps change more.)"
        )
    return None


def _too_little(escaped: dict[str, str]) -> Verdict | None:
    """What is wrong where something was to be escaped."""
    if "\n" in escaped["a\nb"] or "\r" in escaped["a\rb"]:
        return not_yet("An item still spans two lines: replace newline and carriage return.")
    if escaped["a\nb"] == escaped["a\\nb"]:
        return not_yet(
            "A newline and the two characters \\n come out alike, so no reader can tell them "
            "apart: escape the backslash too, and first of all."
        )
    if (escaped["a\nb"], escaped["a\rb"], escaped["a\\b"]) != (r"a\nb", r"a\rb", r"a\\b"):
        return not_yet(r"Use exactly \n, \r and \\ : the package's reader expects these.")
    return None


def _call(function: Callable[[str], Any], item: str) -> Any:
    try:
        return function(item)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


@exercise
def check_01_2(answer: Writer) -> Verdict:
    """Does this writer's sink publish each batch once, also when a restart repeats it?

    It is tried step by step, and then, where a Spark session is active, in a query that is
    restarted.
    """
    if not isinstance(answer, type) or not issubclass(answer, DataSourceStreamWriter):
        return not_yet("A class is wanted: class JsonWriter(DataSourceStreamWriter): ...")
    try:
        with scratch() as folder:
            wrong = _first_batch(answer, folder) or _again(answer, folder)
        return wrong or _attempts(answer) or _failed_batch(answer) or _in_a_query(answer) or _KEPT
    except Exception as error:  # whatever the learner's class raises is a wrong answer
        return not_yet(f"It raised {told(error)}")


_KEPT = right("Each batch is there once, whole, and a repeated one replaces itself.")


def _first_batch(answer: Writer, folder: Path) -> Verdict | None:
    """What is wrong after tasks have written a batch and another instance has committed it."""
    messages = written(answer(str(folder)), BATCHES[0])
    if not all(isinstance(message, WriterCommitMessage) for message in messages):
        return not_yet("`write` must return a message: return Draft(name).")
    if _files(folder):
        return not_yet(
            "Readers see rows before the batch is committed: let `write` write into a draft "
            f"whose name does not match {READERS_SEE}, and `commit` rename it."
        )
    try:
        answer(str(folder)).commit(messages, 0)
    except AttributeError as error:
        return not_yet(
            f"`commit` raised {told(error)}. It runs on another instance than `write` did, so "
            "nothing of that one's `self` is there: take what it needs from the messages."
        )
    return _compared(folder, BATCHES[0], "After `commit` of batch 0")


def _again(answer: Writer, folder: Path) -> Verdict | None:
    """What is wrong after a restart has repeated batch 0, and batch 1 has followed."""
    for batch, parts in ((0, BATCHES[0]), (1, BATCHES[1])):
        writer = answer(str(folder))
        copied(writer).commit(written(writer, parts), batch)
        wrong = _compared(folder, [*chain(*BATCHES[: batch + 1])], _AFTER[batch])
        if wrong:
            return wrong
    return _named(folder)


_AFTER = ("After a restart that repeats batch 0", "After batch 1")


def _attempts(answer: Writer) -> Verdict | None:
    """What is wrong when two attempts at one partition run at the same time."""
    with scratch() as folder:
        for attempt in range(2):
            written(answer(str(folder)), BATCHES[0][:1], attempt)
        if len(list(folder.iterdir())) == 2:
            return None
    return not_yet(
        "Spark may run two attempts at one partition at once, and here both wrote into the same "
        "draft: the partition's number is not enough, uuid4() makes a name that nobody else has."
    )


def _failed_batch(answer: Writer) -> Verdict | None:
    """What is wrong when a task fails half-way, and the batch is aborted."""
    with scratch() as folder:
        writer = answer(str(folder))
        if not breaks_off(lambda: written(writer, [broken_off(ROWS[:1])])):
            return not_yet("`write` swallows an error: let it out, so that Spark tries again.")
    with scratch() as folder:
        writer = answer(str(folder))
        (message,) = written(writer, BATCHES[0][:1])
        try:
            writer.abort([message, None], 0)
        except (AttributeError, TypeError):
            return not_yet("In `abort` the message of a task that failed is None: leave it out.")
        if any(folder.iterdir()):
            return not_yet("`abort` leaves drafts behind: unlink those that messages name.")
    return None


def _compared(folder: Path, parts: list[list[Row]], when: str) -> Verdict | None:
    """What is wrong with what readers see; `parts` are the rows of each file that is wanted."""
    if not _files(folder):
        return not_yet(f"{when} there is no {READERS_SEE}: `commit` gives each draft that name.")
    try:
        wanted, found = [row.asDict() for part in parts for row in part], _seen(folder)
    except json.JSONDecodeError as error:
        return not_yet(f"A line is not JSON: {error.doc[:60]!r}. Write json.dumps(row.asDict()).")
    if sorted(map(str, found)) == sorted(map(str, wanted)):
        return None
    if len(found) > len(wanted):
        return not_yet(
            f"{when} there are {len(found)} rows instead of {len(wanted)}: name the files after "
            "`batchId` and the number of the message, so that a repeated batch replaces its own."
        )
    if len(found) == len(wanted):
        return not_yet(f"A row came as {found[0]}: {wanted[0]} is json.dumps(row.asDict()).")
    return not_yet(
        f"{when} readers of {READERS_SEE} see {len(found)} of {len(wanted)} rows, in "
        f"{', '.join(_files(folder))}: each task needs a file of its own, and each "
        "row a line json.dumps(row.asDict())."
    )


def _named(folder: Path) -> Verdict | None:
    """What is wrong with the files' names when readers see all rows."""
    others = [file.name for file in folder.iterdir() if file.name not in _files(folder)]
    if others:
        return not_yet(f"`commit` leaves {others[0]}: rename each draft, a copy leaves it behind.")
    if any(not re.fullmatch(r"batch-\d+-\d+\.json", name) for name in _files(folder)):
        return not_yet(
            f"The files are {', '.join(_files(folder))}: batch-<batchId>-<number of the "
            "message>.json is asked, a renamed draft each. To write them anew here could break off."
        )
    return None


def _files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob(READERS_SEE))


def _seen(folder: Path) -> Rows:
    lines = [line for name in _files(folder) for line in (folder / name).read_text().splitlines()]
    return [json.loads(line) for line in lines]


def _in_a_query(answer: Writer) -> Verdict | None:
    """What is wrong after a query that died before Spark noted its batch, and its restart."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return None
    spark.dataSource.register(_source_with(answer))
    with scratch() as folder:
        for number in range(2):
            (folder / "in").mkdir(exist_ok=True)
            (folder / "in" / f"{number}.json").write_text(f'{{"number": {number}}}\n')
            query = _started(spark, folder)
            if query.exception():
                return not_yet(f"In a real query it raised {last_error(query)}")
            for note in (folder / "checkpoint" / "commits").glob("*0*"):
                note.unlink()  # as if the driver had died just before it wrote this note
        found = sorted(row["number"] for row in _seen(folder / "out"))
    wrong = f"A real query, restarted, should leave the rows 0 and 1; it left {found}."
    return None if found == [0, 1] else not_yet(wrong)


def _started(spark: SparkSession, folder: Path) -> Any:
    rows = spark.readStream.schema("number INT").json(str(folder / "in"))
    (folder / "out").mkdir(exist_ok=True)
    writer = rows.writeStream.format("checked_sink").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start(str(folder / "out"))
    with suppress(StreamingQueryException):  # the caller looks at query.exception()
        query.awaitTermination(60)
    return query


def _source_with(writer: Writer) -> type[DataSource]:
    class CheckedSink(DataSource):
        @classmethod
        def name(cls) -> str:
            return "checked_sink"

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            return writer(str(self.options["path"]))

    return CheckedSink
