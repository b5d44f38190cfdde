"""Waiting for a condition, never for a time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def wait_for(condition: Callable[[], Result], seconds: float, every: float = 0.05) -> Result:
    """Return the last result of `condition()`, called until it is true, for at most `seconds`."""
    end = time.monotonic() + seconds
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(every)
    return result


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return the true value of `condition()`. Raises `TimeoutError`: "`what` did not happen"."""
    if result := wait_for(condition, seconds):
        return result
    raise TimeoutError(f"{what} did not happen within {seconds:g} s")
