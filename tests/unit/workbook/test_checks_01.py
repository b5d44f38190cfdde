"""The checks of notebook 01, and what a verdict looks like."""

from __future__ import annotations

import json
import re
import time  # noqa: F401 -- an answer needs it
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tests.unit.workbook.answers import changed, tried
from workbook.checks import Verdict, check_01_1, check_01_2, the_solution


def test_a_verdict_is_one_line() -> None:
    assert repr(Verdict(True, "right.")) == "✓ right."
    assert repr(Verdict(False, "not yet.")) == "✗ not yet."


def test_a_tick_is_for_the_learner_s_own_answer() -> None:
    assert repr(the_solution(check_01_1)(escape)).startswith("✓ the solution: One item")
    assert not the_solution(check_01_1)(str.upper).passed


def escape(item: str) -> str:
    return item.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def escape_with(old: str, new: str) -> Any:
    return changed(escape, (old, new))


def only_before_n_and_r(item: str) -> str:
    return re.sub(r"\\(?=[nr])", r"\\\\", item).replace("\n", "\\n").replace("\r", "\\r")


test_01_1 = tried(
    check_01_1,
    (escape, "✓ One item, one line"),
    (lambda item: None, "must return a string for every string, not NoneType"),
    (lambda item: escape(item).encode(), "must return a string for every string, not bytes"),
    (lambda item: item[99], "raised IndexError"),
    (lambda item: item, "still spans two lines"),
    (lambda item: item.replace("\n", "\\n"), "still spans two lines"),
    (lambda item: item.replace("\n", "\\n").replace("\r", "\\r"), "come out alike"),
    (lambda i: i.replace("\n", "\\n").replace("\r", "\\r").replace("\\", "\\\\"), "come out alike"),
    (lambda item: escape(item).replace(",", "\\,"), "a comma needs no escape"),
    (repr, "repr() puts quotes around a text"),
    (lambda item: f" {escape(item)}", "must stay as it is"),
    (lambda item: repr(item).replace("'", ""), "splitlines change more"),
    (lambda item: repr(item)[1:-1], "splitlines change more"),
    (lambda item: json.dumps(item)[1:-1], "splitlines change more"),
    (lambda item: "\\n".join(item.splitlines()), "splitlines change more"),
    (lambda item: escape(item.strip()), "'  tab"),
    (lambda item: escape(item).replace("\u2028", "\\u2028"), "splitlines change more"),
    (lambda item: escape(item.replace("\r\n", "\n")), "Each newline counts"),
    (lambda item: escape(item.removesuffix("\n")), "Each newline counts"),
    (lambda item: escape(item) or "-", "An empty item stays empty"),
    (lambda item: item.encode("unicode_escape").decode(), "unicode_escape, repr, json.dumps"),
    (lambda i: i.replace("%", "%%").replace("\n", "%n").replace("\r", "%r"), "Use exactly"),
    (lambda item: item.translate({10: "\\n", 13: "\\r", 92: "\\\\"}), "✓ One item, one line"),
    (escape_with('"\\\\\\\\")', '"\\\\\\\\", 1)'), "Each backslash becomes two"),
    (escape_with('"\\\\r")', '"\\\\r", 1)'), "Each newline counts"),
    (lambda item: escape(item[:-1]) + item[-1:].replace("\n", "\\n"), "even at the end"),
    (
        lambda item: re.sub(r"\\+", r"\\\\", item).replace("\n", "\\n").replace("\r", "\\r"),
        "Each backslash becomes two, wherever it is",
    ),
    (only_before_n_and_r, "Each backslash becomes two, wherever it is"),
)


@dataclass
class Draft(WriterCommitMessage):
    name: str


class JsonWriter(DataSourceStreamWriter):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        with draft.open("w") as file:
            file.writelines(f"{json.dumps(row.asDict())}\n" for row in iterator)
        return Draft(draft.name)

    def commit(self, messages: list[Any], batchId: int) -> None:
        for number, message in enumerate(messages):
            draft = self.folder / message.name
            final = self.folder / f"batch-{batchId}-{number}.json"
            draft.replace(final)

    def abort(self, messages: list[Any], batchId: int) -> None:
        for message in filter(None, messages):
            (self.folder / message.name).unlink()


writer = partial(changed, JsonWriter)


