"""Trades, their oracles and the totals of them, tried on cases done by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tutorial_pkg.workbook.trade_totals import expected, totals, trades_in
from tutorial_pkg.workbook.trades import (
    JITTER,
    LAG,
    OPENING,
    STEP,
    TICKERS,
    Trade,
    averages,
    counts,
    sessions,
    trade,
    trades,
    window_ends,
)

SECOND = timedelta(seconds=1)


def at(second: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + second * SECOND


def test_a_trade_is_a_function_of_its_number() -> None:
    assert trade(TICKERS, 1, 7) == trade(TICKERS, 1, 7) != trade(TICKERS, 0, 7)


def test_skew_within_a_stream_and_between_two() -> None:
    for exchange in (0, 1):
        times = [trade(TICKERS, exchange, number).time for number in range(500)]
        assert times != sorted(times)
        told = [OPENING + number * STEP for number in range(500)]
        delays = [clock - time for clock, time in zip(told, times, strict=True)]
        assert exchange * LAG <= min(delays) < max(delays) <= exchange * LAG + JITTER


def test_all_trades_until_a_time_and_no_others() -> None:
    until = OPENING + 10 * SECOND
    rows = list(trades(until))
    far = [trade(TICKERS, exchange, number) for exchange in (0, 1) for number in range(2000)]
    assert sorted(rows) == sorted(row for row in far if row.time < until)
    assert {row.ticker for row in rows} == set(TICKERS)


def test_the_ends_of_the_windows_that_hold_a_time() -> None:
    assert window_ends(at(25), 30 * SECOND, 10 * SECOND) == [at(30), at(40), at(50)]
    assert window_ends(at(30), 30 * SECOND, 10 * SECOND)[0] == at(40)
    assert window_ends(at(9.99), 10 * SECOND, 10 * SECOND) == [at(10)]


def test_counts() -> None:
    rows = [Trade(at(second), ticker, 1, 1) for second, ticker in ((1, "A"), (2, "A"), (11, "B"))]
    assert counts(rows, 10 * SECOND, 10 * SECOND) == {("A", at(10)): 2, ("B", at(20)): 1}


def test_averages() -> None:
    rows = [Trade(at(0), ticker, price, 9) for ticker, price in (("A", 100), ("B", 7), ("A", 250))]
    assert averages(rows) == {"A": (1.75, 2), "B": (0.07, 1)}


def test_sessions() -> None:
    times = [at(second) for second in (30, 0, 4, 9.5)]
    assert sessions(times, 5 * SECOND) == [
        (at(0), at(9), 2),
        (at(9.5), at(14.5), 1),
        (at(30), at(35), 1),
    ]
    assert sessions([], SECOND) == []


def test_a_pause_of_exactly_the_gap_does_not_end_a_session() -> None:
    times = [at(second) for second in (0, 10, 25)]
    assert sessions(times, 10 * SECOND) == [(at(0), at(20), 2), (at(25), at(35), 1)]


def test_the_newest_totals_count(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for number, count in ((9, 2), (10, 5)):
        rows = [{"ticker": "TREE", "trades": count, "shares": 9 * count}]
        (tmp_path / "out" / f"{number:06}.json").write_text(json.dumps(rows))
    assert totals(tmp_path) == {"TREE": (5, 45)}
    assert trades_in(tmp_path) == 5
    assert sum(trades for trades, _ in expected(30).values()) == 60
