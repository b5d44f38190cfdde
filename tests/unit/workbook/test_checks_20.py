"""The checks of notebook 20."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_20_1, check_20_2

SELECT = "SELECT ticker, sector FROM companies"


def asked(batch: Any, connection: Any) -> dict[str, str]:
    keys = batch["ticker"].unique().to_pylist()
    marks = ", ".join("?" * len(keys))
    return dict(connection.execute(f"{SELECT} WHERE ticker IN ({marks})", keys))


def with_sector(batch: Any, connection: Any) -> Any:
    tickers, sector_of = batch["ticker"].to_pylist(), asked(batch, connection)
    sectors = [sector_of.get(ticker) for ticker in tickers]
    known = [ticker in sector_of for ticker in tickers]
    batch = batch.append_column("sector", pa.array(sectors, pa.string()))
    return batch.append_column("known", pa.array(known, pa.bool_()))


looking_up = partial(changed, with_sector)


def asking(question: str) -> Any:
    return looking_up(("asked(batch, connection)", f"dict(connection.execute({question!r}))"))


def one_by_one(batch: Any, connection: Any) -> dict[str, str]:
    tickers = batch["ticker"].to_pylist()
    answers = [connection.execute(f"{SELECT} WHERE ticker = ?", [one]) for one in tickers]
    return dict(row for rows in answers for row in rows)


def pasted(batch: Any, connection: Any) -> dict[str, str]:
    keys = ", ".join(f"'{ticker}'" for ticker in batch["ticker"].to_pylist())
    return dict(connection.execute(f"{SELECT} WHERE ticker IN ({keys})"))


def only_known(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    return found.filter(found["known"])


NOT_NULL = "ticker in sector_of and sector_of[ticker] is not None for"
test_20_1 = tried(
    check_20_1,
    (with_sector, "✓ One question for a batch"),
    (asked, "must return a pyarrow.RecordBatch, yours is a dict"),
    (lambda batch, connection: 1 / 0, "raised ZeroDivisionError: division by zero."),
    (lambda batch, connection: batch, "ticker, price, sector, known are wanted"),
    (looking_up(("ticker in sector_of for", NOT_NULL)), "has LAMP, whose sector is null"),
    (looking_up((", pa.string()", "")), "must be string and bool, too, not null, bool"),
    (looking_up(("asked(", "one_by_one(")), "statements for two batches"),
    (asking(SELECT), "It read the whole table"),
    (asking(f"{SELECT} WHERE ticker IS NOT NULL"), "It read the whole table"),
    (looking_up((".get(ticker)", "[ticker]")), "raised KeyError: 'GONE'. Use `.get`"),
    (only_known, "5 rows came out of 6"),
    (looking_up(("asked(", "pasted(")), "Use `?` for each ticker"),
    (looking_up((".get(ticker)", ".get(ticker, '')")), "The sectors must be"),
)


def unpaid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    paid = {payment.order: payment.paid for payment in payments}
    return [
        order.id
        for order in orders
        if order.time + within < watermark
        and not (order.id in paid and order.time <= paid[order.id] <= order.time + within)
    ]


deciding = partial(changed, unpaid)


def at_once(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return [order.id for order in orders if order.id not in {p.order for p in payments}]


NOT_PAID = "and not (order.id in paid and order.time <= paid[order.id] <= order.time + within)"
test_20_2 = tried(
    check_20_2,
    (unpaid, "✓ Not a moment earlier"),
    (at_once, "may still come for each"),
    (deciding(("order.time + within < watermark", "order.time < watermark")), "may still come"),
    (deciding((NOT_PAID, "")), "Order 0 was paid."),
    (deciding((NOT_PAID, "and order.id not in paid")), "paid later than 10 seconds"),
    (deciding(("] <= order.time", "] < order.time")), "is within 10 seconds"),
    (deciding(("within < watermark", "within <= watermark")), "with the watermark *at* 11"),
    (deciding(("order.time <= paid", "paid")), "an earlier payment cannot belong"),
    (deciding(("order.time <= paid", "order.time < paid")), "in the same second as the order"),
    (lambda o, p, within, mark: unpaid(o, p, timedelta(seconds=10), mark), "3 seconds here"),
    (lambda orders, payments, within, watermark: orders[9], "raised IndexError"),
    (deciding(("order.id\n", "orders.index(order)\n")), "yours is [2, 3]"),
    (lambda orders, payments, within, watermark: None, "a list, not None. Is there a `return`?"),
)
