"""The laws of an aggregate operation, kept and broken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tutorial_pkg.state import broken_law

ROWS = [SimpleNamespace(quantity=quantity) for quantity in (3, 1, 4, 1, 5)]


class Totals:
    """The trades of a ticker, and the shares that changed hands in them."""

    accumulator = result = "trades LONG, shares LONG"

    def create(self) -> Any:
        return 0, 0

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + row.quantity

    def combine(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] + right[1]

    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, accumulator: Any) -> Any:
        return accumulator


class Tenths(Totals):
    """Sums that are not exact in floating point, so laws hold almost."""

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + row.quantity / 10


class NotNeutral(Totals):
    def create(self) -> Any:
        return 1, 0


class NotCommutative(Totals):
    def combine(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] + right[1] * (2 if left[0] else 1)


class NotAssociative(Totals):
    def combine(self, left: Any, right: Any) -> Any:
        trades = left[0] + right[0]
        return trades, left[1] + right[1] + (1 if trades > 2 and left[0] * right[0] else 0)


class DoesNotUndo(Totals):
    def deduct(self, left: Any, right: Any) -> Any:
        return left


class ForgetsOnAccumulate(Totals):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return 1, row.quantity


class InPlace(Totals):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return [accumulator[0] + 1, accumulator[1] + row.quantity]


class WithoutDeduct:
    """A maximum, from which no value can be deducted."""

    def create(self) -> Any:
        return (0,)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return (max(accumulator[0], row.quantity),)

    def combine(self, left: Any, right: Any) -> Any:
        return (max(left[0], right[0]),)


@pytest.mark.parametrize("operation", [Totals(), Tenths()])
def test_laws_hold(operation: Any) -> None:
    assert broken_law(operation, ROWS) is None


@pytest.mark.parametrize(
    ("operation", "law"),
    [
        (NotNeutral(), "combine(a, create()) must be a"),
        (NotCommutative(), "combine must be commutative"),
        (NotAssociative(), "combine must be associative"),
        (DoesNotUndo(), "deduct must undo combine"),
        (WithoutDeduct(), "there is no deduct"),
        (ForgetsOnAccumulate(), "accumulate(a, row) must equal"),
        (InPlace(), "in place"),
    ],
)
def test_broken_law_is_named(operation: Any, law: str) -> None:
    assert law in (broken_law(operation, ROWS) or "")
