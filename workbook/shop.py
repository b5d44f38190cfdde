"""A shop's orders, payments and deliveries: as lists, and as files that a stream can read."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from workbook.batches import post

ORDERS = 200
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
SECOND, PER_FILE = timedelta(seconds=1), timedelta(seconds=40)

Order = namedtuple("Order", "time id")
Payment = namedtuple("Payment", "paid order")
Delivery = namedtuple("Delivery", "delivered parcel")


class Shop(NamedTuple):
    orders: list[Any]
    payments: list[Any]
    deliveries: list[Any]

    def waits(self, seconds: int) -> list[tuple[int, int]]:
        """Return each paid order's second and its wait in seconds, for the first orders."""
        when = {payment.order: payment.paid for payment in self.payments}
        early = [order for order in self.orders if order.time < START + seconds * SECOND]
        paid = [(order, when[order.id] - order.time) for order in early if order.id in when]
        return [((order.time - START) // SECOND, wait // SECOND) for order, wait in paid]


def open_shop(folder: Path) -> Shop:
    """Write `orders`, `payments` and `deliveries` below `folder`, a file for each 40 seconds.

    There is an order per second. Every seventh isn't paid; the others are after 1 to 9 seconds,
    every fifth after 15 to 23. Every eleventh isn't delivered; the others are after 20 to 29.
    """
    numbers = range(ORDERS)
    orders = [Order(_at(n), n) for n in numbers]
    payments = [Payment(_at(n + 1 + n * 5 % 9 + 14 * (n % 5 == 0)), n) for n in numbers if n % 7]
    deliveries = [Delivery(_at(n + 20 + n % 10), n) for n in numbers if n % 11]
    shop = Shop(orders, payments, deliveries)
    for name, rows in shop._asdict().items():
        post(folder / name, _in_files(rows))
    return shop


def _at(second: int) -> datetime:
    return START + second * SECOND


def _in_files(rows: Sequence[Any]) -> list[list[Any]]:
    files: list[list[Any]] = [[] for _ in range((max(rows)[0] - START) // PER_FILE + 1)]
    for row in sorted(rows):
        files[(row[0] - START) // PER_FILE].append(row)
    return files
