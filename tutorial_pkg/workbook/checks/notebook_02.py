"""Checks of notebook 02."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tutorial_pkg.core.errors import last_error
from tutorial_pkg.workbook.checks.trial import scratch, told, written
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Writer = Callable[[str], DataSourceWriter]
PARTS = [[Row(item=f"item {number}") for number in range(count)] for count in (10, 20, 30)]


@exercise
def check_02_1(answer: Writer) -> Verdict:
    """Does this writer's `commit` write into `total.txt` how many lines all tasks wrote?

    It is tried in this process, and then, where a Spark session is active, in a real job.
    """
    if not isinstance(answer, type) or not issubclass(answer, DataSourceWriter):
        return not_yet("The class itself is wanted: answer = MyWriter, without brackets.")
    parameters = inspect.signature(answer.commit).parameters
    if len(parameters) != 2:
        return not_yet(
            f"`commit` takes {', '.join(parameters)}: in a batch job it is commit(self, messages); "
            "only a streaming writer's has a batchId."
        )
    try:
        tried = _tried(answer)
        return (tried.passed and _in_a_job(answer)) or tried
    except Exception as error:  # whatever the learner's class raises is a wrong answer
        return not_yet(f"It raised {told(error)}")


def _tried(answer: Writer) -> Verdict:
    with scratch() as folder:
        writer = answer(str(folder))
        messages = written(writer, PARTS)
        for message in messages:
            if not isinstance(message, WriterCommitMessage):
                kind = "nothing" if message is None else type(message).__name__
                return not_yet(f"`write` returned {kind}: it must return Wrote(count).")
        try:
            writer.commit(messages)
        except AttributeError as error:
            return not_yet(
                f"`commit` raised {told(error)}. What `write` keeps in `self` stays in the task's "
                "copy: return it in the message, and add up `messages`."
            )
        verdict = judged(folder)
    reported = [getattr(message, "lines", None) for message in messages]
    if verdict.passed and reported != [len(part) for part in PARTS]:
        return not_yet(
            f"The total is right, but the tasks reported {reported}: let each return Wrote(count), "
            "and add up `messages`. A folder that is written a second time holds old lines, too."
        )
    return verdict


def _in_a_job(answer: Writer) -> Verdict | None:
    """What is wrong in a real job, whose tasks share nothing with `commit` but the messages."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return None
    spark.dataSource.register(_sink_with(answer))
    rows = spark.range(0, 90, 1, 3).selectExpr("concat('item ', id) AS item")
    with scratch() as folder:
        try:
            rows.write.format("checked_total").mode("append").save(str(folder))
        except PySparkException as error:
            return not_yet(f"In a real job it raised {last_error(error)}")
        verdict = judged(folder)
    return None if verdict.passed else not_yet(f"In a real job: {verdict.message}")


def _sink_with(writer: Writer) -> type[DataSource]:
    class CheckedTotal(DataSource):
        @classmethod
        def name(cls) -> str:
            return "checked_total"

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            return writer(str(self.options["path"]))

    return CheckedTotal


def judged(folder: Path) -> Verdict:
    """Does `total.txt` in the folder say how many lines its files hold?"""
    files = sorted(folder.glob("data.*.csv"))
    lines = [len(file.read_text().splitlines()) for file in files]
    if not sum(lines):
        return not_yet("There is no line in any data.*.csv: let `write` write the rows, too.")
    if len(files) < 2:
        return not_yet("There is one file only: open it with self.open(), one for each partition.")
    if not (folder / "total.txt").exists():
        return not_yet("There is no total.txt: write it in `commit(self, messages)`.")
    text = (folder / "total.txt").read_text().strip()
    if not text.isdecimal():
        return not_yet(f"total.txt says {text[:60]!r}: a plain number is wanted.")
    return _compared(int(text), lines)


def _compared(total: int, lines: list[int]) -> Verdict:
    if total == sum(lines):
        return right(f"{len(lines)} tasks reported, and the total is what the files hold: {total}.")
    if total == 0:
        return not_yet(
            "The total is 0. Was it counted in `self`, in the class or in a global name? `commit` "
            "runs in another process, on an instance that has written nothing: let each task "
            "return its count in the message."
        )
    if total == len(lines):
        return not_yet(f"{total} is the number of messages: add up what each of them says.")
    if total in lines:
        return not_yet(f"{total} are the lines of one task: add up all messages in `commit`.")
    return not_yet(f"total.txt says {total}, the files hold {sum(lines)}: count each line once.")


@exercise
def check_02_2(answer: DataFrame) -> Verdict:
    """Are these the 8,000 rows, in two partitions, without a shuffle?"""
    if not isinstance(answer, DataFrame):
        kind = type(answer).__name__
        return not_yet(f"A DataFrame is wanted, this is {kind}: write nothing, only plan.")
    plan = answer._jdf.queryExecution().executedPlan().toString()
    partitions = answer.rdd.getNumPartitions()
    if "Limit" in plan:
        return not_yet("limit() collects all rows in one place first (an Exchange): leave it out.")
    if "Exchange" in plan:
        return not_yet("The plan has an Exchange: rows are dealt out anew. coalesce() moves none.")
    if partitions != 2:
        return not_yet(f"It has {partitions} partitions, and so {partitions} files: two are asked.")
    if "Coalesce" not in plan:
        return not_yet("Its two partitions are not those of `wide` put together: begin with wide.")
    if answer.count() != 8000:
        return not_yet(f"It has {answer.count()} rows: all 8000 of `wide` must be there.")
    return right("Eight partitions became two, and no row was moved.")
