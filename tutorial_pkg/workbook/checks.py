"""The checks of the exercises: each looks at an answer and says what is right, or what to do next.

A check is named after its notebook and exercise. It returns a `Verdict`, which a cell shows as
one line. It never raises because of a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

CPU_LOG_LINE = re.compile(r"\d{13},[01]\.\d{6},.*")


@dataclass(frozen=True)
class Verdict:
    """What a check found: `passed`, and one line that names the symptom and the next step."""

    passed: bool
    message: str

    def __repr__(self) -> str:
        return f"{'✓' if self.passed else '✗'} {self.message}"


def _right(message: str) -> Verdict:
    return Verdict(True, message)


def _not_yet(message: str) -> Verdict:
    return Verdict(False, message)


def check_00_1(answer: DataFrame) -> Verdict:
    """Is `answer` an endless stream of 50 numbered items a second?"""
    if not isinstance(answer, DataFrame):
        kind = type(answer).__name__
        return _not_yet(f"A DataFrame is wanted, this is {kind}: keep what item_stream returns.")
    if not answer.isStreaming:
        return _not_yet("This DataFrame ends: begin with item_stream, not with spark.range.")
    if answer.columns != ["item"]:
        return _not_yet(f"The columns are {answer.columns}: item_stream alone gives `item`.")
    plan = answer._jdf.queryExecution().logical().toString()
    rate = re.search(r"rowsPerSecond=(\d+)", plan)
    if rate is None or rate.group(1) != "50":
        found = rate.group(1) if rate else "another number of"
        return _not_yet(f"It makes {found} items a second: set items_per_second=50.")
    return _right("An endless stream, 50 items a second. Nothing has run yet: it is only a plan.")


def check_01_1(answer: Callable[[str], str]) -> Verdict:
    """Does `answer` keep an item on one line, and can the item be told from it again?"""
    if not callable(answer):
        return _not_yet("A function is wanted: def escape(item): ...")
    escaped = {item: _call(answer, item) for item in ("a\nb", "a\rb", "a\\b", "a\\nb", "plain, 1")}
    if any(isinstance(text, Exception) or not isinstance(text, str) for text in escaped.values()):
        return _not_yet("It must return a string for every string: try it on 'a\\nb'.")
    if "\n" in escaped["a\nb"] or "\r" in escaped["a\rb"]:
        return _not_yet("An item still spans two lines: replace newline and carriage return.")
    if escaped["a\nb"] == escaped["a\\nb"]:
        return _not_yet(
            "A newline and the two characters \\n come out alike, so no reader can tell them "
            "apart: escape the backslash too, and first of all."
        )
    if escaped["plain, 1"] != "plain, 1":
        return _not_yet("A comma needs no escape: the reader splits at the first two only.")
    if (escaped["a\nb"], escaped["a\rb"], escaped["a\\b"]) != (r"a\nb", r"a\rb", r"a\\b"):
        return _not_yet(r"Use exactly \n, \r and \\ : the package's reader expects these.")
    return _right("One item, one line, and nothing lost.")


def _call(function: Callable[[str], Any], item: str) -> Any:
    try:
        return function(item)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


def check_01_2(answer: Path | str) -> Verdict:
    """Is `answer` a folder into which three partitions have logged the CPU?"""
    folder = Path(answer)
    names = sorted(file.name for file in folder.glob("data.*.csv"))
    if not names:
        return _not_yet(f"There is no data.*.csv in {folder.name}: was the query started there?")
    if names != ["data.0.csv", "data.1.csv", "data.2.csv"]:
        return _not_yet(
            f"There is {', '.join(names)}: the number of partitions decides, "
            "so repartition(3) the items before writeStream."
        )
    lines = [line for name in names for line in (folder / name).read_text().splitlines()]
    if not lines:
        return _not_yet("The files are empty: let the query read some rows before you stop it.")
    wrong = next((line for line in lines if not CPU_LOG_LINE.fullmatch(line)), None)
    if wrong is not None:
        return _not_yet(f"This line is not of a CPU log: {wrong[:60]!r}. Use format('cpu_log').")
    return _right("Three partitions, three files, every line whole.")
