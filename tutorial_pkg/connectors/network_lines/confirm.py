"""Confirmation: the answer to a sender waits here until its lines are on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from tutorial_pkg.durable_log.segments import SegmentWriter

Action = Callable[[], None]


class Confirmation:
    """The actions that wait. One sync serves all that came before it began.

    The log is synced on a thread of its own, so that the port's thread can go on receiving. `wake`
    tells the port's thread when a sync has ended; it then asks for `done()` and performs those
    actions.
    """

    def __init__(self, log: SegmentWriter, wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self._waiting: deque[tuple[int, Action]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing = self._sync()

    def add(self, actions: Iterable[Action]) -> None:
        """All lines that they are about are in the log, up to its end."""
        self._waiting.extend((self._log.end, action) for action in actions)
        self._sync_if_needed()

    def done(self) -> list[Action]:
        """Those whose lines are on disk by now. Raises the `OSError` of a sync that failed."""
        if not self._syncing.done():
            return []
        synced = self._syncing.result()
        due = []
        while self._waiting and self._waiting[0][0] <= synced:
            due.append(self._waiting.popleft()[1])
        self._sync_if_needed()
        return due

    def finish(self) -> list[Action]:
        """Sync for all that wait. Raises `OSError`."""
        self._log.sync()
        due = [action for _, action in self._waiting]
        self._waiting.clear()
        return due

    def close(self) -> None:
        self._thread.shutdown()

    def _sync_if_needed(self) -> None:
        if self._waiting and self._syncing.done():
            self._syncing = self._sync()

    def _sync(self) -> Future[int]:
        syncing = self._thread.submit(self._log.sync)
        syncing.add_done_callback(lambda _: self._wake())
        return syncing
