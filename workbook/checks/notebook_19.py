"""Check of notebook 19: an aggregate operation."""

from __future__ import annotations

from math import isclose
from typing import Any

from pyspark.sql import Row

from tutorial_pkg.state import broken_law
from workbook.checks.verdict import Wrong, exercise

_ROWS = [
    Row(price=price, quantity=quantity)
    for price, quantity in ((200, 10), (301, 30), (250, 1), (100, 7))
]
_SUMS = {"long": int, "bigint": int, "double": float}
_PARTS = ("accumulator", "result", "create", "accumulate", "combine", "deduct", "finish")


@exercise("class SharePrice")
def check_19_1(answer: Any) -> str:
    """Is `answer` a class that computes the average price of a share?"""
    missing = [name for name in _PARTS if not hasattr(answer, name)]
    if missing:
        raise Wrong(f"`{answer.__name__}` has no `{missing[0]}`: `Average` above has it.")
    operation = answer()
    _look_at_columns(operation)
    if law := broken_law(operation, _ROWS):
        raise Wrong(f"A law is broken: {law}.")
    _look_at_types(operation)
    _look_at_result(operation)
    return "All laws hold: Spark may cut, combine and deduct it as it likes."


def _look_at_columns(operation: Any) -> None:
    accumulator = operation.create()
    if not isinstance(accumulator, tuple):
        raise Wrong("`create` must return a tuple, one value for each column of `accumulator`.")
    columns = _columns(operation)
    if len(accumulator) != len(columns):
        raise Wrong(
            f"`accumulator` names {len(columns)} column(s), `create` returns {len(accumulator)} "
            "value(s)"
        )
    if not all(len(column) == 2 and column[1] in _SUMS for column in columns):
        raise Wrong(
            "`accumulator` is a name and a type for each column, and sums grow: `LONG` or `DOUBLE`;"
            f" yours is {operation.accumulator!r}."
        )
    if len({name for name, _ in columns}) < len(columns) or ":" in operation.accumulator:
        raise Wrong(
            "Each column of `accumulator` needs a name of its own, and a space before its type; "
            f"yours is {operation.accumulator!r}."
        )
    if operation.result.replace(":", " ").lower().split() != ["cents", "double"]:
        raise Wrong(f"`result` must be 'cents DOUBLE', yours is {operation.result!r}.")


def _columns(operation: Any) -> list[list[str]]:
    return [part.replace(":", " ").lower().split() for part in operation.accumulator.split(",")]


def _look_at_types(operation: Any) -> None:
    """Where a value is not of its column's type, Spark reads null from the state."""
    one = operation.accumulate(operation.create(), _ROWS[0])
    for name, accumulator in (
        ("create", operation.create()),
        ("accumulate", one),
        ("combine", operation.combine(one, one)),
        ("deduct", operation.deduct(one, one)),
    ):
        for (column, kind), value in zip(_columns(operation), accumulator, strict=True):
            if not isinstance(value, _SUMS[kind]):
                raise Wrong(
                    f"`{column}` is {kind.upper()}, and `{name}` gives {value!r}, which Spark "
                    "would lose: an int is for LONG, a float for DOUBLE."
                )


def _look_at_result(operation: Any) -> None:
    found = _of(operation, _ROWS[:2])
    if found != (275.75,):
        wanted = "10 shares at 200 and 30 at 301: `finish` must return (275.75,)"
        kept = _of(type(operation)(), _ROWS[:2]) != found
        hint = "A new object returns something else: keep nothing in `self`."
        raise Wrong(f"{wanted}, yours returned {found!r}. {hint if kept else _hint(found)}")
    found = _of(operation, _ROWS)
    if not isclose(found[0], 11980 / 48):
        raise Wrong(
            f"`finish` must return ({11980 / 48},) for 48 shares and 11,980 cents in all, "
            f"yours returned {found!r}: do not round. Whoever shows the price may do that."
        )
    if not isinstance(found[0], float):
        raise Wrong(f"`cents` is DOUBLE, so a float is wanted, not {found[0]!r}.")


def _of(operation: Any, rows: list[Row]) -> Any:
    accumulator = operation.create()
    for row in rows:
        alone = operation.accumulate(operation.create(), row)
        accumulator = operation.combine(accumulator, alone)
    return operation.finish(accumulator)


def _hint(found: Any) -> str:
    if found == (250.5,):
        return "That is the average of the *trades*: a trade of 30 shares must count 30 times."
    if found == (301,):
        return "That is the last trade alone: keep nothing in `self`."
    if found == (2.7575,):
        return "The result is in cents, not in euros."
    if found == (276,):
        return "Do not round: whoever shows the price may do that."
    if found == (275,):
        return "`//` drops what comes after the decimal point: divide with `/`."
    if not isinstance(found, tuple):
        return "It must be a tuple even for one column: return (value,)."
    if len(found) != 1:
        return f"`result` names one column, so one value is wanted, not {len(found)}."
    return "What was paid in all, by the number of shares?"
