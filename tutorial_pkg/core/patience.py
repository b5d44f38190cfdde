"""How long a source may think before it tells Spark that there is nothing new."""

from __future__ import annotations

import time
from collections.abc import Callable

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
        """Return after a while, or as soon as `for_news(seconds)` does, which waits at most so."""
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
