"""Orders and their payments: the join by plain Python, on cases done by hand."""

from __future__ import annotations

from tutorial_pkg.workbook.orders import SECOND, START, joined, orders, payments


def test_payments_within_a_time_after_it_and_never() -> None:
    found = dict(joined(orders(35), payments(35), within=10 * SECOND))
    assert found[1] == START + (1 + 6) * SECOND
    assert found[7] is None  # never paid
    assert found[5] is None  # too late
    assert dict(joined(orders(35), payments(35), within=60 * SECOND))[5] is not None
