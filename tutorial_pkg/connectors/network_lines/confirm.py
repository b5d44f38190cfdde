"""Confirmations that wait until the log is on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tutorial_pkg.durable_log.segments import SegmentWriter

Action = Callable[[], None]


class Confirmations:
    """Actions, each for the time when what is in the log now is on disk.

    A separate thread syncs the log, so that the port's thread can keep receiving. One sync serves
    all actions that were added before it began. `wake` is called when a sync has ended; the port's
    thread then performs the actions that `due()` returns.
    """

    def __init__(self, log: SegmentWriter, wake: Callable[[], None]) -> None:
        self._log, self._wake = log, wake
        self._waiting: deque[tuple[int, Action]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._sync = self._start_sync()

    def add(self, action: Action) -> None:
        self._waiting.append((self._log.end, action))
        self._sync_if_needed()

    def due(self) -> list[Action]:
        """Return the actions that are due. Raises the `OSError` of a failed sync."""
        return self._up_to(self._sync.result()) if self._sync.done() else []

    def finish(self) -> list[Action]:
        """Sync, and return all actions that are left. Raises `OSError`."""
        return self._up_to(self._log.sync())

    def close(self) -> None:
        self._thread.shutdown()

    def _up_to(self, synced: int) -> list[Action]:
        actions = []
        while self._waiting and self._waiting[0][0] <= synced:
            actions.append(self._waiting.popleft()[1])
        self._sync_if_needed()
        return actions

    def _sync_if_needed(self) -> None:
        if self._waiting and self._sync.done():
            self._sync = self._start_sync()

    def _start_sync(self) -> Future[int]:
        sync = self._thread.submit(self._log.sync)
        sync.add_done_callback(lambda _: self._wake())
        return sync
