"""run_until_signal without a JVM, as with Spark Connect."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tutorial_pkg import run_until_signal
from tutorial_pkg.session import graceful

NUMBERS = (signal.SIGTERM, signal.SIGINT)


class Query:
    """Active until it is stopped; the first look at it sends a signal."""

    status = {"isTriggerActive": False}  # noqa: RUF012
    lastProgress = None

    def __init__(self, number: signal.Signals) -> None:
        self.to_send = [number]
        self.stopped = False

    @property
    def isActive(self) -> bool:
        if self.to_send:
            signal.raise_signal(self.to_send.pop())
        return not self.stopped

    def stop(self) -> None:
        self.stopped = True

    def awaitTermination(self) -> None:
        assert self.stopped


@pytest.fixture(autouse=True)
def handlers() -> Iterator[list[Any]]:
    """The handlers before a test, restored after it."""
    before = [signal.getsignal(number) for number in NUMBERS]
    yield before
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_signals_stop_a_query_over_connect(
    number: signal.Signals, handlers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graceful, "SparkContext", SimpleNamespace(_jvm=None, _gateway=None))
    query: Any = Query(number)
    assert run_until_signal(query)
    assert query.stopped
    assert [signal.getsignal(number) for number in NUMBERS] == handlers
