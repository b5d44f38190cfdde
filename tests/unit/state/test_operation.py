"""The laws of an aggregate operation: one that keeps them passes, each breach is found by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tutorial_pkg.state import broken_law

ROWS = [SimpleNamespace(price=price) for price in (3, 1, 4, 1, 5)]


class Average:
    accumulator, result = "total DOUBLE, count LONG", "average DOUBLE"

    def create(self) -> Any:
        return 0.0, 0

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return accumulator[0] + row.price / 10, accumulator[1] + 1

    def combine(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] + right[1]

    def deduct(self, left: Any, right: Any) -> Any:
        return left[0] - right[0], left[1] - right[1]

    def finish(self, accumulator: Any) -> Any:
        return (accumulator[0] / accumulator[1],)


class NotNeutral(Average):
    def create(self) -> Any:
        return 1.0, 0


class NotCommutative(Average):
    def combine(self, left: Any, right: Any) -> Any:
        return left[0] + right[0] * (2 if left[1] else 1), left[1] + right[1]


class NotAssociative(Average):
    def combine(self, left: Any, right: Any) -> Any:
        total = left[0] + right[0] + (0.5 if left[1] + right[1] > 2 and left[1] * right[1] else 0)
        return total, left[1] + right[1]


class DoesNotUndo(Average):
    def deduct(self, left: Any, right: Any) -> Any:
        return left


class Highest(Average):
    """What was combined by taking the greater one, nobody can take out again."""

    accumulator = "highest DOUBLE"

    def create(self) -> Any:
        return (float("-inf"),)

    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return (max(accumulator[0], row.price),)

    def combine(self, left: Any, right: Any) -> Any:
        return (max(left[0], right[0]),)

    def deduct(self, left: Any, right: Any) -> Any:
        return left


class ForgetsOnAccumulate(Average):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return float(row.price), 1


class InPlace(Average):
    def accumulate(self, accumulator: Any, row: Any) -> Any:
        return [accumulator[0] + row.price, accumulator[1] + 1]


def test_kept() -> None:
    assert broken_law(Average(), ROWS) is None


@pytest.mark.parametrize(
    ("operation", "law"),
    [
        (NotNeutral(), "combine(a, create()) must be a"),
        (NotCommutative(), "combine must be commutative"),
        (NotAssociative(), "combine must be associative"),
        (DoesNotUndo(), "deduct must undo combine"),
        (Highest(), "deduct must undo combine"),
        (ForgetsOnAccumulate(), "accumulate(a, row) must be"),
        (InPlace(), "in place"),
    ],
)
def test_broken(operation: Any, law: str) -> None:
    found = broken_law(operation, ROWS)
    assert found is not None
    assert law in found
