"""Checks of notebook 20: a lookup, and when an order counts as unpaid."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from tutorial_pkg.workbook.checks.verdict import Case, Wrong, compare, exercise, told
from tutorial_pkg.workbook.orders import SECOND, START, Order, Payment

Answer = Callable[..., Any]
_BATCH = pa.RecordBatch.from_pydict(
    {"ticker": ["SALT", "TREE", "GONE", "SALT", "O'NE", "LAMP"], "price": [5, 1, 4, 2, 3, 6]}
)
_KNOWN = [True, True, False, True, True, True]
_NOTHING_KNOWN = pa.RecordBatch.from_pydict({"ticker": ["GONE"], "price": [4]})

# ---- Exercise 1: look up a batch of keys ---------------------------------------------------------


@exercise("def with_sector(batch, connection)")
def check_20_1(answer: Answer) -> str:
    """Does `answer` look up all keys of a batch with one statement?"""
    statements: list[str] = []
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE companies (ticker TEXT PRIMARY KEY, sector TEXT)")
        rows = [("TREE", "wood"), ("SALT", "food"), ("O'NE", "quotes"), ("LAMP", None)]
        connection.executemany("INSERT INTO companies VALUES (?, ?)", rows)
        connection.commit()
        connection.set_trace_callback(statements.append)
        try:
            found, found_nothing = (answer(batch, connection) for batch in (_BATCH, _NOTHING_KNOWN))
        except Exception as error:
            raise Wrong(f"It raised {told(error)}.{_next_step(error)}") from None
        finally:
            connection.set_trace_callback(None)
    _compare(found)
    _look_at_statements(statements)
    _look_at_types(found_nothing)
    return "One question for a batch, whatever its size."


def _next_step(error: Exception) -> str:
    if isinstance(error, KeyError):
        return " Use `.get`: the table does not have all tickers, and `.get` gives None for those."
    if isinstance(error, sqlite3.OperationalError):
        return " Use `?` for each ticker, not its text: a ticker may contain a quote."
    return ""


def _compare(found: Any) -> None:
    if not isinstance(found, pa.RecordBatch):
        raise Wrong(f"It must return a pyarrow.RecordBatch, yours is a {type(found).__name__}.")
    if found.schema.names != ["ticker", "price", "sector", "known"]:
        raise Wrong(f"ticker, price, sector, known are wanted; yours are {found.schema.names}.")
    if found["price"].to_pylist() != _BATCH["price"].to_pylist():
        raise Wrong(
            f"{found.num_rows} rows came out of {_BATCH.num_rows}, or in another order: a ticker "
            "that is not in the table keeps its row, and two rows of a ticker stay two."
        )
    wanted = ["food", "wood", None, "food", "quotes", None]
    if found["sector"].to_pylist() != wanted:
        raise Wrong(f"The sectors must be {wanted}, yours are {found['sector'].to_pylist()}.")
    if found["known"].to_pylist() != _KNOWN:
        raise Wrong(
            f"`known` must be {_KNOWN}, yours is {found['known'].to_pylist()}: the table has LAMP, "
            "whose sector is null."
        )


def _look_at_statements(statements: list[str]) -> None:
    """SQLite tells each statement with its values."""
    if len(statements) != 2:
        raise Wrong(f"{len(statements)} statements for two batches: use `WHERE ticker IN (?, ?)`.")
    asked_for = (ticker.replace("'", "''") for ticker in _BATCH["ticker"].to_pylist())
    if not all(ticker in statements[0] for ticker in asked_for):
        raise Wrong("It read the whole table: ask only for the tickers of the batch.")


def _look_at_types(found: pa.RecordBatch) -> None:
    """Of a batch in which no ticker is known."""
    types = {name: found.schema.field(name).type for name in ("sector", "known")}
    if types != {"sector": pa.string(), "known": pa.bool_()}:
        raise Wrong(
            "In a batch of unknown tickers the types must be string and bool, too, not "
            f"{', '.join(map(str, types.values()))}: `pa.array(..., pa.string())` says it."
        )


# ---- Exercise 2: when is an order unpaid? --------------------------------------------------------

_ORDERS = [Order(START + n * SECOND, n, 10) for n in reversed(range(4))]
_MAY_COME = "A payment within 10 seconds may still come for each."
_HAD_TIME = "Orders 0 and 1 had time until 10 and 11, the others have more."
_CASES = [  # payments as second by order, within how many seconds, second of the watermark
    Case(({}, 10, 5), [], _MAY_COME),
    Case(({}, 10, 11.5), [0, 1], _HAD_TIME),
    Case(({0: 4}, 10, 11.5), [1], "Order 0 was paid."),
    Case(({0: 10.5}, 10, 11.5), [0, 1], "Order 0 was paid later than 10 seconds after it."),
    Case(({1: 11}, 10, 11.5), [0], "10 seconds after it is within 10 seconds."),
    Case(({3: 12, 0: 1}, 10, 30), [1, 2], "Each payment belongs to one order."),
    Case(({}, 10, 11), [0], "Order 1 had time until 11: with the watermark *at* 11, Spark waits."),
    Case(
        ({2: 1}, 10, 12.5),
        [0, 1, 2],
        "Order 2 was made in second 2: an earlier payment cannot belong to it.",
    ),
    Case(({2: 2}, 10, 12.5), [0, 1], "A payment in the same second as the order is in time."),
    Case(({}, 3, 5), [0, 1], "`within` is 3 seconds here, not 10."),
]


@exercise("def unpaid(orders, payments, within, watermark)")
def check_20_2(answer: Answer) -> str:
    """Does `answer` say which orders are unpaid for good?"""

    def unpaid(paid: dict[int, float], within: int, watermark: float) -> Any:
        payments = [Payment(START + at * SECOND, order) for order, at in paid.items()]
        return answer(list(_ORDERS), payments, within * SECOND, START + watermark * SECOND)

    compare(unpaid, _CASES, key=_ids)
    return "Not a moment earlier: until then its payment may still come."


def _ids(found: Any) -> list[int]:
    if not isinstance(found, Iterable):
        hint = "Is there a `return`?" if found is None else ""
        raise Wrong(f"It must return the orders' ids, a list, not {found!r}. {hint}")
    return sorted(found)
