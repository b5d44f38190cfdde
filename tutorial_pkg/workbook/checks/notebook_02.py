"""Checks of notebook 02."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import DataSourceWriter

from tutorial_pkg.workbook.checks.trial import scratch, told, written
from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

Writer = Callable[[str], DataSourceWriter]
PARTS = [[Row(item=f"item {number}") for number in range(count)] for count in (10, 20, 30)]


@exercise
def check_02_1(answer: Writer) -> Verdict:
    """Does this writer's `commit` write into `total.txt` how many lines all tasks wrote?"""
    if not isinstance(answer, type) or not issubclass(answer, DataSourceWriter):
        return not_yet("The class itself is wanted: answer = MyWriter, without brackets.")
    parameters = inspect.signature(answer.commit).parameters
    if len(parameters) != 2:
        return not_yet(
            f"`commit` takes {', '.join(parameters)}: in a batch job it is commit(self, messages); "
            "only a streaming writer's has a batchId."
        )
    try:
        return _tried(answer)
    except Exception as error:  # whatever the learner's class raises is a wrong answer
        return not_yet(f"It raised {told(error)}")


def _tried(answer: Writer) -> Verdict:
    with scratch() as folder:
        writer = answer(str(folder))
        messages = written(writer, PARTS)
        if any(message is None for message in messages):
            return not_yet("`write` returned nothing: it must return Wrote(count).")
        try:
            writer.commit(messages)
        except AttributeError as error:
            return not_yet(
                f"`commit` raised {told(error)}. What `write` keeps in `self` stays in the task's "
                "copy: return it in the message, and add up `messages`."
            )
        return judged(folder)


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
            "The total is 0. Was it counted in `self`? `commit` runs in another process, on an "
            "instance that has written nothing: let each task return its count in the message."
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
    if answer.count() != 8000:
        return not_yet(f"It has {answer.count()} rows: all 8000 of `wide` must be there.")
    return right("Eight partitions became two, and no row was moved.")
