"""Checks of notebook 02."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right


@exercise
def check_02_1(answer: Path | str) -> Verdict:
    """Does `total.txt` in the folder `answer` say how many lines its files hold?"""
    folder = Path(answer)
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
