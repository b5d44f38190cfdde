"""Checks of notebook 02."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceWriter,
    WriterCommitMessage,
)

from tutorial_pkg.core.errors import last_error
from workbook.checks.trial import left_open, scratch, written
from workbook.checks.verdict import Wrong, exercise, told
from workbook.number_files import sink_of

Writer = Callable[[str], DataSourceWriter]
PARTS = [[Row(item=f"item {number % 9}") for number in range(count)] for count in (10, 25, 25)]
COUNTS = [*map(len, PARTS)]


@exercise("class MyWriter(DataSourceWriter)", base=DataSourceWriter)
def check_02_1(answer: type[DataSourceWriter]) -> str:
    """Does this writer's `commit` write into `total.txt` how many lines all tasks wrote?

    It is tried in this process, and then, where a Spark session is active, in a real job.
    """
    signature = inspect.signature(answer.commit)
    try:
        signature.bind("self", "messages")
    except TypeError:
        names = ", ".join(signature.parameters)
        raise Wrong(f"`commit` takes {names}: in a batch job there is no batchId.") from None
    praise = _tried(answer)
    _closed(answer)
    _in_a_job(answer)
    _other_tasks(answer)
    return praise


def _tried(answer: Writer) -> str:
    with scratch() as folder:
        writer = answer(str(folder))
        messages = written(writer, _parts_for(writer))
        for message in messages:
            if not isinstance(message, WriterCommitMessage):
                kind = "nothing" if message is None else type(message).__name__
                raise Wrong(f"`write` returned {kind}: it must return Wrote(count).")
        if (folder / "total.txt").exists():
            raise Wrong(
                "total.txt is there before `commit`: tasks that write it at once overwrite each "
                "other's sum. Let `commit` write it."
            )
        try:
            writer.commit(messages)
        except AttributeError as error:
            raise Wrong(
                f"`commit` raised {told(error)}. What `write` keeps in `self` stays in the task's "
                "copy: return it in the message, and add up `messages`."
            ) from None
        total, files = _total(folder)
        if (reported := _reported(messages)) != COUNTS:
            raise Wrong(
                f"The tasks reported {reported}, and had {COUNTS} rows: write each row, return "
                "Wrote(count), and add up these."
            )
    return f"{files} tasks reported, and the total is what the files hold: {total}."


def _reported(messages: list[Any]) -> list[int | None]:
    return [getattr(message, "lines", None) for message in messages]


def _closed(answer: Writer) -> None:
    with scratch() as folder:
        writer = answer(str(folder))
        if left_open(writer, _parts_for(writer)[0], folder):
            raise Wrong("`write` returned, and its file is still empty: close it, as `with` does.")


def _parts_for(writer: DataSourceWriter, parts: list[list[Row]] = PARTS) -> list[Any]:
    """Rows; or batches, two for each task, as with more rows than go into one."""
    if not isinstance(writer, DataSourceArrowWriter):
        return parts
    return [[_batch(some) for some in (rows[:7], rows[7:]) if some] for rows in parts]


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row.asDict() for row in rows])


def _other_tasks(answer: Writer) -> None:
    """More jobs in the same folder: of forty tasks, with the same rows, and without rows."""
    with scratch() as folder:
        writer = answer(str(folder))
        messages = written(writer, _parts_for(writer))
        writer.commit(messages)
        writer.commit(messages[1:] * 20)
        text = (folder / "total.txt").read_text().strip()
        if text != "1000":
            raise Wrong(
                f"A second job's 40 tasks wrote 25 lines each, and then total.txt says {text}, not "
                "1000: write the sum of its messages as a plain number, in place of the first "
                "job's."
            )
        if (reported := _reported(written(writer, _parts_for(writer)))) != COUNTS:
            raise Wrong(
                f"In a second job the tasks reported {reported}, and had {COUNTS} rows: count the "
                "rows, since the file may hold lines of an earlier job."
            )
        try:
            messages = written(writer, [[]])
        except Exception as error:
            raise Wrong(
                f"A task may have no rows, and then `write` raised {told(error)}. Return Wrote(0)."
            ) from None
        messages += written(writer, _parts_for(writer, [PARTS[0][:1]]))
        if (reported := _reported(messages)) != [0, 1]:
            raise Wrong(
                f"A task without rows and one with a single row reported {reported}, not [0, 1]."
            )


def _in_a_job(answer: Writer) -> None:
    """A real job's tasks share nothing with `commit` but the messages."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return
    spark.dataSource.register(sink_of(answer, "checked_total"))
    rows = spark.range(0, 90, 1, 3).selectExpr("concat('item ', id) AS item")
    with scratch() as folder:
        try:
            rows.write.format("checked_total").mode("append").save(str(folder))
            _total(folder)
        except PySparkException as error:
            raise Wrong(f"In a real job it raised {last_error(error)}") from None
        except Wrong as wrong:
            raise Wrong(f"In a real job: {wrong}") from None


