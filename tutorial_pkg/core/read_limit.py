"""How much of a stream one micro-batch takes, and how the parts of a source share it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple, TypeVar

from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

Part = TypeVar("Part")


@dataclass(frozen=True)
class Limits:
    """How many rows and bytes one batch may take; None means no limit."""

    rows: int | None = None
    size: int | None = None

    def share(self, sharers: int) -> Limits:
        """Return an equal share, at least 1 while something remains."""
        return Limits(*(None if left is None else -(-left // sharers) for left in astuple(self)))

    def forbid(self, taken: Taken) -> bool:
        """Return whether that is more than the limits allow."""
        return (self.rows is not None and taken.rows > self.rows) or (
            self.size is not None and taken.size > self.size
        )

    def less(self, taken: Taken) -> Limits:
        return Limits(
            None if self.rows is None else max(0, self.rows - taken.rows),
            None if self.size is None else max(0, self.size - taken.size),
        )


class Taken(NamedTuple):
    """How far a batch goes in one part of a source, and how much that is."""

    position: Any
    rows: int = 0
    size: int = 0


def shared(
    waiting: Mapping[Part, int], limits: Limits, take: Callable[[Part, Limits], Taken]
) -> dict[Part, Any]:
    """Return how far a batch goes in each part of a source: a file, a log, a split.

    Parts get equal shares of what the smaller ones leave; `waiting` is about how much each has.
    """
    positions = {}
    for place, part in enumerate(sorted(waiting, key=waiting.__getitem__)):
        taken = take(part, limits.share(len(waiting) - place))
        positions[part], limits = taken.position, limits.less(taken)
    return positions


def read_limit(options: OptionValues) -> ReadLimit:
    """Return the limit of `maxRowsPerTrigger` or `maxBytesPerTrigger`, or none.

    Spark passes back only one limit, so a source with both options looks at them itself.
    """
    if options.maxRowsPerTrigger:
        return ReadMaxRows(options.maxRowsPerTrigger)
    if options.maxBytesPerTrigger:
        return ReadMaxBytes(options.maxBytesPerTrigger)
    return ReadAllAvailable()


def limits_of(options: OptionValues, limit: ReadLimit) -> Limits:
    """Return the limits of a batch; none when Spark asks for everything."""
    if isinstance(limit, ReadAllAvailable):
        return Limits()
    return Limits(options.maxRowsPerTrigger, options.maxBytesPerTrigger)
