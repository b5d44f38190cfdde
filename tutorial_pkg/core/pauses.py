"""Waiting with a bound: before Spark hears that there is nothing, and for what is unavailable."""

from __future__ import annotations

import random
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
    It also returns at once while there is news, unless the source is notified when more comes:
    waiting for that is some 5 ms faster than Spark's next question.
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
        """Record whether Spark is now hearing that there is something."""
        self._answered_at = self._clock()
        if is_news:
            self._news_at = self._answered_at


LONGER = 10  # times the first pause: the longest one


class Tries:
    """How long, and after which pauses, one work is tried again after errors that may pass.

    The pauses double up to ten times the first. Each is cut short by chance, by up to a half, so
    that those who failed together do not come back together. The last try is when time is up.
    """

    def __init__(
        self,
        may_pass: Callable[[Exception], bool],
        seconds: float,
        pause: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        out_of_time: Callable[[Exception], Exception] = lambda error: error,
    ) -> None:
        self._may_pass, self._clock, self._chance = may_pass, clock, chance
        self._out_of_time = out_of_time
        self._until = clock() + seconds
        self._pause, self._longest = pause, LONGER * pause

    def pause_after(self, error: Exception) -> float:
        """Return the seconds until the next try.

        Raises `error` if it will not pass, and `out_of_time(error)` when time is up.
        """
        left = self._until - self._clock()
        if not self._may_pass(error):
            raise error
        if left <= 0:
            raise self._out_of_time(error)
        pause, self._pause = self._pause, min(2 * self._pause, self._longest)
        return min(left, pause * (1 - self._chance() / 2))


def patiently(
    work: Callable[[], Answer],
    may_pass: Callable[[Exception], bool],
    seconds: float,
    pause: float = 0.2,
    between: Callable[[Exception], object] = lambda error: None,
) -> Answer:
    """What `work` returns; it is tried again, for so long, after errors that may pass.

    An error that will not pass is raised at once, and the last one when time is up. `between` is
    called with each of the others. For the pauses see `Tries`.
    """
    tries = Tries(may_pass, seconds, pause)
    while True:
        try:
            return work()
        except Exception as error:
            rest = tries.pause_after(error)
            between(error)
        time.sleep(rest)
