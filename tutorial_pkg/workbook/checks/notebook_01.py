"""Checks of notebook 01."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right

CPU_LOG_LINE = re.compile(r"\d{13},[01]\.\d{6},.*")


@exercise
def check_01_1(answer: Callable[[str], str]) -> Verdict:
    """Does `answer` keep an item on one line, and can the item be told from it again?"""
    if not callable(answer):
        return not_yet("A function is wanted: def escape(item): ...")
    escaped = {item: _call(answer, item) for item in ("a\nb", "a\rb", "a\\b", "a\\nb", "plain, 1")}
    if any(isinstance(text, Exception) or not isinstance(text, str) for text in escaped.values()):
        return not_yet("It must return a string for every string: try it on 'a\\nb'.")
    if escaped["plain, 1"] != "plain, 1" and "plain, 1" in escaped["plain, 1"]:
        return not_yet(
            f"An item without a newline must stay as it is; {escaped['plain, 1']} has something "
            "around it. (repr() puts quotes around a text: use str.replace.)"
        )
    if "\n" in escaped["a\nb"] or "\r" in escaped["a\rb"]:
        return not_yet("An item still spans two lines: replace newline and carriage return.")
    if escaped["a\nb"] == escaped["a\\nb"]:
        return not_yet(
            "A newline and the two characters \\n come out alike, so no reader can tell them "
            "apart: escape the backslash too, and first of all."
        )
    if escaped["plain, 1"] != "plain, 1":
        return not_yet("A comma needs no escape: the reader splits at the first two only.")
    if (escaped["a\nb"], escaped["a\rb"], escaped["a\\b"]) != (r"a\nb", r"a\rb", r"a\\b"):
        return not_yet(r"Use exactly \n, \r and \\ : the package's reader expects these.")
    return right("One item, one line, and nothing lost.")


def _call(function: Callable[[str], Any], item: str) -> Any:
    try:
        return function(item)
    except Exception as error:  # whatever the learner's function raises is a wrong answer
        return error


@exercise
def check_01_2(answer: Path | str) -> Verdict:
    """Is `answer` a folder into which three partitions have logged the CPU?"""
    folder = Path(answer)
    names = sorted(file.name for file in folder.glob("data.*.csv"))
    if not names:
        return not_yet(f"There is no data.*.csv in {folder.name}: was the query started there?")
    if names != ["data.0.csv", "data.1.csv", "data.2.csv"]:
        return not_yet(
            f"There is {', '.join(names)}: the number of partitions decides, "
            "so repartition(3) the items before writeStream."
        )
    lines = [line for name in names for line in (folder / name).read_text().splitlines()]
    if not lines:
        return not_yet("The files are empty: let the query read some rows before you stop it.")
    wrong = next((line for line in lines if not CPU_LOG_LINE.fullmatch(line)), None)
    if wrong is not None:
        return not_yet(f"This line is not of a CPU log: {wrong[:60]!r}. Use format('cpu_log').")
    return right("Three partitions, three files, every line whole.")
