"""Orders and their payments: the join by plain Python, on cases done by hand."""

from __future__ import annotations

from tutorial_pkg.workbook.orders import (
    SECOND,
    START,
    Delivery,
    Payment,
    deliveries,
    in_batches,
    joined,
    orders,
    payments,
)


def test_payments_within_a_time_after_it_and_never() -> None:
    found = dict(joined(orders(35), payments(35), within=10 * SECOND))
    assert found[1] == START + (1 + 6) * SECOND
    assert found[7] is None  # never paid
    assert found[5] is None  # too late
    assert dict(joined(orders(35), payments(35), within=60 * SECOND))[5] is not None


def test_a_payment_before_its_order_is_not_its() -> None:
    order = orders(6)[5]
    for early, at in ((SECOND, None), (0 * SECOND, order.time)):
        payment = Payment(order.time - early, order.id)
        assert joined([order], [payment], within=10 * SECOND) == [(order.id, at)]


def test_batches_by_the_clock() -> None:
    first, second, last = (START + at * SECOND for at in (19, 20, 41))
    told = [Delivery(last, 2), Delivery(first, 1)]
    assert in_batches(told) == [[told[1]], [], [told[0]]]
    assert in_batches([Delivery(second, 3)]) == [[], [Delivery(second, 3)]]
    for rows in (orders(60), payments(60), deliveries(60)):
        assert sorted(row for batch in in_batches(rows) for row in batch) == sorted(rows)
