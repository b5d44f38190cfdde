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


def added(batch: Any, sectors: list[Any], known: Any = None) -> Any:
    """`known` is where there is a sector, unless told."""
    known = [sector is not None for sector in sectors] if known is None else known
    found = batch.append_column("sector", pa.array(sectors, pa.string()))
    return found.append_column("known", pa.array(known, pa.bool_()))


def in_table(batch: Any, sector_of: dict[str, str], missing: Any = None) -> Any:
    tickers = batch["ticker"].to_pylist()
    sectors = [sector_of.get(ticker, missing) for ticker in tickers]
    return added(batch, sectors, [ticker in sector_of for ticker in tickers])


def with_sector(batch: Any, connection: Any) -> Any:
    return in_table(batch, asked(batch, connection))


def by_sector_alone(batch: Any, connection: Any) -> Any:
    known = asked(batch, connection)
    return added(batch, [known.get(ticker) for ticker in batch["ticker"].to_pylist()])


def untyped(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    arrays = [pa.array(column.to_pylist()) for column in found.columns]
    return pa.RecordBatch.from_arrays(arrays, names=found.schema.names)


def one_by_one(batch: Any, connection: Any) -> Any:
    found = {}
    for ticker in batch["ticker"].to_pylist():
        found.update(connection.execute(f"{QUESTION} WHERE ticker = ?", [ticker]).fetchall())
    return in_table(batch, found)


def whole_table(batch: Any, connection: Any) -> Any:
    return in_table(batch, dict(connection.execute(QUESTION)))


def whole_table_in_disguise(batch: Any, connection: Any) -> Any:
    return in_table(batch, dict(connection.execute(f"{QUESTION} WHERE ticker IS NOT NULL")))


def strict(batch: Any, connection: Any) -> Any:
    known = asked(batch, connection)
    return added(batch, [known[ticker] for ticker in batch["ticker"].to_pylist()])


def only_known(batch: Any, connection: Any) -> Any:
    found = with_sector(batch, connection)
    return found.filter(found["known"])


def pasted(batch: Any, connection: Any) -> Any:
    keys = ", ".join(f"'{ticker}'" for ticker in batch["ticker"].to_pylist())
    return added(batch, list(connection.execute(f"{QUESTION} WHERE ticker IN ({keys})")))


def empty_for_unknown(batch: Any, connection: Any) -> Any:
    return in_table(batch, asked(batch, connection), missing="")


def test_14_1_right() -> None:
    assert check_14_1(with_sector).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        ("SELECT", "A function is wanted"),
        (asked, "must return a pyarrow.RecordBatch, yours is a dict"),
        (lambda batch, connection: 1 / 0, "raised ZeroDivisionError: division by zero."),
        (lambda batch, connection: batch, "The columns must be ticker, price, sector, known"),
        (by_sector_alone, "the table has LAMP, whose sector is null"),
        (untyped, "the types must be string and bool all the same, yours are null, bool"),
        (one_by_one, "statements for two batches"),
        (whole_table, "It read the whole table"),
        (whole_table_in_disguise, "It read the whole table"),
        (strict, "raised KeyError: 'GONE'. Use `.get`"),
        (only_known, "5 rows came out of 6"),
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


def after(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    times = {order.id: order.time for order in orders}
    later = [payment for payment in payments if payment.paid > times[payment.order]]
    return unpaid(orders, later, within, watermark)


def ten_seconds(orders: Any, payments: Any, within: Any, watermark: Any) -> list[int]:
    return unpaid(orders, payments, timedelta(seconds=10), watermark)


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
        (after, "in the very second of the order"),
        (ten_seconds, "`within` is 3 seconds here"),
        (lambda orders, payments, within, watermark: orders[9], "raised IndexError"),
    ],
)
def test_14_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_14_2(answer)
    assert not verdict.passed
    assert hint in verdict.message
