"""An aggregate operation: five small functions that make up any aggregation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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

    def accumulate(self, accumulator: Accumulator, row: Any, /) -> Accumulator:
        """Return the accumulator with one more row."""

    def combine(self, left: Accumulator, right: Accumulator, /) -> Accumulator:
        """Return the accumulator of the rows in both."""

    def deduct(self, left: Accumulator, right: Accumulator, /) -> Accumulator:
        """Return `left` without `right`: undo `combine(..., right)`."""

    def finish(self, accumulator: Accumulator, /) -> tuple[Any, ...]:
        """Return the result, a tuple of the result's schema."""


def broken_law(operation: AggregateOperation, rows: Sequence[Any]) -> str | None:
    """Return the first law that `operation` breaks on these `rows`, as a sentence, or None.

    Five laws: `create` is neutral, `combine` is commutative and associative, accumulating a row
    equals combining with the accumulator of that row alone, and `deduct` undoes `combine`. Pass
    three to six different rows. Almost equal numbers count as equal. An operation without `deduct`
    breaks the last law: it can roll, but not slide.
    """
    samples = [operation.create()]
    samples += [operation.accumulate(samples[0], row) for row in rows]
    for row in rows:
        samples.append(operation.accumulate(samples[-1], row))
    for sample in samples:
        if not isinstance(sample, tuple):
            return f"an accumulator must be a tuple, which cannot change in place, got {sample!r}"
    for law, case, left, right in _cases(operation, samples, rows):
        if not _same(left, right):
            return f"{law}. With {case} it is {left}; expected {right}"
    if hasattr(operation, "deduct"):
        return None
    return "there is no deduct, which must undo combine: it can roll, but it cannot slide"


def _cases(
    operation: AggregateOperation, samples: Sequence[Accumulator], rows: Sequence[Any]
) -> Iterator[tuple[str, str, Accumulator, Accumulator]]:
    """Yield each law with a case to try, and the two accumulators that must be equal in it."""
    nothing, accumulate, combine = samples[0], operation.accumulate, operation.combine
    for a in samples:
        yield "combine(a, create()) must be a", f"a = {a}", combine(a, nothing), a
    pairs = list(product(samples, repeat=2))
    for a, b in pairs:
        law = "combine must be commutative: combine(a, b) must equal combine(b, a)"
        yield law, f"a = {a}, b = {b}", combine(a, b), combine(b, a)
    for a, b, c in product(samples, repeat=3):
        law = "combine must be associative: it must be the same for (a, b), c and for a, (b, c)"
        case = f"a = {a}, b = {b}, c = {c}"
        yield law, case, combine(combine(a, b), c), combine(a, combine(b, c))
    for a, row in product(samples, rows):
        law = "accumulate(a, row) must equal combine(a, accumulate(create(), row))"
        case = f"a = {a}, row = {row}"
        yield law, case, accumulate(a, row), combine(a, accumulate(nothing, row))
    if hasattr(operation, "deduct"):
        for a, b in pairs:
            law = "deduct must undo combine: deduct(combine(a, b), b) must be a"
            yield law, f"a = {a}, b = {b}", operation.deduct(combine(a, b), b), a


def _same(left: Accumulator, right: Accumulator) -> bool:
    return len(left) == len(right) and all(map(_equal, left, right))


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, float) or isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == two)
