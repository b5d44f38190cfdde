"""Sliding windows without Spark: the processor's frames and timers."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from tests.unit.state.test_operation import Totals
from tutorial_pkg.state.aggregates import Sliding, sliding


class Handle:
    """Spark's state of one key, in memory."""

    def __init__(self) -> None:
        self.timers: set[int] = set()
        self.listTimers = lambda: self.timers
        self.registerTimer = self.timers.add

    def getMapState(self, *_: Any) -> Any:
        frames: dict[Any, Any] = {}
        return SimpleNamespace(
            getValue=frames.get, updateValue=frames.__setitem__, removeKey=frames.__delitem__
        )

    def getValueState(self, *_: Any) -> Any:
        values: list[Any] = [None]
        update: Callable[[Any], None] = lambda value: values.__setitem__(0, value)  # noqa: E731
        return SimpleNamespace(
            get=lambda: values[0], update=update, clear=lambda: values.__setitem__(0, None)
        )


def windows(values: list[float]) -> list[float]:
    """Return sums of three seconds; there is one value per second."""
    second, handle = timedelta(seconds=1), Handle()
    sliding = Sliding(Totals(), ["key", "end", "trades", "shares"], "time", 3 * second, second)
    sliding.init(handle)  # type: ignore[arg-type]
    times = [datetime.fromtimestamp(0, UTC) + second * place for place in range(len(values))]
    rows = [Row(time=time, quantity=value) for time, value in zip(times, values, strict=True)]
    list(sliding.handleInputRows(("k",), iter(rows), None))
    expired = (SimpleNamespace(getExpiryTimeInMs=lambda at=at: at) for at in sorted(handle.timers))
    return [row.shares for at in expired for row in sliding.handleExpiredTimer(("k",), None, at)]


@pytest.mark.parametrize(
    "odd", [(math.nan, 4), (math.inf, 4), (-math.inf, 4), (math.inf, -math.inf)]
)
def test_nan_leaves_with_its_frame(odd: tuple[float, float]) -> None:
    found, expected = windows([1, 2, *odd, 5, 6, 7]), windows([1, 2, 0, 0, 5, 6, 7])
    assert not any(map(math.isfinite, found[3:5]))
    assert found[:2] == expected[:2]
    assert found[-3:] == expected[-3:] == [18, 13, 7]


def test_sliding_needs_deduct() -> None:
    highest: Any = SimpleNamespace(accumulator="value DOUBLE", result="value DOUBLE")
    rows: Any = None
    second = timedelta(seconds=1)
    with pytest.raises(ValueError, match="`deduct`"):
        sliding(rows, "key", highest, "time", 30 * second, 10 * second)
