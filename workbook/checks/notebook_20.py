"""Checks of notebook 20: a lookup, and when an order counts as unpaid."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import pyarrow as pa

from workbook.checks.verdict import Case, Wrong, compare, exercise, told
from workbook.shop import SECOND, START, Order, Payment

Answer = Callable[..., Any]
_BATCH = pa.RecordBatch.from_pydict(
    {
        "ticker": ["SALT", "TREE", "GONE", "SALT", "O'NE", "LAMP"],
        "price": pa.array([5, 1, 4, 2, 3, 6], pa.int32()),
    }
)
_KNOWN = [True, True, False, True, True, True]
_NOTHING_KNOWN = pa.RecordBatch.from_pydict({"note": ["SALT"], "ticker": ["GONE"]})

# ---- Exercise 1: look up a batch of keys ---------------------------------------------------------


@exercise("def with_sector(batch, connection)")
def check_20_1(answer: Answer) -> str:
    """Does `answer` look up all keys of a batch with one statement?"""
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE companies (ticker TEXT PRIMARY KEY, sector TEXT)")
        rows = [("TREE", "wood"), ("SALT", "food"), ("O'NE", "quotes"), ("LAMP", None)]
        rows.append(("gone", "in small letters"))  # another ticker than GONE
        connection.executemany("INSERT INTO companies VALUES (?, ?)", rows)
        connection.commit()
        connection.set_trace_callback(statements.append)
        try:
            found, found_nothing = (answer(batch, connection) for batch in (_BATCH, _NOTHING_KNOWN))
            connection.set_trace_callback(None)
            connection.execute("UPDATE companies SET sector = 'new'")
            found_later = answer(_BATCH, connection)
        except Exception as error:
            raise Wrong(f"It raised {told(error)}.{_next_step(error)}") from None
        try:
            found_empty = answer(_BATCH.slice(0, 0), connection)
        except Exception as error:
            raise Wrong(f"For a batch without rows it raised {told(error)}.") from None
    _look_at_columns(found, _BATCH)
    _compare(found)
    _look_at_statements(statements)
    _look_at_columns(found_nothing, _NOTHING_KNOWN)
    if found_nothing.to_pylist()[0]["known"] is not False:
        raise Wrong("GONE is not in the table, so it is not known: look up the column `ticker`.")
    if {*found_later["sector"].to_pylist()} != {"new", None}:
        raise Wrong("The table has changed, and the answer is old: keep nothing from call to call.")
    if getattr(found_empty, "schema", None) != found.schema:
        raise Wrong("A batch without rows needs the same two columns, with the same types.")
    return "One question for a batch, whatever its size."


def _next_step(error: Exception) -> str:
    if isinstance(error, KeyError) and "schema" in str(error):
        return " The next batch may have other columns: append yours to those that it has."
    if isinstance(error, KeyError):
        return " Use `.get`: the table does not have all tickers, and `.get` gives None for those."
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return " Leave the connection open: the next batch needs it, too."
    if isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError):
        return " Use one `?` for each ticker, not its text: a ticker may contain a quote."
    if isinstance(error, pa.ArrowInvalid) and "length" in str(error):
        return " Not every ticker has a row in the table: go by the ticker."
    return ""


def _look_at_columns(found: Any, batch: pa.RecordBatch) -> None:
    if not isinstance(found, pa.RecordBatch):
        raise Wrong(f"It must return a pyarrow.RecordBatch, yours is a {type(found).__name__}.")
    names = [*batch.schema.names, "sector", "known"]
    if found.schema.names != names:
        raise Wrong(f"{', '.join(names)} are wanted; yours are {found.schema.names}.")
    if found.num_rows == batch.num_rows and found.schema.types[:-2] != batch.schema.types:
        raise Wrong("A column of the batch has another type now: append to the batch as it is.")
    types = found.schema.types[-2:]
    if types != [pa.string(), pa.bool_()]:
        raise Wrong(
            "`sector` and `known` must be string and bool, also in a batch of unknown tickers, not "
            f"{', '.join(map(str, types))}: give `pa.array` the type, as `pa.string()`."
        )


def _compare(found: pa.RecordBatch) -> None:
    if found["price"].to_pylist() != _BATCH["price"].to_pylist():
        raise Wrong(
            f"Keep the batch's {_BATCH.num_rows} rows in their order ({found.num_rows} came out): "
            "an unknown ticker keeps its row, and two rows of a ticker stay two."
        )
    wanted = ["food", "wood", None, "food", "quotes", None]
    if found["sector"].to_pylist() != wanted:
        hint = " `gone` is another ticker than `GONE`." if found["sector"][2].is_valid else ""
        raise Wrong(f"The sectors must be {wanted}, yours are {found['sector'].to_pylist()}.{hint}")
    if found["known"].to_pylist() != _KNOWN:
        raise Wrong(
            f"`known` must be {_KNOWN}, yours is {found['known'].to_pylist()}: the table has LAMP, "
            "whose sector is null, and does not have GONE."
        )


def _look_at_statements(statements: list[str]) -> None:
    """SQLite tells each statement with its values."""
    if len(statements) != 2:
        raise Wrong(f"{len(statements)} statements for two batches: use `WHERE ticker IN (?, ?)`.")
    asked_for = (ticker.replace("'", "''") for ticker in _BATCH["ticker"].to_pylist())
    if not all(ticker in statements[0] for ticker in asked_for):
        if _BATCH["ticker"][0].as_py() in statements[0]:
            raise Wrong("Use `?` for each ticker, without pasting their text into the statement.")
        raise Wrong(
            "It read the whole table, or some of it: ask only for the tickers of the batch."
        )


# ---- Exercise 2: when is an order unpaid? --------------------------------------------------------

_ORDERS = [Order(START + n * SECOND, n, 10) for n in reversed(range(4))]
_MAY_COME = "A payment within 10 seconds may still come for each."
_HAD_TIME = "Orders 0 and 1 had time until 10 and 11, the others have more."
DAY = 86_400 + 4
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
    Case(({3: 4, 2: 3}, 10, 30), [0, 1], "Orders 2 and 3 were paid."),
    Case(({0: DAY}, 10, 11.5), [0, 1], "Order 0 was paid a day later: `.seconds` has no days."),
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
    ids = list(found)
    if not all(isinstance(one, int) for one in ids):
        raise Wrong(f"The orders' ids are wanted, such as {_ORDERS[0].id}, not {ids[0]!r}.")
    return sorted(ids)
