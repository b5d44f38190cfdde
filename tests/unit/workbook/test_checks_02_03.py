"""The checks of notebooks 02 and 03: right answers pass, typical wrong ones get the hint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from tutorial_pkg.workbook.checks import check_02_1, check_03_1, check_03_2


@dataclass
class Wrote(WriterCommitMessage):
    lines: int


class Counted(DataSourceWriter):
    """The right answer; the wrong ones differ in one method."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[Row]) -> Any:
        with open(f"{self.folder}/data.{TaskContext.get().partitionId()}.csv", "a") as file:
            return Wrote(sum(file.write(f"{row.item}\n") > 0 for row in iterator))

    def total(self, messages: list[Any]) -> object:
        return sum(message.lines for message in messages)

    def commit(self, messages: list[Any]) -> None:
        Path(self.folder, "total.txt").write_text(str(self.total(messages)))


class InSelf(Counted):
    def __init__(self, folder: str) -> None:
        self.folder, self.count = folder, 0

    def write(self, iterator: Iterator[Row]) -> Any:
        self.count += super().write(iterator).lines
        return WriterCommitMessage()

    def total(self, messages: list[Any]) -> object:
        return self.count


class InSelfLater(InSelf):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[Row]) -> Any:
        self.count = Counted.write(self, iterator).lines
        return WriterCommitMessage()


class LikeAStream(Counted):
    def commit(self, messages: list[Any], batchId: int) -> None:
        super().commit(messages)


class Messages(Counted):
    def total(self, messages: list[Any]) -> object:
        return len(messages)


class OneTask(Counted):
    def total(self, messages: list[Any]) -> object:
        return messages[-1].lines


class AsText(Counted):
    def total(self, messages: list[Any]) -> object:
        return f"{super().total(messages)} lines"


class Twice(Counted):
    def total(self, messages: list[Any]) -> object:
        return sum(message.lines for message in messages + messages)


class NoTotal(Counted):
    def commit(self, messages: list[Any]) -> None:
        pass


class NoMessage(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        super().write(iterator)


class PlainNumber(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        return super().write(iterator).lines

    def total(self, messages: list[Any]) -> object:
        return sum(messages)


class CountsTheFiles(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        super().write(iterator)
        return WriterCommitMessage()

    def total(self, messages: list[Any]) -> object:
        files = Path(self.folder).glob("data.*")
        return sum(len(file.read_text().splitlines()) for file in files)


class InTheClass(Counted):
    """In one process it counts right: only a real job tells."""

    count = 0

    def write(self, iterator: Iterator[Row]) -> Any:
        message = super().write(iterator)
        InTheClass.count += message.lines
        return message

    def total(self, messages: list[Any]) -> object:
        return InTheClass.count


class OneName(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        with open(f"{self.folder}/data.0.csv", "a") as file:
            return Wrote(sum(file.write(f"{row.item}\n") > 0 for row in iterator))


class NothingWritten(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        return Wrote(sum(1 for _ in iterator))


def test_02_1_right() -> None:
    verdict = check_02_1(Counted)
    assert verdict.passed, verdict.message
    assert verdict.message.endswith("the files hold: 60.")


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (Counted("folder"), "The class itself is wanted"),
        (InSelf, "Was it counted in `self`, in the class"),
        (InSelfLater, "stays in the task's copy: return it in the message"),
        (LikeAStream, "in a batch job it is commit(self, messages)"),
        (NothingWritten, "no line in any data.*.csv"),
        (OneName, "one file only"),
        (NoTotal, "write it in `commit(self, messages)`"),
        (NoMessage, "`write` returned nothing: it must return Wrote(count)"),
        (PlainNumber, "`write` returned int: it must return Wrote(count)"),
        (CountsTheFiles, "The total is right, but the tasks reported [None, None, None]"),
        (AsText, "a plain number is wanted"),
        (Messages, "the number of messages"),
        (OneTask, "the lines of one task"),
        (Twice, "total.txt says 120, the files hold 60"),
    ],
)
def test_02_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_02_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def test_03_1_right() -> None:
    assert check_03_1(lambda data: data.rfind(b"\n") + 1).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("text", "A function is wanted"),
        (len, "Half a line goes out"),
        (lambda data: data.rfind(b"\n"), "the byte *behind* it"),
        (lambda data: data.rindex(b"\n") + 1, "It must return a whole number"),
        (lambda data: data[: data.rfind(b"\n") + 1], "It must return a whole number"),
        (lambda data: max(data.rfind(b"\n"), 1) + 1, "Without a newline nothing"),
        (lambda data: data.count(b"\n"), "behind the *last* newline"),
        (lambda data: data.rfind("\n") + 1, "It must return a whole number"),
        (lambda data: float(data.rfind(b"\n") + 1), "It must return a whole number"),
        (lambda data: data.find(b"\n") + 1, "behind the *last* newline"),
        (lambda data: data.decode().rfind("\n") + 1, "Count bytes, do not decode"),
        (
            lambda data: sum(len(s) for s in data.splitlines(True) if s.endswith(b"\n")),
            "splitlines() cuts at b'\\r', too",
        ),
    ],
)
def test_03_1_wrong(answer: object, hint: str) -> None:
    verdict = check_03_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


@dataclass
class Stretch(InputPartition):
    start: int
    stop: int


class WholeLines(DataSourceStreamReader):
    """The right answer; the wrong ones differ in one method."""

    def __init__(self, path: str) -> None:
        self.path = path

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(start["next"])
            return {"next": start["next"] + file.read().rfind(b"\n") + 1}

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [Stretch(start["next"], end["next"])]

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        with open(self.path, "rb") as file:
            file.seek(partition.start)
            text = file.read(partition.stop - partition.start).decode()
        return iter([(line,) for line in text.splitlines()])


class ToTheEnd(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).stat().st_size}


