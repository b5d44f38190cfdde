"""Orders, their payments and deliveries, cut into batches; and the joins done by plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, TypeVar

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
ORDERS = "time TIMESTAMP, id INT, euros INT"
PAYMENTS = "paid TIMESTAMP, order INT"
DELIVERIES = "delivered TIMESTAMP, parcel INT"
SECOND = timedelta(seconds=1)


class Order(NamedTuple):
    time: datetime
    id: int
    euros: int


class Payment(NamedTuple):
    paid: datetime
    order: int


class Delivery(NamedTuple):
    delivered: datetime
    parcel: int


def orders(count: int) -> list[Order]:
    """One every second."""
    return [Order(START + n * SECOND, n, 10 + n * 7 % 90) for n in range(count)]


def payments(count: int) -> list[Payment]:
    """One per order, except every seventh: after 1 to 9 seconds, every fifth after 15 to 23."""
    paying = [n for n in range(count) if n % 7]
    waits = [1 + n * 5 % 9 + (14 if n % 5 == 0 else 0) for n in paying]
    return [Payment(START + (n + w) * SECOND, n) for n, w in zip(paying, waits, strict=True)]


def deliveries(count: int) -> list[Delivery]:
    """One per order, except every eleventh, 20 to 29 seconds after it."""
    sent = [n for n in range(count) if n % 11]
    return [Delivery(START + (n + 20 + n % 10) * SECOND, n) for n in sent]


Told = TypeVar("Told", Order, Payment, Delivery)


def in_batches(rows: Sequence[Told], seconds: int = 20) -> list[list[Told]]:
    """Cut the rows into batches of 20 seconds each."""
    batches: list[list[Told]] = []
    for row in sorted(rows):
        number = (row[0] - START) // (seconds * SECOND)
        batches += [[] for _ in range(len(batches), number + 1)]
        batches[number].append(row)
    return batches


def joined(
    rows: Iterable[Order], paid: Iterable[Payment], within: timedelta
) -> list[tuple[int, datetime | None]]:
    """Each order with its payment, from the order's time to `within` after it, or None."""
    when = {payment.order: payment.paid for payment in paid}
    return [
        (row.id, at if (at := when.get(row.id)) and row.time <= at <= row.time + within else None)
        for row in rows
    ]
