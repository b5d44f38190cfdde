"""How much of a stream one micro-batch takes: what the options say, and who gets how much."""

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
    """How many rows and bytes one batch may take; None is no limit."""

    rows: int | None = None
    size: int | None = None

    def share(self, sharers: int) -> Limits:
        """An equal part for each, at least 1 while there is something left."""
        return Limits(*(None if left is None else -(-left // sharers) for left in astuple(self)))

    def forbid(self, taken: Taken) -> bool:
        """Whether that is more than is allowed."""
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
    """How far a batch goes in each part of a source: a file, a log, a split.

    `waiting` says about how much each has. `take(part, limits)` looks how far one may go. Each gets
    an equal share; what one with little leaves is shared by the others.
    """
    positions = {}
    for place, part in enumerate(sorted(waiting, key=waiting.__getitem__)):
        taken = take(part, limits.share(len(waiting) - place))
        positions[part], limits = taken.position, limits.less(taken)
    return positions


def read_limit(options: OptionValues) -> ReadLimit:
    """That of `maxRowsPerTrigger`, or of `maxBytesPerTrigger`, or none.

    Spark hands back one limit only, so a source that has both options looks at them itself.
    """
    if options.maxRowsPerTrigger:
        return ReadMaxRows(options.maxRowsPerTrigger)
    if options.maxBytesPerTrigger:
        return ReadMaxBytes(options.maxBytesPerTrigger)
    return ReadAllAvailable()


def limits_of(options: OptionValues, limit: ReadLimit) -> Limits:
    """Those of a batch for which Spark gives this limit: none when it wants everything."""
    if isinstance(limit, ReadAllAvailable):
        return Limits()
    return Limits(options.maxRowsPerTrigger, options.maxBytesPerTrigger)
