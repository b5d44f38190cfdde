"""The check of notebook 14."""

from __future__ import annotations

from typing import Any

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_14_1


def follow(table: Any, change: Any) -> Any:
    if change.before:
        table.pop(change.before.host, None)
    if change.after:
        table[change.after.host] = change.after.lines
    return table


def with_(*edits: tuple[str, str]) -> Any:
    return changed(follow, *edits)


def by_operation(table: Any, change: Any) -> Any:
    if change.operation == "delete":
        del table[change.before.host]
    else:
        table[change.after.host] = change.after.lines
    return table


def set_first(table: Any, change: Any) -> Any:
    if change.after:
        table[change.after.host] = change.after.lines
    if change.before:
        table.pop(change.before.host, None)
    return table


test_14_1 = tried(
    check_14_1,
    (follow, "✓ The changes rebuild the table"),
    (with_(("return table", "return None")), "Return the table, a dict; yours returned None"),
    (by_operation, "`before` has the old one, and that row is gone"),
    (with_((".pop(change.before.host, None)", ".pop(change.before.host)")), "raised KeyError"),
    (with_(("if change.before:", "if change.operation == 'delete':")), "Its key changed"),
    (with_(("if change.before:", "if False:")), "After a delete its row is gone"),
    (with_(("if change.after:", "if change.operation != 'snapshot':")), "The row as it is now"),
    (with_(("] = change", "] = table.get(change.after.host, 0) + change")), "set it"),
    (set_first, "`before` and `after` may have the same key"),
    (lambda table, change: {change.after.host: change.after.lines}, "{'alder': 5, 'birch': 7}"),
)
