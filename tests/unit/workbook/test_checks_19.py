"""The check of notebook 19."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.unit.workbook.answers import changed, tried
from tutorial_pkg.workbook.checks import check_19_1
from tutorial_pkg.workbook.trade_totals import Totals


class SharePrice(Totals):
    accumulator, result = "paid LONG, shares LONG", "cents DOUBLE"

    def create(self) -> Any:
        return 0, 0

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.price * row.quantity, accumulator[1] + row.quantity

    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0] / accumulator[1],)


price = partial(changed, SharePrice)


class NoDeduct:
    accumulator, result = "a LONG", "b LONG"
    create = accumulate = combine = finish = SharePrice.create


class AveragesOfAverages(SharePrice):
    accumulator = "average DOUBLE"

    def create(self) -> Any:
        return (0.0,)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return ((accumulator[0] + row.price) / 2,)

    def combine(self, left: Any, right: Any) -> Any:
        return ((left[0] + right[0]) / 2,)


AVERAGE, TYPES = "(accumulator[0] / accumulator[1],)", "paid LONG, shares LONG"
test_19_1 = tried(
    check_19_1,
    (SharePrice, "✓ All laws hold"),
    (NoDeduct, "has no `deduct`"),
    (price(("cents DOUBLE", "price DOUBLE")), "must be 'cents DOUBLE', yours is 'price DOUBLE'"),
    (
        price((" * row.quantity", ""), ("accumulator[1] + row.quantity", "accumulator[1] + 1")),
        "the average of the *trades*",
    ),
    (price(("[0] / accumulator[1]", "[0] // accumulator[1]")), "divide with `/`"),
    (price((AVERAGE, "(accumulator[0],)")), "yours returned (11030,). What was paid in all"),
    (price(("left[1] - right[1]", "left[1]")), "deduct must undo combine"),
    (AveragesOfAverages, "combine(a, create()) must be a"),
    (price(("return 0, 0", "return [0, 0]")), "must return a tuple"),
    (price((TYPES, "paid LONG")), "names 1 column(s), `create` returns 2"),
    (
        price((AVERAGE, "accumulator[0] / accumulator[1]")),
        "must return (275.75,), yours returned 275.75. It must be a tuple even for one",
    ),
    (price((AVERAGE, "accumulator")), "names one column, so one value is wanted, not 2"),
    (price(("row.price", "row.amount")), "raised AttributeError"),
    (price((AVERAGE, "(round(accumulator[0] / accumulator[1], 2),)")), "do not round"),
    (price((TYPES, "cents, shares")), "a name and a type for each column"),
    (price((TYPES, "cents INT, shares INT")), "`LONG` or `DOUBLE`"),
)
