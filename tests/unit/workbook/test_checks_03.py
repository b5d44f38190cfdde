"""The checks of notebook 03."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_03_1, check_03_2

test_03_1 = tried(
    check_03_1,
    (lambda data: data.rfind(b"\n") + 1, "✓ Never half a line"),
    ("text", "A function is wanted"),
    (len, "Half a line goes out"),
    (lambda data: data.rfind(b"\n"), "the byte *behind* it"),
    (lambda data: data.rindex(b"\n") + 1, "answer(b'on') raised ValueError"),
    (lambda data: data[: data.rfind(b"\n") + 1], "It must return a whole number"),
    (lambda data: max(data.rfind(b"\n"), 1) + 1, "Without a newline nothing"),
    (lambda data: data.count(b"\n"), "behind the *last* newline"),
    (lambda data: data.rfind("\n") + 1, "raised TypeError"),
    (lambda data: float(data.rfind(b"\n") + 1), "It must return a whole number"),
    (lambda data: data.find(b"\n") + 1, "behind the *last* newline"),
    (lambda data: data.decode().rfind("\n") + 1, "count bytes, do not decode"),
    (
        lambda data: sum(len(s) for s in data.splitlines(True) if s.endswith(b"\n")),
        "splitlines() cuts at b'\\r', too",
    ),
)


class Stretch(InputPartition):
    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop


class WholeLines(DataSourceStreamReader):
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


def reader(*edits: tuple[str, str]) -> Any:
    return changed(WholeLines, *edits)


class PlaceInSelf(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.next = path, 0

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        with open(self.path, "rb") as file:
            file.seek(self.next)
            self.next += file.readline().rfind(b"\n") + 1
        return {"next": self.next}


class ReadsOnce(WholeLines):
    def __init__(self, path: str) -> None:
        self.path, self.first = path, None

    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        self.first = start["next"] if self.first is None else self.first
        return super().latestOffset(start, limit)

    def partitions(self, start: dict, end: dict) -> list[Stretch]:
        return [] if self.first is None else super().partitions(start, end)


class CountsLetters(WholeLines):
    def latestOffset(self, start: dict, limit: Any) -> dict[str, int]:
        return {"next": Path(self.path).read_text().rfind("\n") + 1}


NEXT = 'return {"next": start["next"] + file.read().rfind(b"\\n") + 1}'
test_03_2 = tried(
    check_03_2,
    (WholeLines, "✓ Every whole line once"),
    (WholeLines("log"), "A class is wanted"),
    (reader(('rfind(b"\\n") + 1', "__len__()")), "Half a line, 'tw', went out"),
    (reader(('start["next"] + file', "file")), "count from start['next'] on, not from 0"),
    (PlaceInSelf, "the place must come from `start`"),
    (reader(('b"\\n") + 1}', 'b"\\n")}')), "an offset is a place in the whole file"),
    (reader(("self, start: dict, limit: Any", "self")), "It raised TypeError"),
    (reader(('{"next": 0}', '{"next": {0}}')), "not JSON serializable"),
    (reader(('Stretch(start["next"]', "Stretch(0")), "it read ['ünö', 'two', 'three']"),
    (ReadsOnce, "must use nothing but these two offsets"),
    (
        reader(("read(partition.stop - partition.start)", 'read().rpartition(b"\\n")[0]')),
        "it gave ['two', 'three', 'four'] for the offsets of two and three",
    ),
    (
        reader((NEXT, "file.read()")),
        "`latestOffset` returned None: return an offset such as {'next': 0}",
    ),
    (
        reader((NEXT, 'return file.read().rfind(b"\\n") + 1')),
        "`latestOffset` returned 6: return an offset such as",
    ),
    (CountsLetters, "an offset counts bytes, and ü has two"),
)
