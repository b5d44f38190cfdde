"""Each check of an exercise: a right answer passes, typical wrong ones get the hint they need."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tutorial_pkg.workbook.checks import Verdict, check_01_1, check_01_2, the_solution


def right_escape(item: str) -> str:
    return item.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def test_a_verdict_is_one_line() -> None:
    assert repr(Verdict(True, "right.")) == "✓ right."
    assert repr(Verdict(False, "not yet.")) == "✗ not yet."


def test_a_tick_is_for_the_learner_s_own_answer() -> None:
    assert repr(check_01_1(None)) == "– No answer yet: write yours in the cell above."
    assert repr(the_solution(check_01_1(right_escape))).startswith("✓ the solution: One item")
    assert not the_solution(check_01_1(str.upper)).passed


def test_01_1_right() -> None:
    assert check_01_1(right_escape).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (lambda item: None, "must return a string"),
        (lambda item: item[99], "must return a string"),
        (lambda item: item, "still spans two lines"),
        (lambda item: item.replace("\n", "\\n"), "still spans two lines"),
        (lambda item: item.replace("\n", "\\n").replace("\r", "\\r"), "come out alike"),
        (
            # The backslash last doubles those that the newline has just brought in.
            lambda i: i.replace("\n", "\\n").replace("\r", "\\r").replace("\\", "\\\\"),
            "come out alike",
        ),
        (lambda item: right_escape(item).replace(",", "\\,"), "A comma needs no escape"),
        (repr, "repr() puts quotes around a text"),
        (lambda item: f" {right_escape(item)}", "must stay as it is"),
        (lambda item: right_escape(item).encode(), "must return a string"),
        (lambda item: repr(item).replace("'", ""), "repr and json.dumps change more"),
        (lambda item: repr(item)[1:-1], "repr and json.dumps change more"),
        (lambda item: json.dumps(item)[1:-1], "repr and json.dumps change more"),
        (lambda item: item.encode("unicode_escape").decode(), "unicode_escape, repr and"),
        (lambda i: i.replace("%", "%%").replace("\n", "%n").replace("\r", "%r"), "Use exactly"),
    ],
)
def test_01_1_wrong(answer: object, hint: str) -> None:
    verdict = check_01_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


@dataclass
class Draft(WriterCommitMessage):
    name: str


class JsonWriter(DataSourceStreamWriter):
    """The right answer; the wrong ones below differ in one method."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        with draft.open("w") as file:
            file.writelines(f"{json.dumps(row.asDict())}\n" for row in iterator)
        return Draft(draft.name)

    def commit(self, messages: list[Any], batchId: int) -> None:
        for number, message in enumerate(messages):
            (self.folder / message.name).replace(self.folder / f"batch-{batchId}-{number}.json")

    def abort(self, messages: list[Any], batchId: int) -> None:
        for message in filter(None, messages):
            (self.folder / message.name).unlink()


class WritesInPlace(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"batch-{uuid4()}.json"
        draft.write_text("".join(f"{json.dumps(row.asDict())}\n" for row in iterator))
        return Draft(draft.name)


class KeepsTheNameInSelf(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        self.name = super().write(iterator).name
        return WriterCommitMessage()

    def commit(self, messages: list[Any], batchId: int) -> None:
        (self.folder / self.name).replace(self.folder / f"batch-{batchId}.json")


class NamesByChance(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        for message in messages:
            (self.folder / message.name).replace(self.folder / f"batch-{uuid4()}.json")


class OneFile(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        for message in messages:
            (self.folder / message.name).replace(self.folder / f"batch-{batchId}.json")


class ForgetsTheBatch(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        super().commit(messages, 0)


class CommitsNothing(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        pass


class Copies(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        for number, message in enumerate(messages):
            final = self.folder / f"batch-{batchId}-{number}.json"
            shutil.copy(self.folder / message.name, final)


class WritesAnew(JsonWriter):
    def commit(self, messages: list[Any], batchId: int) -> None:
        drafts = [self.folder / message.name for message in messages]
        whole = "".join(draft.read_text() for draft in drafts)
        (self.folder / f"batch-{batchId}.json").write_text(whole)
        for draft in drafts:
            draft.unlink()


class NamedByPartition(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{TaskContext.get().partitionId()}.tmp"
        draft.write_text("".join(f"{json.dumps(row.asDict())}\n" for row in iterator))
        return Draft(draft.name)


class PrintsRows(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        draft.write_text("".join(f"{row}\n" for row in iterator))
        return Draft(draft.name)


class ListsOfValues(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        draft.write_text("".join(f"{json.dumps(row)}\n" for row in iterator))
        return Draft(draft.name)


class OneDraft(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / "draft.tmp"
        draft.write_text("".join(f"{json.dumps(row.asDict())}\n" for row in iterator))
        return Draft(draft.name)


class ReturnsNothing(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> Any:
        super().write(iterator)


class AbortsNone(JsonWriter):
    def abort(self, messages: list[Any], batchId: int) -> None:
        for message in messages:
            (self.folder / message.name).unlink()


class LeavesDrafts(JsonWriter):
    def abort(self, messages: list[Any], batchId: int) -> None:
        pass


class Swallows(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        with suppress(OSError):
            return super().write(iterator)
        return Draft("nothing")


class OneColumn(JsonWriter):
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        draft = self.folder / f"draft-{uuid4()}.tmp"
        draft.write_text("".join(f'{{"number": {row.number}}}\n' for row in iterator))
        return Draft(draft.name)


class OpensEarly(JsonWriter):
    def __init__(self, folder: str) -> None:
        self.file = open(f"{folder}/draft.tmp", "w")


def test_01_2_right() -> None:
    verdict = check_01_2(JsonWriter)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("folder", "A class is wanted"),
        (WritesInPlace, "before the batch is committed"),
        (KeepsTheNameInSelf, "It runs on another instance than `write` did"),
        (NamesByChance, "that repeats batch 0 there are 6 rows instead of 3: name the files after"),
        (OneFile, "see 1 of 3 rows, in batch-0.json: each task needs a file of its own"),
        (ForgetsTheBatch, "After batch 1 readers"),
        (CommitsNothing, "there is no batch-*.json: `commit` gives each draft that name"),
        (Copies, "rename each draft, a copy leaves it behind"),
        (WritesAnew, "batch-<batchId>-<number of the message>.json is asked"),
        (NamedByPartition, "uuid4() makes a name that nobody else has"),
        (PrintsRows, "A line is not JSON: \"Row(number=0, name='item 0')\""),
        (
            ListsOfValues,
            "A row came as [0, 'item 0']: {'number': 0, 'name': 'item 0'} is json.dumps",
        ),
        (OneDraft, "raised FileNotFoundError"),
        (ReturnsNothing, "must return a message"),
        (AbortsNone, "the message of a task that failed is None"),
        (LeavesDrafts, "`abort` leaves drafts behind"),
        (Swallows, "`write` swallows an error"),
        (OneColumn, "json.dumps(row.asDict())"),
        (OpensEarly, "It raised PicklingError: Cannot pickle files"),
    ],
)
def test_01_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_01_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
