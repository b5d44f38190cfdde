"""The check of notebook 14."""

from __future__ import annotations

from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_14_1


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


def into_a_new_table(table: Any, change: Any) -> Any:
    gone = change.before and change.before["host"]
    kept = {host: lines for host, lines in table.items() if host != gone}
    return kept | ({change.after["host"]: change.after["lines"]} if change.after else {})


def by_matching(table: Any, change: Any) -> Any:
    match change.operation, change.before, change.after:
        case "delete", (host, _), None:
            table.pop(host, None)
        case "update", (host, _), (other, lines):
            table.pop(host, None)
            table[other] = lines
        case _, None, (host, lines):
            table[host] = lines
    return table


def not_twice(table: Any, change: Any, done: set[str] = set()) -> Any:  # noqa: B006
    if str(change) in done:
        return table
    done.add(str(change))
    return follow(table, change)


ONLY_A_DELETE_TWICE = "(change.before.host, *([] if change.after else [None]))"
MORE = "] = max(table.get(change.after.host, 0), change.after.lines)"
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
    (into_a_new_table, "✓ The changes rebuild the table"),
    (by_matching, "✓ The changes rebuild the table"),
    (not_twice, "The same may happen again later"),
    (
        with_(
            (
                "if change.b",
                "if change.operation == 'snapshot':\n        table = {}\n    if change.b",
            )
        ),
        "A snapshot is one row of many",
    ),
    (with_(("(change.before.host, None)", ONLY_A_DELETE_TWICE)), "the old key is gone already"),
    (
        with_(("if change.after:", "if change.after and change.after.lines:")),
        "The row as it is now",
    ),
    (with_(("] = change.after.lines", MORE)), "must be {'alder': 5, 'birch': 0}"),
    (set_first, "`before` and `after` may have the same key"),
    (lambda table, change: {change.after.host: change.after.lines}, "{'alder': 5, 'birch': 7}"),
)
