"""Checks of notebook 14: a lookup, and when an order counts as unpaid."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from tutorial_pkg.workbook.checks.verdict import Verdict, exercise, not_yet, right
from tutorial_pkg.workbook.orders import SECOND, START, Order, Payment

Answer = Callable[..., Any]
_BATCH = pa.RecordBatch.from_pydict(
    {"ticker": ["SALT", "TREE", "GONE", "SALT", "O'NE", "LAMP"], "price": [5, 1, 4, 2, 3, 6]}
)
_KNOWN = [True, True, False, True, True, True]
_NOTHING_KNOWN = pa.RecordBatch.from_pydict({"ticker": ["GONE"], "price": [4]})
_PRAISE = "One question for a batch, whatever its size."

# ---- Exercise 1: look up a batch of keys ---------------------------------------------------------


@exercise
def check_14_1(answer: Answer) -> Verdict:
    """Does `answer` look up all keys of a batch with one statement?"""
    if not callable(answer):
        return not_yet("A function is wanted: def with_sector(batch, connection): ...")
    statements: list[str] = []
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE companies (ticker TEXT PRIMARY KEY, sector TEXT)")
        rows = [("TREE", "wood"), ("SALT", "food"), ("O'NE", "quotes"), ("LAMP", None)]
        connection.executemany("INSERT INTO companies VALUES (?, ?)", rows)
        connection.commit()
        connection.set_trace_callback(statements.append)
        try:
            found = answer(_BATCH, connection)
            found_nothing = answer(_NOTHING_KNOWN, connection)
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            raised = f"It raised {type(error).__name__}: {str(error)[:100]}."
            return not_yet(" ".join(filter(None, (raised, _next_step(error)))))
        finally:
            connection.set_trace_callback(None)
    return _judged(found, statements) or _typed(found_nothing) or right(_PRAISE)


def _next_step(error: Exception) -> str | None:
    if isinstance(error, KeyError):
        return "Use `.get`: the table has not all tickers, and `.get` gives None for those."
    if isinstance(error, sqlite3.OperationalError):
        return "Use `?` for each ticker, not its text: a ticker may contain a quote."
    return None


def _judged(found: Any, statements: list[str]) -> Verdict | None:
    if not isinstance(found, pa.RecordBatch):
        return not_yet(f"It must return a pyarrow.RecordBatch, yours is a {type(found).__name__}.")
    if found.schema.names != ["ticker", "price", "sector", "known"]:
        return not_yet(
            f"The columns must be ticker, price, sector, known; yours are {found.schema.names}: "
            "`batch.append_column` adds one."
        )
    if found["price"].to_pylist() != _BATCH["price"].to_pylist():
        return not_yet(
            f"{found.num_rows} rows came out of {_BATCH.num_rows}, or in another order: a ticker "
            "that the table has not keeps its row, and two rows of a ticker stay two."
        )
    wanted = ["food", "wood", None, "food", "quotes", None]
    if found["sector"].to_pylist() != wanted:
        return not_yet(f"The sectors must be {wanted}, yours are {found['sector'].to_pylist()}.")
    if found["known"].to_pylist() != _KNOWN:
        return not_yet(
            f"`known` must be {_KNOWN}, yours is {found['known'].to_pylist()}: the table has LAMP, "
            "whose sector is null."
        )
    return _by_statements(statements)


def _by_statements(statements: list[str]) -> Verdict | None:
    """SQLite tells each statement with its values."""
    if len(statements) != 2:
        return not_yet(
            f"{len(statements)} statements for two batches: ask for all tickers of a batch at "
            "once, with `WHERE ticker IN (?, ?, ...)`."
        )
    asked_for = (ticker.replace("'", "''") for ticker in _BATCH["ticker"].to_pylist())
    if not all(ticker in statements[0] for ticker in asked_for):
        return not_yet("It read the whole table: ask only for the tickers of the batch.")
    return None


def _typed(found: pa.RecordBatch) -> Verdict | None:
    """Of a batch in which no ticker is known."""
    types = {name: found.schema.field(name).type for name in ("sector", "known")}
    if types == {"sector": pa.string(), "known": pa.bool_()}:
        return None
    return not_yet(
        "In a batch whose tickers are all unknown, the types must be string and bool all the same, "
        f"yours are {', '.join(map(str, types.values()))}: `pa.array(..., pa.string())` says it."
    )


# ---- Exercise 2: when is an order unpaid? --------------------------------------------------------

_ORDERS = [Order(START + n * SECOND, n, 10) for n in range(4)]


def _paid(**seconds: float) -> list[Payment]:
    """Payments by order: `_2=8` pays order 2 at second 8."""
    return [Payment(START + at * SECOND, int(name[1:])) for name, at in seconds.items()]


@exercise
def check_14_2(answer: Answer) -> Verdict:
    """Does `answer` say which orders are unpaid for good?"""
    if not callable(answer):
        return not_yet("A function is wanted: def unpaid(orders, payments, within, watermark): ...")
    for payments, seconds, watermark, wanted, hint in _CASES:
        try:
            found = answer(list(_ORDERS), list(payments), seconds * SECOND, watermark)
            found = sorted(found)
        except Exception as error:  # whatever the learner's function raises is a wrong answer
            return not_yet(f"It raised {type(error).__name__}: {str(error)[:100]}.")
        if found != wanted:
            at = (watermark - START) / SECOND
            paid = {p.order: (p.paid - START) / SECOND for p in payments}
            return not_yet(
                f"Payments {paid}, within {seconds} s, and the watermark at {at:g}: {wanted} are "
                f"unpaid, yours are {found}: {hint}"
            )
    return right("Not a moment earlier: until then its payment may still come.")


def _at(second: float) -> datetime:
    return START + timedelta(seconds=second)


_CASES = [
    ([], 10, _at(5), [], "a payment within 10 seconds may still come for each."),
    ([], 10, _at(11.5), [0, 1], "orders 0 and 1 had time until 10 and 11, the others have more."),
    (_paid(_0=4), 10, _at(11.5), [1], "order 0 was paid."),
    (_paid(_0=10.5), 10, _at(11.5), [0, 1], "order 0 was paid later than 10 seconds after it."),
    (_paid(_1=11), 10, _at(11.5), [0], "10 seconds after it is within 10 seconds."),
    (_paid(_3=12, _0=1), 10, _at(30), [1, 2], "each payment belongs to one order."),
    (
        [],
        10,
        _at(11),
        [0],
        "order 1 had time until 11: when the watermark is *at* 11, Spark waits.",
    ),
    (
        _paid(_2=1),
        10,
        _at(12.5),
        [0, 1, 2],
        "order 2 is of second 2: a payment before it is not its.",
    ),
    (_paid(_2=2), 10, _at(12.5), [0, 1], "paid in the very second of the order is in time."),
    ([], 3, _at(5), [0, 1], "`within` is 3 seconds here, not 10."),
]
