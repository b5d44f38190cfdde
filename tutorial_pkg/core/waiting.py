"""Waiting for a condition, pauses between retries, and pauses of an idle source."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")

IDLE_AFTER = 1.0  # seconds without news
LONGEST = 0.2  # seconds that news of another source of the query may then wait
SHORT = 0.02  # and before that
_ASKED_AGAIN = 0.05  # Spark asks again 10 ms after it heard that there is nothing


def wait_for(condition: Callable[[], Answer], seconds: float, every: float = 0.05) -> Answer:
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


class Patience:
    """Limits Spark to five questions a second to an idle source; eighty take a quarter of a core.

    `wait`, called before each answer, returns at once if Spark was busy between two questions: then
    another source of the query has rows, which must not wait for this one.
    """

    def __init__(self) -> None:
        self._news_at = self._answered_at = time.monotonic()

    def wait(self, for_news: Callable[[float], object] | None = None) -> None:
        """Return after a while, or as soon as `for_news(seconds)` does."""
        now = time.monotonic()
        if now - self._answered_at >= _ASKED_AGAIN:
            return
        if now - self._news_at >= IDLE_AFTER:
            (for_news or time.sleep)(LONGEST)
        elif for_news:  # notices news 5 ms earlier than Spark's next question
            for_news(SHORT)

    def answer(self, is_news: bool) -> None:
        self._answered_at = time.monotonic()
        if is_news:
            self._news_at = self._answered_at


class Tries:
    """The pauses after transient errors, for at most `seconds`.

    They double up to ten times the first. Each is shortened at random, by up to a half, so that
    tasks that failed together don't retry together. The last try is when time is up.
    """

    def __init__(
        self,
        may_pass: Callable[[Exception], bool],
        seconds: float,
        pause: float = 0.2,
        out_of_time: Callable[[Exception], Exception] = lambda error: error,
    ) -> None:
        self._may_pass, self._out_of_time = may_pass, out_of_time
        self._until = time.monotonic() + seconds
        self._pause, self._longest = pause, 10 * pause

    def pause_after(self, error: Exception) -> float:
        """Return the seconds until the next try. Raises a lasting error, or when time is up."""
        left = self._until - time.monotonic()
        if not self._may_pass(error):
            raise error
        if left <= 0:
            raise self._out_of_time(error)
        pause, self._pause = self._pause, min(2 * self._pause, self._longest)
        return min(left, pause * (1 - random.random() / 2))

    def patiently(
        self,
        work: Callable[[], Answer],
        between: Callable[[Exception], object] = lambda error: None,
    ) -> Answer:
        """Return what `work` returns; call `between(error)` and retry it after transient errors."""
        while True:
            try:
                return work()
            except Exception as error:
                rest = self.pause_after(error)
                between(error)
            time.sleep(rest)
