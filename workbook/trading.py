"""Endless trades, each a function of its number, so that plain Python can compute results.

An instance is a stock exchange. A trade arrives every `STEP`, up to `JITTER` after it happened
(skew within a stream). Exchange 1 reports its trades `LAG` later than exchange 0 (skew between).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

SCHEMA = "time TIMESTAMP, ticker STRING, price LONG, quantity LONG"
OPENING = datetime(2026, 3, 2, 14, 30, tzinfo=UTC)
STEP, JITTER, LAG = timedelta(milliseconds=20), timedelta(seconds=2), timedelta(seconds=3)
TICKERS = {"BREW": 12, "CODE": 45, "FISH": 3, "LAMP": 8, "ROAD": 27, "SALT": 5, "TREE": 19}
"""Made-up companies, and the price of each in euros."""


class Trade(NamedTuple):
    """A row of `SCHEMA`: `price` in cents."""

    time: datetime
    ticker: str
    price: int
    quantity: int


def trade(tickers: dict[str, int], exchange: int, number: int) -> Trade:
    """Return trade `number` of an exchange, the same on every call.

    `tickers` gives each company's price in euros; the first ones are traded most.
    """
    dice = random.Random(1_000_003 * exchange + number)
    time = OPENING + number * STEP - dice.random() * JITTER - exchange * LAG
    place = int(len(tickers) * dice.random() ** 2)
    ticker, euros = list(tickers.items())[place]
    return Trade(time, ticker, 100 * euros + dice.randint(-99, 99), dice.randint(1, 100))


def first_trades(number: int) -> list[Trade]:
    """Return the first trades, as the two exchanges report them in turn."""
    return [trade(TICKERS, n % 2, n // 2) for n in range(number)]


def trades(
    until: datetime, exchanges: int = 2, tickers: dict[str, int] | None = None
) -> Iterator[Trade]:
    """All trades that happened before `until`."""
    last = (until - OPENING + JITTER + exchanges * LAG) // STEP + 1
    for exchange in range(exchanges):
        told = (trade(tickers or TICKERS, exchange, number) for number in range(last))
        yield from (one for one in told if one.time < until)


# ---- Oracles: what must come out -----------------------------------------------------------------


def window_ends(time: datetime, window: timedelta, slide: timedelta) -> list[datetime]:
    """The ends of all sliding windows that hold `time`; they begin at multiples of `slide`."""
    epoch = datetime.fromtimestamp(0, UTC)
    first = time - (time - epoch) % slide + slide
    return [first + n * slide for n in range(window // slide)]


def counts(
    rows: Iterable[Trade], window: timedelta, slide: timedelta
) -> Counter[tuple[str, datetime]]:
    """How many trades of each ticker are in each window, by its end."""
    return Counter(
        (row.ticker, end) for row in rows for end in window_ends(row.time, window, slide)
    )


def sessions(times: Iterable[datetime], gap: timedelta) -> list[tuple[datetime, datetime, int]]:
    """Begin, end (the last event and the gap) and size of each session, in order of time.

    A pause as long as the gap does not end one: as in Spark, windows that touch become one.
    """
    found: list[tuple[datetime, datetime, int]] = []
    for time in sorted(times):
        if found and time <= found[-1][1]:
            begin, _, size = found.pop()
            found.append((begin, time + gap, size + 1))
        else:
            found.append((time, time + gap, 1))
    return found