class CountsFromZero(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(start["next"])
            return {"next": file.read().rfind(b"\n") + 1}


class PlaceInSelf(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.next = path, 0

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(self.next)
            self.next += file.readline().rfind(b"\n") + 1
        return {"next": self.next}


class StopsAtTheNewline(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": max(0, super().latestOffset(start, limit)["next"] - 1)}


class CountsLetters(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path) as file:
            return {"next": file.read().rfind("\n") + 1}


class ReadsOn(WholeLines):
    """It leaves `partition.stop` aside and reads as far as there are whole lines."""

    def read(self, partition: Stretch) -> Iterator[tuple[str]]:
        with open(self.path, "rb") as file:
            file.seek(partition.start)
            whole, _, _ = file.read().rpartition(b"\n")
        return iter([(line,) for line in whole.decode().splitlines()])


class ReturnsNoOffset(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> Any:
        super().latestOffset(start, limit)


class ReturnsANumber(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> Any:
        return super().latestOffset(start, limit)["next"]


class WithoutStart(WholeLines):
    def latestOffset(self) -> dict[str, int]:
        return {"next": 0}


class NotJson(WholeLines):
    def initialOffset(self) -> Any:
        return {"next": {0}}


class ReadsAll(WholeLines):
    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [Stretch(0, end["next"])]


class ReadsOnce(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.first = path, None

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        self.first = start["next"] if self.first is None else self.first
        return super().latestOffset(start, limit)

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [] if self.first is None else super().partitions(start, end)


def test_03_2_right() -> None:
    verdict = check_03_2(WholeLines)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (WholeLines("log"), "A class is wanted"),
        (ToTheEnd, "Half a line, 'tw', went out"),
        (CountsFromZero, "count from start['next'] on, not from 0"),
        (PlaceInSelf, "the place must come from `start`"),
        (StopsAtTheNewline, "an offset is a place in the whole file"),
        (WithoutStart, "It raised TypeError"),
        (NotJson, "not JSON serializable"),
        (ReadsAll, "it read ['ünö', 'two', 'three']"),
        (ReadsOnce, "must use nothing but these two offsets"),
        (ReadsOn, "it gave ['two', 'three', 'four'] for the offsets of two and three"),
        (ReturnsNoOffset, "`latestOffset` returned None: return an offset such as {'next': 0}"),
        (ReturnsANumber, "`latestOffset` returned 6: return an offset such as"),
        (CountsLetters, "an offset counts bytes, and ü has two"),
    ],
)
def test_03_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_03_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
