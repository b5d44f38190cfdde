"""The check of notebook 19."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_19_1
from workbook.trade_totals import Totals


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


class LastInSelf(SharePrice):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        self.last = super().accumulate(accumulator, row)
        return self.last

    def finish(self, accumulator: Any) -> Any:
        return super().finish(self.last)


class SumInSelf(SharePrice):
    sums: Any = (0, 0)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        self.sums = super().accumulate(self.sums, row)
        return self.sums


class AllInSelf(SharePrice):
    paid = shares = 0

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        self.paid, self.shares = super().accumulate((self.paid, self.shares), row)
        return super().accumulate(accumulator, row)

    def finish(self, accumulator: Any) -> Any:
        return (self.paid / self.shares,)


class InFractions(SharePrice):
    def finish(self, accumulator: Any) -> Any:
        return (Fraction(*accumulator),)


class Mean:
    accumulator, result = "mean DOUBLE, shares LONG", "cents: double"

    @staticmethod
    def create() -> Any:
        return 0.0, 0

    @classmethod
    def accumulate(cls, accumulator: Any, row: Any) -> Any:
        return cls.combine(accumulator, (float(row.price), row.quantity))

    @staticmethod
    def combine(left: Any, right: Any, sign: int = 1) -> Any:
        shares = left[1] + sign * right[1]
        paid = left[0] * left[1] + sign * right[0] * right[1]
        return paid / shares if shares else 0.0, shares

    @classmethod
    def deduct(cls, left: Any, right: Any) -> Any:
        return cls.combine(left, right, -1)

    @staticmethod
    def finish(accumulator: Any) -> Any:
        return accumulator[:1]


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
    (price(("row.price", "row.amount")), "raised PySparkAttributeError"),
    (price((AVERAGE, "(round(accumulator[0] / accumulator[1], 2),)")), "do not round"),
    (price((TYPES, "cents, shares")), "a name and a type for each column"),
    (price((TYPES, "cents INT, shares INT")), "`LONG` or `DOUBLE`"),
    (price((TYPES, "paid: LONG, shares: LONG")), "a name of its own, and a space before its type"),
    (price((TYPES, "cents LONG, cents LONG")), "a name of its own"),
    (
        price((TYPES, "paid DOUBLE, shares LONG")),
        "`paid` is DOUBLE, and `create` gives 0, which Spark would lose",
    ),
    (
        price(("row.price *", "float(row.price) *")),
        "`paid` is LONG, and `accumulate` gives 2000.0, which Spark would lose",
    ),
    (price((AVERAGE, "(accumulator[0] / accumulator[1] / 100,)")), "in cents, not in euros"),
    (price((AVERAGE, "(round(accumulator[0] / accumulator[1]),)")), "(276,). Do not round"),
    (LastInSelf, "keep nothing in `self`"),
    (AllInSelf, "keep nothing in `self`"),
    (SumInSelf, "A law is broken"),
    (InFractions, "so a float is wanted, not Fraction(2995, 12)"),
    (price(("row.price * row.quantity", "row['price'] * row['quantity']")), "✓ All laws hold"),
    (Mean, "✓ All laws hold"),
    (price((TYPES, "paid bigint, shares bigint")), "✓ All laws hold"),
)
