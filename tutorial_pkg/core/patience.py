"""Waiting with a bound: before Spark is told that there is nothing, and for what is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

IDLE_AFTER = 1.0  # seconds without news
LONGEST = 0.2  # seconds that news of another source of the query may then wait
SHORT = 0.02  # and before that
_ASKED_AGAIN = 0.05  # Spark asks 10 ms after it heard that there is nothing, if it has no batch


class Patience:
    """Lets an idle source be asked five times a second instead of eighty.

    Spark asks again and again whether there is something, which takes a quarter of a core. So
    `wait` before the answer, and note what it was. It returns at once while Spark is busy between
    two questions: then another source of the query has rows, which must not wait for this one.
    And while there are news, unless the source is told when more come: whoever waits for that
    hears of it some 5 ms sooner than Spark's next question.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._news_at = self._answered_at = clock()

    def wait(self, for_news: Callable[[float], object] | None = None) -> None:
        """Return after a while, or as soon as `for_news(seconds)` does: at most that long."""
        now = self._clock()
        if now - self._answered_at >= _ASKED_AGAIN:
            return
        if now - self._news_at >= IDLE_AFTER:
            (for_news or self._sleep)(LONGEST)
        elif for_news:
            for_news(SHORT)

    def answer(self, is_news: bool) -> None:
        """Note that Spark is being told now whether there is something."""
        self._answered_at = self._clock()
        if is_news:
            self._news_at = self._answered_at


def patiently(
    work: Callable[[], Answer],
    may_pass: Callable[[Exception], bool],
    seconds: float,
    pause: float = 0.2,
) -> Answer:
    """What `work` returns; it is tried again, for so long, after errors that may pass.

    An error that will not pass is raised at once, and the last one when time is up.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except Exception as error:
            if not may_pass(error) or time.monotonic() >= deadline:
                raise
        time.sleep(pause)
