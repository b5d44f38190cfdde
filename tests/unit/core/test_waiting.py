"""How long an idle source waits before it answers, and the pauses between tries."""

from __future__ import annotations

import pytest

from tutorial_pkg.core import waiting
from tutorial_pkg.core.waiting import IDLE_AFTER, LONGEST, SHORT, Patience, Tries


class Clock:
    """Stands in for the module `time`."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(waiting, "time", clock)
    return clock


def questions(seconds: float, clock: Clock, patience: Patience) -> int:
    """Return how often Spark asks a source without news in this time."""
    end, count = clock.now + seconds, 0
    while clock.now < end:
        patience.wait()
        patience.answer(False)
        clock.now += 0.01
        count += 1
    return count


def test_idle_source_is_asked_five_times_a_second(clock: Clock) -> None:
    patience = Patience()
    assert questions(IDLE_AFTER, clock, patience) >= 99
    assert questions(10, clock, patience) <= 10 / LONGEST


def test_news_end_the_wait(clock: Clock) -> None:
    patience = Patience()
    questions(IDLE_AFTER, clock, patience)
    before = clock.now
    patience.wait(lambda seconds: clock.sleep(seconds / 4))
    assert clock.now == before + LONGEST / 4
    patience.answer(True)
    patience.wait(clock.sleep)
    assert clock.now == pytest.approx(before + LONGEST / 4 + SHORT)
    assert questions(IDLE_AFTER, clock, patience) >= 97


def test_busy_query_does_not_wait(clock: Clock) -> None:
    patience = Patience()
    questions(2 * IDLE_AFTER, clock, patience)
    clock.now += 0.1  # a batch of another source
    before = clock.now
    patience.wait()
    assert clock.now == before


@pytest.mark.parametrize(
    ("chance", "seconds", "expected"),
    [(0, 20, [0.5, 1, 2, 4, 5, 5, 2.5]), (1, 2.5, [0.25, 0.5, 1, 0.75])],
)
def test_pauses_double_until_time_is_up(
    chance: float,
    seconds: float,
    expected: list[float],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("random.random", lambda: chance)
    tries, rests = Tries(lambda _: True, seconds, 0.5), list[float]()
    with pytest.raises(OSError):
        while True:
            rests.append(tries.pause_after(OSError()))
            clock.sleep(rests[-1])
    assert rests == expected


def test_lasting_error_is_raised_at_once() -> None:
    with pytest.raises(LookupError):
        Tries(lambda _: False, 20).pause_after(LookupError())