class NamedByPartition(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{TaskContext.get().partitionId()}.tmp"
        draft.write_text("".join(f"{json.dumps(row.asDict())}\n" for row in iterator))
        return Draft(draft.name)


class DraftsBelow(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        below = self.folder / "drafts"
        below.mkdir(exist_ok=True)
        return Draft(f"drafts/{JsonWriter(str(below)).write(iterator).name}")


class NeverCloses(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        self.file = draft.open("w")
        self.file.writelines(f"{json.dumps(row.asDict())}\n" for row in iterator)
        return Draft(draft.name)


class RaisesItsOwn(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        try:
            return super().write(iterator)
        except OSError as error:
            raise RuntimeError("the task has failed") from error


class NothingForNoRows(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> Any:
        rows = list(iterator)
        return super().write(iter(rows)) if rows else None

    def commit(self, messages: list[Any], batchId: int) -> None:
        super().commit([*filter(None, messages)], batchId)


class OneFile(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        drafts = [self.folder / message.name for message in messages]
        drafts[0].write_text("".join(draft.read_text() for draft in drafts))
        super().commit(messages[:1], batchId)


class WithoutEmptyOnes(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        empty = [m for m in messages if not (self.folder / m.name).stat().st_size]
        self.abort(empty, batchId)
        super().commit([m for m in messages if m not in empty], batchId)


class WithoutSurplus(JsonWriter):
    """A batch that comes again in fewer parts leaves none of the first time's files."""

    def commit(self, messages: list[Any], batchId: int) -> None:
        JsonWriter.commit(self, messages, batchId)
        names = {f"batch-{batchId}-{number}.json" for number in range(len(messages))}
        for file in self.folder.glob(f"batch-{batchId}-*"):
            if file.name not in names:
                file.unlink()


class AllInOneLine(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        draft.write_text(json.dumps([row.asDict() for row in iterator]) + "\n")
        return Draft(draft.name)


class AbortsAll(JsonWriter):
    def abort(self, messages: list[Any], batchId: int) -> None:
        super().abort(messages, batchId)
        for file in self.folder.glob(f"batch-{batchId}-*.json"):
            file.unlink()


class Swallows(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        with suppress(OSError):
            return super().write(iterator)
        return Draft("nothing")


def as_text(row: dict[str, Any]) -> str:
    return str(row).replace("'", '"')


MOVED, RETURN = "draft.replace(final)", "return Draft(draft.name)"
NAMED = "for message in filter(None, messages):\n            (self.folder / message.name).unlink"
WRITTEN = "final.write_text(draft.read_text()); draft.unlink()"
UNLESS_THERE = "draft.unlink() if final.exists() else draft.rename(final)"
UNTIL_THERE = f"if final.exists():\n                return\n            {MOVED}"
COPIED = (
    "copy = final.with_suffix('.copy'); copy.write_bytes(draft.read_bytes()); copy.replace(final)"
)
UNLESS_EMPTY = f"draft.stat().st_size or draft.unlink(); {RETURN}"
ALL = "for draft in self.folder.glob('*.tmp'):\n            draft.unlink"
UNTIL_NONE = "iter(iter(messages).__next__, None)"
NUMBERED = "for number, message in enumerate(messages)"
WHATEVER = "for number, message in enumerate(Draft(f.name) for f in self.folder.glob('*.tmp'))"
CLEARED = f"[f.unlink() for f in self.folder.glob(f'batch-{{batchId}}*')]\n        {NUMBERED}"
TIDIED = f"{MOVED}\n        [f.unlink() for f in self.folder.glob('*.tmp')]"
LINES = 'f"{json.dumps(row.asDict())}\\n" for row in iterator'
JOINED = '"\\n".join(json.dumps(row.asDict()) for row in iterator)'
test_01_2 = tried(
    check_01_2,
    (JsonWriter, "✓ Each batch is there once"),
    (writer(("draft-{uuid4()}.tmp", "batch-{uuid4()}.json")), "Readers see rows before `commit`"),
    (
        writer((RETURN, "self.name = draft.name; return Draft('')"),
               ("message.name", "self.name")),
        "It runs on another instance than `write` did",
    ),
    (
        writer(("batch-{batchId}-{number}", "batch-{uuid4()}")),
        ".json: the names are batch-<batchId>-<number of the message>.json",
    ),
    (writer(("-{number}.json", ".json")), "see 1 of 3 rows, in batch-0.json: each task"),
    (writer(("batch-{batchId}", "batch-0")), "After batch 1 readers"),
    (writer(("commit(self", "close(self")), "there is no batch-*.json: `commit` gives"),
    (writer(("-{number}.json", "-{number}x.json")), "Batch 0 became batch-0-0x.json, batch-0-1x"),
    (writer(("{batchId}-{number}", "{number}-{batchId}")), "0 became batch-0-0.json, batch-1-0"),
    (writer(("{uuid4()}", "{TaskContext.get().taskAttemptId()}-{uuid4()}"),
            ("{number}.json", "{message.name.split('-')[1]}.json")),
     "there are 6 rows instead of 3: name the files after"),
    (NamedByPartition, "uuid4() makes a name that nobody else has"),
    (writer(("json.dumps(row.asDict())", "row")), "A line is not JSON: \"Row(number=0, "),
    (writer(("row.asDict()", "row")), "A row came as [0, 'item 0']: {'number': 0, "),
    (writer(("draft-{uuid4()}", "draft")), "2 tasks have written, and the folder holds 1 draft"),
    (writer(("Path(folder)", "Path(folder); self.name = uuid4()"), ("{uuid4()}", "{self.name}")),
     "the folder holds 1 draft(s): each needs one of its own there, f'{uuid4()}.draft', named in"),
    (DraftsBelow, "✓ Each batch is there once"),
    (writer((MOVED, WRITTEN)), "`commit` writes where readers look"),
    (writer((RETURN, UNLESS_EMPTY)), "`commit` raised FileNotFoundError"),
    (writer((MOVED, UNLESS_THERE)), "Readers see [0, 0, 1, 1, 2, 3]: replace each file that"),
    (writer((MOVED, UNTIL_THERE)), "`commit` leaves drafts behind: rename each, also when"),
    (writer((MOVED, COPIED)), "`commit` leaves drafts behind: rename each"),
    (writer((MOVED, f"{MOVED} if draft.stat().st_size else draft.unlink()")),
     "Readers see [0, 0, 1, 1, 2, 3]: replace each file that is there, also by an empty one"),
    (WithoutEmptyOnes, "Readers see [0, 1, 1, 2, 3]: replace each file that is there"),
    (writer((NAMED, ALL)), "`abort` removed a draft that no message names"),
    (writer((LINES, JOINED)), "batch-0-0.json does not end with a newline"),
    (writer(("row.asDict()", "{'item': row.item}")), "Rows may have any columns, here number"),
    (writer(("row.asDict()", "{'item': row['item']}")), "`write` raised PySparkValueError"),
    (writer((RETURN, "return None")), "must return a message"),
    (writer(("filter(None, messages)", "messages")), "It gets None for a task that failed"),
    (writer((", messages: list[Any], batchId: int) -> None:\n        for message",
             ", messages: list[Any]) -> None:\n        for message")),
     "JsonWriter.abort() takes 2 positional arguments but 3 were given"),
    (writer((".unlink()", "")), "`abort` leaves drafts behind"),
    (writer(("{uuid4()}", "{TaskContext.get().taskAttemptId()}")), "another query's task"),
    (writer(("    def __init__", "    count = iter(range(99))\n\n    def __init__"),
            ("{uuid4()}", "{next(self.count)}")), "wrote into the same draft"),
    (writer(("    def __init__", "    count = iter(range(99))\n\n    def __init__"),
            ("{uuid4()}", "{TaskContext.get().attemptNumber()}-{next(self.count)}")),
     "in several processes, also two attempts at one partition, and here they wrote into"),
    (writer(("{uuid4()}", "{time.time()}")), "uuid4() makes a name that nobody else"),
    (writer(("{uuid4()}", "{time.time_ns()}")), "uuid4() makes a name that nobody else"),
    (writer(("json.dumps(row.asDict())", "as_text(row.asDict())")), "A line is not JSON"),
    (NeverCloses, "its draft is still empty: close the file, as"),
    (Swallows, "`write` swallows an error"),
    (RaisesItsOwn, "✓ Each batch is there once"),
    (NothingForNoRows, "must return a message"),
    (OneFile, "`commit` gives each draft a file of its own"),
    (AllInOneLine, "A row came as [{'number': 0, 'name': 'item 0'}, {'number': 1,"),
    (writer((NUMBERED, WHATEVER)), "`commit` took a draft that no message names"),
    (writer((MOVED, TIDIED)), "`commit` took a draft that no message names"),
    (WithoutSurplus, "✓ Each batch is there once"),
    (changed(WithoutSurplus, ("{batchId}-*", "{batchId}*")), "the file of batch 10 is gone"),
    (writer((NUMBERED, CLEARED)), "had deleted batch-0-0.json before the new file was there"),
    (writer((MOVED, f"final.unlink(missing_ok=True); {MOVED}")), "had deleted batch-0-0.json"),
    (writer((NUMBERED, f"{NUMBERED[:-1]}[:2])")), "4 of 5 rows"),
    (AbortsAll, "`abort` removed rows that readers see already"),
    (writer(("(None, messages)", "(None, messages[:1])")), "`abort` leaves drafts behind"),
    (writer(("filter(None, messages)", UNTIL_NONE)), "`abort` leaves drafts behind"),
    (writer(("row.asDict()", "{'number': row.number}")), "json.dumps(row.asDict())"),
    (
        writer(("Path(folder)", 'Path(folder); self.file = open(f"{folder}/draft.tmp", "w")')),
        "It raised PicklingError: Cannot pickle files",
    ),
)  # fmt: skip
