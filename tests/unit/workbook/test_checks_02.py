"""The check of the writer of notebook 02."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_02_1


class Wrote(WriterCommitMessage):
    def __init__(self, lines: int) -> None:
        self.lines = lines


class Counted(DataSourceWriter):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def write(self, iterator: Iterator[Row]) -> Any:
        number = TaskContext.get().partitionId()
        with open(f"{self.folder}/data.{number}.csv", "a") as file:
            lines = sum(file.write(f"{row.item}\n") > 0 for row in iterator)
        return Wrote(lines)

    def commit(self, messages: list[Any]) -> None:
        total = sum(message.lines for message in messages)
        Path(self.folder, "total.txt").write_text(str(total))


writer = partial(changed, Counted)


def was(folder: str) -> int:
    file = Path(folder, "total.txt")
    return int(file.read_text()) if file.exists() else 0


class InTheClass(Counted):
    """In one process it counts right: only a real job tells."""

    count = 0

    def write(self, iterator: Iterator[Row]) -> Any:
        message = super().write(iterator)
        InTheClass.count += message.lines
        return message

    def commit(self, messages: list[Any]) -> None:
        Path(self.folder, "total.txt").write_text(str(InTheClass.count))


class InBatches(Counted, DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> Any:
        rows = (Row(**row) for batch in iterator for row in batch.to_pylist())
        return super().write(rows)


class TotalInWrite(Counted):
    """Two tasks at once would overwrite each other's sum."""

    def write(self, iterator: Iterator[Row]) -> Any:
        message, file = super().write(iterator), Path(self.folder, "total.txt")
        file.write_text(str(message.lines + int(file.read_text() if file.exists() else 0)))
        return message

    def commit(self, messages: list[Any]) -> None: ...


class EachItemOnce(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        return super().write(iter({*iterator}))


class NeedsARow(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        with open(f"{self.folder}/data.{TaskContext.get().partitionId()}.csv", "a") as file:
            for count, row in enumerate(iterator, 1):  # noqa: B007
                print(row.item, file=file)
        return Wrote(count)


class NeedsTwoRows(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        number = 0
        with open(f"{self.folder}/data.{TaskContext.get().partitionId()}.csv", "a") as file:
            for number, row in enumerate(iterator):  # noqa: B007
                print(row.item, file=file)
        return Wrote(number + 1 if number else 0)


class NeedsTwoBatches(InBatches):
    def write(self, iterator: Iterator[Any]) -> Any:
        batches = list(iterator)
        message = super().write(iter(batches))
        return message if len(batches) > 1 else Wrote(0)


class CountsTheFile(Counted):
    """Which an earlier job may have begun."""

    def write(self, iterator: Iterator[Row]) -> Any:
        super().write(iterator)
        file = Path(self.folder, f"data.{TaskContext.get().partitionId()}.csv")
        return Wrote(len(file.read_text().splitlines()))


class OpensForEachLine(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        file = Path(self.folder, f"data.{TaskContext.get().partitionId()}.csv")
        return Wrote(sum(file.write_text(f"{row.item}\n") > 0 for row in iterator))


class NeverCloses(Counted):
    def write(self, iterator: Iterator[Row]) -> Any:
        self.file = open(f"{self.folder}/data.{TaskContext.get().partitionId()}.csv", "a")
        return Wrote(sum(self.file.write(f"{row.item}\n") > 0 for row in iterator))


class OfTheLastBatch(InBatches):
    def write(self, iterator: Iterator[Any]) -> Any:
        return [super(OfTheLastBatch, self).write(iter([batch])) for batch in iterator][-1]


RETURN, SUM = "return Wrote(lines)", "sum(message.lines for message in messages)"
IN_SELF = (("return Wrote(lines)", "self.count += lines; return Wrote(lines)"), (SUM, "self.count"))
FILES = 'sum(len(file.read_text().split()) // 2 for file in Path(self.folder).glob("data.*"))'
test_02_1 = tried(
    check_02_1,
    (Counted, "✓ 3 tasks reported, and the total is what the files hold: 60."),
    (InBatches, "✓ 3 tasks reported"),
    (writer(("data.{number}.csv", "part-{number}.txt")), "✓ 3 tasks reported"),
    (Counted("folder"), "answer = MyWriter, without brackets"),
    (
        writer(*IN_SELF, ("self.folder = folder", "self.folder, self.count = folder, 0")),
        "The total is 0. `commit` runs in another process",
    ),
    (
        writer((RETURN, "self.count = lines; return Wrote(lines)"), (SUM, "self.count")),
        "stays in the task's copy: return it in the message",
    ),
    (writer(("messages: list[Any])", "messages: list[Any], batchId: int)")), "there is no batchId"),
    (writer(("file.write(", "len(")), "no line in any file"),
    (writer(("{number}", "0")), "one file only"),
    (writer(('Path(self.folder, "total.txt")', "Path('/dev/null')")), "write it in `commit(self"),
    (writer((RETURN, "")), "`write` returned nothing: it must return Wrote(count)"),
    (writer((RETURN, "return lines"), (SUM, "sum(messages)")), "`write` returned int"),
    (writer((RETURN, "return WriterCommitMessage()"), (SUM, FILES)), "reported [None, None, None]"),
    (writer(("str(total)", 'f"{total} lines"')), "a plain number is wanted"),
    (writer(("str(total)", 'f"{total:,}"')), "total.txt says 1,000, not 1000: write"),
    (
        writer(("str(total)", "str(total + was(self.folder))")),
        "total.txt says 1060, not 1000: write",
    ),
    (OpensForEachLine, "the files hold 3: count each line once, end each with a newline, and open"),
    (CountsTheFile, "In a second job the tasks reported [20, 50, 50], and had [10, 25, 25] rows"),
    (writer((SUM, "len(messages)")), "the number of messages"),
    (writer((SUM, "sum({message.lines for message in messages})")), "the files hold 60"),
    (writer(("write_text(str(total))", 'open("a").write(str(total))')), "total.txt says 601000"),
    (writer((SUM, "messages[-1].lines")), "the lines of one task"),
    (writer(("in messages)", "in messages + messages)")), "total.txt says 120, the files hold 60"),
    (writer(("messages: list[Any])", "messages: list[Any], batchId: int = 0)")), "✓ 3 tasks"),
    (writer(("messages: list[Any])", "*given: Any)"), ("in messages", "in given[0]")), "✓ 3 tasks"),
    (TotalInWrite, "total.txt is there before `commit`"),
    (writer((SUM, FILES)), "total.txt says 60, not 1000: write the sum of its"),
    (
        writer((SUM, "60")),
        "A second job's 40 tasks wrote 25 lines each, and then total.txt says 60",
    ),
    (EachItemOnce, "The tasks reported [9, 9, 9], and had [10, 25, 25] rows"),
    (NeedsARow, "with a value. Return Wrote(0)"),
    (NeedsTwoRows, "one with a single row reported [0, 0], not [0, 1]"),
    (NeedsTwoBatches, "one with a single row reported [0, 0], not [0, 1]"),
    (NeverCloses, "its file is still empty: close it, as"),
    (OfTheLastBatch, "total.txt says 39, the files hold 60"),
    (writer(("item}\\n", "item}")), "end each with a newline"),
)
