"""Waiting for a condition, never for a time alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def wait_for(condition: Callable[[], Answer], seconds: float, every: float = 0.05) -> Answer:
    """Ask `condition()` until its answer is true, but for `seconds` at most; its last answer.

    It is asked at least once, and again every `every` seconds.
    """
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(every)
    return answer


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait for `condition()` to be true and return its value.

    Raises `TimeoutError` that says `what` did not happen.
    """
    if answer := wait_for(condition, seconds):
        return answer
    raise TimeoutError(f"{what} did not happen within {seconds:g} s")
