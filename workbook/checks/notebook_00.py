"""Checks of notebook 00."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame

from tutorial_pkg import item_stream
from workbook.checks.verdict import Wrong, exercise


@exercise()
def check_00_1(answer: DataFrame) -> str:
    """Is `answer` an endless stream of 50 numbered items a second?"""
    if not isinstance(answer, DataFrame):
        kind = type(answer).__name__
        raise Wrong(f"A DataFrame is wanted, this is {kind}: keep what item_stream returns.")
    if not answer.isStreaming:
        raise Wrong("This DataFrame ends: begin with item_stream, not with spark.range.")
    if answer.columns != ["item"]:
        raise Wrong(f"The columns are {answer.columns}: item_stream alone gives `item`.")
    if _steps(answer) != _steps(item_stream(answer.sparkSession)):
        raise Wrong(
            "It is not what item_stream makes: leave out what you do with it, such as limit or "
            "union, and keep what item_stream returns."
        )
    plan = answer._jdf.queryExecution().logical().toString()
    rates = re.findall(r"rowsPerSecond=(\d+)", plan)
    if rates != ["50"]:
        raise Wrong(f"It makes {' '.join(rates)} items a second: set items_per_second=50.")
    if answer.sparkSession.streams.active:
        raise Wrong(
            "A query runs, and only a plan was asked for. Stop it: "
            "for query in spark.streams.active: query.stop()"
        )
    return "An endless stream, 50 items a second. Nothing has run yet: it is only a plan."


def _steps(rows: DataFrame) -> list[str]:
    """The plan without the rate, and without the numbers that differ between DataFrames."""
    plan = rows._jdf.queryExecution().analyzed().toString()
    plan = re.sub(r"#\d+|@[0-9a-f]+|rowsPerSecond=\d+", "", plan)
    steps = [line.strip(" +-~") for line in plan.splitlines()]
    idle = re.compile(r"Project \[item\]|SubqueryAlias \S+")  # these change nothing
    return [step for step in steps if not idle.fullmatch(step)]
