"""Checks of notebook 01."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import chain, product
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from workbook.checks.trial import (
    as_task,
    breaks_off,
    broken_off,
    copied,
    left_open,
    renames,
    run_to_end,
    scratch,
    written,
)
from workbook.checks.verdict import Case, Wrong, compare, exercise, told
from workbook.number_files import sink_of

# ---- Exercise 1: one item, one line --------------------------------------------------------------

UNTOUCHED = "  tab\t, Grüße \"'\u2028 "  # what unicode_escape, json.dumps and repr would change
_SAME = (
    "An item without a newline must stay as it is: a comma needs no escape, and repr() puts quotes "
    "around a text. Use str.replace."
)
_EXACTLY = r"Use exactly \n, \r and \\ : the package's reader expects these."
_TWO_LINES = "An item still spans two lines: replace newline and carriage return."
_ALIKE = (
    "A newline and the two characters \\n come out alike, so no reader can tell them apart: "
    "escape the backslash too, and first of all."
)
_ESCAPES = [
    Case(("plain, 1",), "plain, 1", _SAME),
    Case(
        (UNTOUCHED,),
        UNTOUCHED,
        "Only newline, carriage return and backslash are escaped. (unicode_escape, repr, "
        "json.dumps and splitlines change more.)",
    ),
    Case(("a\nb",), r"a\nb", _EXACTLY, [("a\nb", _TWO_LINES), (r"a\\nb", _ALIKE)]),
    Case(("a\rb",), r"a\rb", _EXACTLY, [("a\rb", _TWO_LINES)]),
    Case(("\ra\n\nb\r\n",), r"\ra\n\nb\r\n", "Each newline counts: a second one, and the last."),
    Case(("",), "", "An empty item stays empty."),
    Case(("a\\nb",), r"a\\nb", _EXACTLY, [(r"a\nb", _ALIKE)]),
    Case(
        ("\\\\pc\\a\\",),
        r"\\\\pc\\a\\",
        "Each backslash becomes two, wherever it is, even at the end.",
    ),
]


@exercise("def escape(item)")
def check_01_1(answer: Callable[[str], str]) -> str:
    """Does `answer` keep an item on one line, and can the item be told from it again?"""
    compare(answer, _ESCAPES, key=_text)
    return "One item, one line, and nothing lost."


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise Wrong(f"It must return a string for every string, not {type(found).__name__}.")
    return found


# ---- Exercise 2: a sink that survives a restart --------------------------------------------------

Writer = Callable[[str], DataSourceStreamWriter]
ROWS = [Row(number=number, name=f"item {number}") for number in range(4)]
ROWS.append(Row(number=4, name='the "last" row\'s'))  # as JSON, not as Python writes it
BATCHES = ([ROWS[:2], ROWS[2:3]], [ROWS[3:4], [], ROWS[4:]])  # one task has no rows
READERS_SEE = "batch-*.json"


@exercise("class JsonWriter(DataSourceStreamWriter)", base=DataSourceStreamWriter)
def check_01_2(answer: Writer) -> str:
    """Does this writer's sink publish each batch once, also when a restart repeats it?

    It is tried step by step, and then, where a Spark session is active, in a query that is
    restarted.
    """
    with scratch() as folder:
        _first_batch(answer, folder)
    _closed(answer)
    _attempts(answer)
    _failed_batch(answer)
    with scratch() as folder:
        _again(answer, folder)
    with scratch() as folder:
        _half_committed(answer, folder)
    _in_a_query(answer)
    return "Each batch is there once, whole, and a repeated one replaces itself."


def _first_batch(answer: Writer, folder: Path) -> None:
    """Tasks write a batch, and another instance commits it."""
    try:
        messages = written(answer(str(folder)), BATCHES[0])
    except (AttributeError, KeyError, ValueError) as error:
        columns = ", ".join(ROWS[0].asDict())
        raise Wrong(
            f"`write` raised {told(error)}. Rows may have any columns, here {columns}: take all of "
            "them with row.asDict()."
        ) from None
    _are_messages(messages)
    if _files(folder):
        raise Wrong(f"Readers see rows before `commit`: a draft must not match {READERS_SEE}.")
    if len(_drafts(folder)) < len(messages):
        raise Wrong(
            f"{len(messages)} tasks have written, and the folder holds {len(_drafts(folder))} "
            "draft(s): each needs one of its own there, f'{uuid4()}.draft', named in `write`."
        )
    try:
        with renames(folder, READERS_SEE) as renamed:
            answer(str(folder)).commit(messages, 0)
    except AttributeError as error:
        raise Wrong(
            f"`commit` raised {told(error)}. It runs on another instance than `write` did, so "
            "nothing of that one's `self` is there: take what it needs from the messages."
        ) from None
    _compare(folder, BATCHES[0], "After `commit` of batch 0")
    if {each.target.name for each in renamed} != {*_files(folder)}:
        raise Wrong("`commit` writes where readers look, and may die meanwhile: rename the drafts.")
    if len(renamed) < len(messages):
        raise Wrong("`commit` gives each draft a file of its own: batch-<batchId>-<number>.json.")


def _are_messages(messages: list[Any]) -> None:
    if not all(isinstance(message, WriterCommitMessage) for message in messages):
        raise Wrong("`write` must return a message, even without rows: return Draft(name).")


def _again(answer: Writer, folder: Path) -> None:
    """A restart repeats batch 0, and batch 1 follows; another query has a draft there."""
    written(answer(str(folder)), BATCHES[0][:1])
    others = {*_drafts(folder)}
    times = (
        (0, "After `commit` of batch 0"),
        (0, "After a restart that repeats batch 0"),
        (1, "After batch 1"),
    )
    for attempt, (batch, when) in enumerate(times):  # Spark gives each task another number
        writer, before = answer(str(folder)), {*_files(folder)}
        messages = written(writer, BATCHES[batch], attempt)
        _are_messages(messages)
        drafts = {*_drafts(folder)} - others
        try:
            with renames(folder, READERS_SEE) as renamed:
                copied(writer).commit(messages, batch)
        except FileNotFoundError as error:
            raise Wrong(
                f"`commit` raised {told(error)}. A message names a draft, even of a task without "
                "rows."
            ) from None
        if others - {*_drafts(folder)}:
            raise Wrong("`commit` took a draft that no message names: it was another query's.")
        _compare(folder, [*chain(*BATCHES[: batch + 1])], when)
        if drafts & {*_drafts(folder)}:
            raise Wrong(
                "`commit` leaves drafts behind: rename each, also when a batch comes again."
            )
        names = sorted(each.target.name for each in renamed if each.target.match(READERS_SEE))
        if not all(re.fullmatch(rf"batch-{batch}-\d+\.json", name) for name in names):
            raise Wrong(
                f"Batch {batch} became {', '.join(names)}: the names are "
                "batch-<batchId>-<number of the message>.json."
            )
        gone = sorted({name for each in renamed for name in before - {*each.visible}})
        if gone:
            raise Wrong(
                f"`commit` had deleted {gone[0]} before the new file was there, and may die "
                "meanwhile: a rename replaces it."
            )


def _half_committed(answer: Writer, folder: Path) -> None:
    """The driver dies after two of three files; the repeated batch has all rows in the third.

    It is batch 1, and batch 10 is there.
    """
    other, dying, writer = (answer(str(folder)) for _ in range(3))
    other.commit(written(other, [ROWS[3:4]]), 10)
    dying.commit(written(dying, [ROWS[:1], ROWS[1:2], ROWS[2:3]])[:2], 1)
    repeated = [[], [], ROWS[:3]]
    writer.commit(written(writer, repeated), 1)
    found = sorted(row["number"] for row in _seen(folder))
    if 3 not in found:
        raise Wrong("Batch 1 came, and the file of batch 10 is gone: batch-1* matches that, too.")
    if found != [0, 1, 2, 3]:
        raise Wrong(
            "A commit died after two of three files, and in the repeated batch the third has all "
            f"rows 0 to 2; row 3 is another batch's. Readers see {found}: replace each file that "
            "is there, also by an empty one."
        )


def _closed(answer: Writer) -> None:
    with scratch() as folder:
        if left_open(answer(str(folder)), ROWS, folder):
            raise Wrong(
                "`write` returned, and its draft is still empty: close the file, as `with` does."
            )


def _attempts(answer: Writer) -> None:
    """Two attempts at two partitions run at the same time, each in a process of its own."""
    clocks = mock.patch.multiple(time, time=lambda: 1.6e9, time_ns=lambda: 16 * 10**17)
    with scratch() as folder, clocks:
        sent = cloudpickle.dumps(answer(str(folder)))  # with what its class holds
        for partition, attempt in product(range(2), repeat=2):
            with as_task(partition, attempt):
                cloudpickle.loads(sent).write(iter(BATCHES[0][partition]))
        if len(_drafts(folder)) != 4:
            raise Wrong(
                "Spark may run tasks at once in several processes, also two attempts at one "
                "partition, and here they wrote into the same draft: uuid4() makes a name that "
                "nobody else has."
            )


def _failed_batch(answer: Writer) -> None:
    """A task fails half-way, and the batch is aborted, while another query has a draft there."""
    with scratch() as folder:
        writer = answer(str(folder))
        if not breaks_off(written, writer, [broken_off(ROWS[:1])]):
            raise Wrong("`write` swallows an error: let it out, so that Spark tries again.")
    with scratch() as folder:
        writer, other = answer(str(folder)), answer(str(folder))
        other.commit(written(other, BATCHES[0]), 0)
        published = _files(folder)
        written(other, BATCHES[0])
        others = {*_drafts(folder)}
        first, second = written(writer, BATCHES[0])
        if {*_drafts(folder)} == others:
            raise Wrong(
                "`write` used the draft of another query's task, whose numbers may be the same: "
                "uuid4() makes a name that nobody else has."
            )
        try:
            writer.abort([first, None, second], 0)
        except (AttributeError, TypeError) as error:
            raise Wrong(
                f"`abort` raised {told(error)}. It gets None for a task that failed: leave it out."
            ) from None
        if {*_drafts(folder)} - others:
            raise Wrong("`abort` leaves drafts behind: unlink all those that messages name.")
        if others - {*_drafts(folder)}:
            raise Wrong("`abort` removed a draft that no message names: it was another query's.")
        if _files(folder) != published:
            raise Wrong("`abort` removed rows that readers see already: unlink drafts only.")


def _compare(folder: Path, parts: list[list[Row]], when: str) -> None:
    """Readers must see the rows of `parts`, each of them a file."""
    if not _files(folder):
        raise Wrong(f"{when} there is no {READERS_SEE}: `commit` gives each draft that name.")
    try:
        wanted, found = [row.asDict() for part in parts for row in part], _seen(folder)
    except json.JSONDecodeError as error:
        line = error.doc[:60]
        raise Wrong(f"A line is not JSON: {line!r}. Write json.dumps(row.asDict()).") from None
    odd = [row for row in found if not isinstance(row, dict)]
    if odd:
        raise Wrong(f"A row came as {odd[0]}: {wanted[0]} is json.dumps(row.asDict()).")
    if len(found) > len(wanted):
        raise Wrong(
            f"{when} there are {len(found)} rows instead of {len(wanted)}: name the files after "
            "`batchId` and the number of the message, so that a repeated batch replaces its own."
        )
    if len(found) < len(wanted):
        raise Wrong(
            f"{when} readers see {len(found)} of {len(wanted)} rows, in "
            f"{', '.join(_files(folder))}: each task of each batch needs a file of its own, "
            "with all its rows."
        )
    if sorted(map(str, found)) != sorted(map(str, wanted)):
        raise Wrong(f"A row came as {found[0]}: {wanted[0]} is json.dumps(row.asDict()).")


def _files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob(READERS_SEE))


def _drafts(folder: Path) -> list[Path]:
    """All files that readers do not see, also in folders below."""
    seen = {*folder.glob(READERS_SEE)}
    return [file for file in folder.rglob("*") if file.is_file() and file not in seen]


def _seen(folder: Path) -> list[dict[str, Any]]:
    texts = {name: (folder / name).read_text() for name in _files(folder)}
    for name, text in texts.items():
        if text and not text.endswith("\n"):
            raise Wrong(f"{name} does not end with a newline: each row is a line, even the last.")
    return [json.loads(line) for text in texts.values() for line in text.splitlines()]


def _in_a_query(answer: Writer) -> None:
    """A query dies before Spark has noted its batch, and is started again."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    spark.dataSource.register(sink_of(answer, "checked_sink"))
    with scratch() as folder:
        for number in range(2):
            (folder / "in").mkdir(exist_ok=True)
            (folder / "in" / f"{number}.json").write_text(f'{{"number": {number}}}\n')
            rows = spark.readStream.schema("number INT").json(str(folder / "in"))
            (folder / "out").mkdir(exist_ok=True)
            writer = rows.writeStream.format("checked_sink").option("path", str(folder / "out"))
            run_to_end(writer, folder)
            for note in (folder / "checkpoint" / "commits").glob("*0*"):
                note.unlink()  # as if the driver had died just before it wrote this note
        found = sorted(row["number"] for row in _seen(folder / "out"))
    if found != [0, 1]:
        raise Wrong(f"A real query, restarted, should leave the rows 0 and 1; it left {found}.")
