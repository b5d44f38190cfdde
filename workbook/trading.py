"""Made-up trades of two exchanges, always the same, so that plain Python can compute results.

Each exchange reports a trade every `STEP`, up to `JITTER` after it was made. Exchange 1 reports its
trades another `LAG` later.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SCHEMA = "time TIMESTAMP, ticker STRING, price LONG, quantity LONG"
OPENING = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
STEP, JITTER, LAG = timedelta(milliseconds=20), timedelta(seconds=2), timedelta(seconds=3)
TICKERS = {"BREW": 12, "CODE": 45, "FISH": 3, "LAMP": 8, "ROAD": 27, "SALT": 5, "TREE": 19}
"""Made-up companies, and the price of each in euros. The first ones are traded most."""


class Trade(NamedTuple):
    """A row of `SCHEMA`: `price` in cents."""

    time: datetime
    ticker: str
    price: int
    quantity: int


def trade(exchange: int, number: int) -> Trade:
    """Return trade `number` of an exchange, the same on every call."""
    dice = random.Random(1_000_003 * exchange + number)
    time = OPENING + number * STEP - dice.random() * JITTER - exchange * LAG
    ticker, euros = list(TICKERS.items())[int(len(TICKERS) * dice.random() ** 2)]
    return Trade(time, ticker, 100 * euros + dice.randint(-99, 99), dice.randint(1, 100))


def first_trades(number: int) -> list[Trade]:
    """Return the first trades, as the two exchanges report them in turn."""
    return [trade(n % 2, n // 2) for n in range(number)]
