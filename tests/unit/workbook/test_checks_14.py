"""The checks of notebook 14: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tutorial_pkg.workbook.checks import check_14_1, check_14_2

QUESTION = "SELECT ticker, sector FROM companies"


def asked(batch: Any, connection: Any) -> dict[str, str]:
    keys = pc.unique(batch["ticker"]).to_pylist()
    marks = ", ".join("?" * len(keys))
    return dict(connection.execute(f"{QUESTION} WHERE ticker IN ({marks})", keys))


def added(batch: Any, sectors: list[Any], name: str = "sector") -> Any:
    return batch.append_column(name, pa.array(sectors, pa.string()))


def with_sector(batch: Any, connection: Any) -> Any:
    known = asked(batch, connection)
    return added(batch, [known.get(ticker) for ticker in batch["ticker"].to_pylist()])


def one_by_one(batch: Any, connection: Any) -> Any:
    found = []
    for ticker in batch["ticker"].to_pylist():
        row = connection.execute(f"{QUESTION} WHERE ticker = ?", [ticker]).fetchone()
        found.append(row and row[1])
    return added(batch, found)


def whole_table(batch: Any, connection: Any) -> Any:
    known = dict(connection.execute(QUESTION))
    return added(batch, [known.get(ticker) for ticker in batch["ticker"].to_pylist()])


def strict(batch: Any, connection: Any) -> Any:
    known = asked(batch, connection)
    return added(batch, [known[ticker] for ticker in batch["ticker"].to_pylist()])


def only_known(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    return found.filter(pc.is_valid(found["sector"]))


def pasted(batch: Any, connection: Any) -> Any:
    keys = ", ".join(f"'{ticker}'" for ticker in batch["ticker"].to_pylist())
    return added(batch, list(connection.execute(f"{QUESTION} WHERE ticker IN ({keys})")))


def empty_for_unknown(batch: Any, connection: Any) -> Any:
    known = asked(batch, connection)
    return added(batch, [known.get(ticker, "") for ticker in batch["ticker"].to_pylist()])


def test_14_1_right() -> None:
    assert check_14_1(with_sector).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        ("SELECT", "A function is wanted"),
        (asked, "must return a pyarrow.RecordBatch, yours is a dict"),
        (lambda batch, connection: 1 / 0, "raised ZeroDivisionError: division by zero."),
        (lambda batch, connection: batch, "The columns must be ticker, price, sector"),
        (one_by_one, "5 statements for one batch"),
        (whole_table, "It read the whole table"),
        (strict, "raised KeyError: 'GONE'. Use `.get`"),
        (only_known, "4 rows came out of 5"),
        (pasted, "Use `?` for each ticker"),
        (empty_for_unknown, "The sectors must be"),
    ],
)
def test_14_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_14_1(answer)
    assert not verdict.passed
    assert hint in verdict.message


def unpaid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    when = {payment.order: payment.paid for payment in payments}
    return [
        order.id
        for order in orders
        if order.time + within < watermark
        and not (order.id in when and order.time <= when[order.id] <= order.time + within)
    ]


def at_once(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return [order.id for order in orders if order.id not in {p.order for p in payments}]


def behind_the_watermark(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return [order.id for order in orders if order.time < watermark]


def whenever_paid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    paid = {payment.order for payment in payments}
    return [o.id for o in orders if o.time + within < watermark and o.id not in paid]


def never_paid(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return [order.id for order in orders if order.time + within < watermark]


def strictly_within(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    when = {payment.order: payment.paid for payment in payments}
    return [
        o.id
        for o in orders
        if o.time + within < watermark and not (o.id in when and when[o.id] < o.time + within)
    ]


def at_the_watermark(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    later = watermark + timedelta(microseconds=1)
    return unpaid(orders, payments, within, later)


def paid_before(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    when = {payment.order: payment.paid for payment in payments}
    return [
        o.id
        for o in orders
        if o.time + within < watermark and not (o.id in when and when[o.id] <= o.time + within)
    ]


def test_14_2_right() -> None:
    assert check_14_2(unpaid).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        ([], "A function is wanted"),
        (at_once, "may still come for each"),
        (behind_the_watermark, "may still come for each"),
        (never_paid, "order 0 was paid."),
        (whenever_paid, "paid later than 10 seconds"),
        (strictly_within, "is within 10 seconds"),
        (at_the_watermark, "when the watermark is *at* 11"),
        (paid_before, "a payment before it is not its"),
        (lambda orders, payments, within, watermark: orders[9], "raised IndexError"),
    ],
)
def test_14_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_14_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