def _total(folder: Path) -> tuple[int, int]:
    """What `total.txt` says, if it is how many lines the files hold, and how many files."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "total.txt"]
    lines = [len(file.read_text().splitlines()) for file in files]
    if not sum(lines):
        raise Wrong("There is no line in any file: let `write` write the rows, too.")
    if len(files) < 2:
        raise Wrong("There is one file only: open it with self.open(), one for each partition.")
    if not (folder / "total.txt").exists():
        raise Wrong("There is no total.txt: write it in `commit(self, messages)`.")
    text = (folder / "total.txt").read_text().strip()
    if not text.isdecimal():
        raise Wrong(f"total.txt says {text[:60]!r}: a plain number is wanted.")
    total = int(text)
    if total != sum(lines):
        other = (
            f"total.txt says {total}, the files hold {sum(lines)}: count each line once, end each "
            "with a newline, and open the file once for all of them."
        )
        raise Wrong(_symptoms(total, lines).get(total, other))
    return total, len(files)


def _symptoms(total: int, lines: list[int]) -> dict[int, str]:
    """What typical wrong totals come from."""
    return {
        **dict.fromkeys(lines, f"{total} are the lines of one task: add up all messages."),
        len(lines): f"{total} is the number of messages: add up what each of them says.",
        0: "The total is 0. `commit` runs in another process than the tasks, on an instance that "
        "has written nothing: let each task return its count in the message.",
    }


@exercise()
def check_02_2(answer: DataFrame) -> str:
    """Are these the 8,000 rows, in two partitions, without a shuffle?"""
    if not isinstance(answer, DataFrame):
        kind = type(answer).__name__
        raise Wrong(f"A DataFrame is wanted, this is {kind}: write nothing, only plan.")
    if answer.columns != ["item"]:
        raise Wrong(f"The columns are {answer.columns}: those of `wide` are wanted, only `item`.")
    plan = answer._jdf.queryExecution().executedPlan().toString()
    partitions = answer.rdd.getNumPartitions()
    if "Limit" in plan:
        raise Wrong("limit() collects all rows in one place first (an Exchange): leave it out.")
    if "Exchange" in plan:
        raise Wrong(
            "The plan has an Exchange: it moves rows to other partitions. coalesce() moves none."
        )
    lineage = answer.rdd.toDebugString() or b""
    if b"ShuffledRDD" in lineage:
        raise Wrong("An RDD's repartition() moves rows, too: coalesce() moves none.")
    if partitions != 2:
        raise Wrong(f"It makes a file for each partition: {partitions}. One call makes two.")
    of_an_rdd = b"CoalescedRDD" in lineage and "ExistingRDD" in plan
    if not of_an_rdd and ("Coalesce" not in plan or "splits=8" not in plan):
        raise Wrong(
            "Its two partitions are not those of `wide` put together: begin with wide, and make "
            "one call."
        )
    if answer.count() != 8000:
        raise Wrong(f"It has {answer.count()} rows: all 8000 of `wide` must be there.")
    different = answer.distinct().count()
    if different != 8000:
        raise Wrong(f"It has {different} different items: all 8000 of `wide` must be there.")
    return "Eight partitions became two, and no row was moved."
