"""When a source may wait before it says that there is nothing, and when it must not."""

from __future__ import annotations

import pytest

from tutorial_pkg.core.pauses import IDLE_AFTER, LONGEST, SHORT, Patience, Tries


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def polled(seconds: float, clock: Clock, patience: Patience) -> int:
    """As Spark asks a source that has nothing, for some seconds: how often."""
    end, asked = clock.now + seconds, 0
    while clock.now < end:
        patience.wait()
        patience.answer(False)
        clock.now += 0.01
        asked += 1
    return asked


def test_a_source_without_news_is_asked_five_times_a_second() -> None:
    clock = Clock()
    patience = Patience(clock, clock.sleep)
    assert polled(IDLE_AFTER, clock, patience) >= 99
    assert polled(10, clock, patience) <= 10 / LONGEST


def test_news_end_the_waiting_at_once() -> None:
    clock = Clock()
    patience = Patience(clock, clock.sleep)
    polled(IDLE_AFTER, clock, patience)
    before = clock.now
    patience.wait(lambda seconds: clock.sleep(seconds / 4))
    assert clock.now == before + LONGEST / 4
    patience.answer(True)
    assert polled(IDLE_AFTER, clock, patience) >= 99, "busy a moment ago: no waiting"


def test_nobody_waits_while_another_source_of_the_query_has_rows() -> None:
    clock = Clock()
    patience = Patience(clock, clock.sleep)
    polled(2 * IDLE_AFTER, clock, patience)
    clock.now += 0.1  # a batch
    before = clock.now
    patience.wait()
    assert clock.now == before


def test_a_source_that_is_told_of_news_waits_for_them_also_right_after_some() -> None:
    clock = Clock()
    patience = Patience(clock, clock.sleep)
    patience.answer(True)
    clock.now += 0.01
    before = clock.now
    patience.wait(clock.sleep)
    assert clock.now == before + SHORT


def paused(chance: float, seconds: float) -> list[float]:
    """The pauses after a work that always fails at once."""
    clock, pauses = Clock(), list[float]()
    tries = Tries(lambda _: True, seconds, 0.5, clock, lambda: chance)
    with pytest.raises(OSError):
        while True:
            pauses.append(tries.pause_after(OSError()))
            clock.sleep(pauses[-1])
    return pauses


def test_pauses_double_are_cut_by_chance_and_end_when_time_is_up() -> None:
    assert paused(0, 20) == [0.5, 1, 2, 4, 5, 5, 2.5]
    assert paused(1, 2.5) == [0.25, 0.5, 1, 0.75]
    with pytest.raises(LookupError):
        Tries(lambda _: False, 20).pause_after(LookupError())
