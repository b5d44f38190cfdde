"""Check of notebook 14: a table that follows another one's changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Row

from workbook.checks.verdict import Case, Wrong, compare, exercise

Table = dict[str, int]


def _row(host: str, lines: int | None) -> Row:
    return Row(host=host, lines=lines)


def _change(operation: str, before: Row | None = None, after: Row | None = None) -> Row:
    return Row(operation=operation, before=before, after=after)


_ALDER, _TWO = _row("alder", 5), {"alder": 5, "birch": 7}
_GONE = _change("delete", _row("birch", None))
_RENAMED = _change("update", _row("alder", None), _row("cedar", 5))
_SET = "The row as it is now is in `after`: set it."
_KEY = "Its key changed: `before` has the old one, and that row is gone."
_FULL = _change("update", _row("alder", 5), _row("alder", 6))
_CASES = [
    Case(({}, _change("snapshot", None, _ALDER)), {"alder": 5}, _SET),
    Case(({"birch": 7}, _change("insert", None, _ALDER)), _TWO, _SET),
    Case((_TWO, _change("update", None, _row("alder", 6))), {"alder": 6, "birch": 7}, _SET),
    Case((_TWO, _GONE), {"alder": 5}, "After a delete its row is gone; `before` has the key."),
    Case((_TWO, _RENAMED), {"birch": 7, "cedar": 5}, _KEY),
    Case(
        (_TWO, _FULL),
        {"alder": 6, "birch": 7},
        "`before` and `after` may have the same key: take `before` first.",
    ),
    Case((_TWO, _change("insert", None, _ALDER)), _TWO, "It came before: set, do not add."),
    Case(({"alder": 5}, _GONE), {"alder": 5}, "It came before: the row is gone already."),
    Case(
        ({"birch": 7, "cedar": 5}, _RENAMED),
        {"birch": 7, "cedar": 5},
        "It came before: the row with the old key is gone already.",
    ),
    Case((_TWO, _GONE), {"alder": 5}, "The same may happen again later: keep nothing elsewhere."),
    Case(({"birch": 7}, _change("snapshot", None, _ALDER)), _TWO, "A snapshot is one row of many."),
    Case((_TWO, _change("update", None, _row("birch", 0))), {"alder": 5, "birch": 0}, _SET),
]


@exercise("def follow(table, change)")
def check_14_1(answer: Callable[[Table, Row], Table]) -> str:
    """Does `answer` return the table with one more change, even one that came before?"""
    compare(answer, _CASES, _a_table, may_change=True)
    return "The changes rebuild the table, even when one of them comes again."


def _a_table(found: Any) -> Any:
    if not isinstance(found, dict):
        raise Wrong(f"Return the table, a dict; yours returned {found!r}.")
    return found
