"""An aggregate operation: five small functions that make up any aggregation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, Protocol

Accumulator = tuple[Any, ...]


class AggregateOperation(Protocol):
    """An aggregation, for windows, partial sums and rolling totals alike.

        class Average:
            accumulator = "total LONG, count LONG"
            result = "average DOUBLE"

            def create(self):
                return 0, 0

            def accumulate(self, accumulator, row):
                return accumulator[0] + row.price, accumulator[1] + 1

            def combine(self, left, right):
                return left[0] + right[0], left[1] + right[1]

            def deduct(self, left, right):
                return left[0] - right[0], left[1] - right[1]

            def finish(self, accumulator):
                return (accumulator[0] / accumulator[1],)

    Write a plain class; it need not inherit from this one. An accumulator is a tuple, as in Spark's
    state, and no function may change one in place. `broken_law` tests whether the functions fit
    together. The idea and the names come from Hazelcast Jet's `AggregateOperation`.
    """

    accumulator: str
    """The schema of an accumulator, as in `"total LONG, count LONG"`."""

    result: str
    """The schema of a result."""

    def create(self) -> Accumulator:
        """Return the accumulator of no rows."""
        ...

    def accumulate(self, accumulator: Accumulator, row: Any, /) -> Accumulator:
        """Return the accumulator with one more row."""
        ...

    def combine(self, left: Accumulator, right: Accumulator, /) -> Accumulator:
        """Return the accumulator of the rows in both."""
        ...

    def deduct(self, left: Accumulator, right: Accumulator, /) -> Accumulator:
        """Return `left` without `right`: undo `combine(..., right)`."""
        ...

    def finish(self, accumulator: Accumulator, /) -> tuple[Any, ...]:
        """Return the result, a tuple of the result's schema."""
        ...


def broken_law(operation: AggregateOperation, rows: Sequence[Any]) -> str | None:
    """Return the first law that `operation` breaks on these `rows`, as a sentence, or None.

    Five laws: `create` is neutral, `combine` is commutative and associative, accumulating a row
    equals combining with the accumulator of that row alone, and `deduct` undoes `combine`. Pass
    three to six different rows. Almost equal numbers count as equal. An operation without `deduct`
    breaks the last law: it can roll, but not slide.
    """
    nothing = operation.create()
    samples = [nothing, *(operation.accumulate(nothing, row) for row in rows)]
    for row in rows:
        samples.append(operation.accumulate(samples[-1], row))
    for sample in samples:
        if not isinstance(sample, tuple):
            return f"an accumulator must be a tuple, which cannot change in place, got {sample!r}"
    for law in (_neutral, _commutative, _associative, _undone):
        if text := law(operation, samples):
            return text
    return _accumulates(operation, samples, rows)


def _neutral(operation: AggregateOperation, samples: list[Accumulator]) -> str | None:
    nothing = operation.create()
    for one in samples:
        if not _same(operation.combine(one, nothing), one):
            return f"combine(a, create()) must be a: {one} became {operation.combine(one, nothing)}"
    return None


def _commutative(operation: AggregateOperation, samples: list[Accumulator]) -> str | None:
    for one, two in product(samples, repeat=2):
        if not _same(operation.combine(one, two), operation.combine(two, one)):
            return f"combine must be commutative: try {one} and {two}, both ways round"
    return None


def _associative(operation: AggregateOperation, samples: list[Accumulator]) -> str | None:
    combine = operation.combine
    for one, two, three in product(samples, repeat=3):
        if not _same(combine(combine(one, two), three), combine(one, combine(two, three))):
            return f"combine must be associative: try {one}, {two} and {three}"
    return None


def _undone(operation: AggregateOperation, samples: list[Accumulator]) -> str | None:
    if not hasattr(operation, "deduct"):
        return "there is no deduct, which must undo combine: it can roll, but it cannot slide"
    for one, two in product(samples, repeat=2):
        back = operation.deduct(operation.combine(one, two), two)
        if not _same(back, one):
            return f"deduct must undo combine: {one}, combined with {two} and deducted, is {back}"
    return None


def _accumulates(
    operation: AggregateOperation, samples: list[Accumulator], rows: Sequence[Any]
) -> str | None:
    for one, row in product(samples, rows):
        alone = operation.accumulate(operation.create(), row)
        if not _same(operation.accumulate(one, row), operation.combine(one, alone)):
            return (
                "accumulate(a, row) must equal combine(a, accumulate(create(), row)), but not for "
                f"a = {one}"
            )
    return None


def _same(one: Accumulator, two: Accumulator) -> bool:
    return len(one) == len(two) and all(map(_equal, one, two))


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, float) or isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == two)
