"""Confirmation: a connection that has ended waits here until all its lines are on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.durable_log.segments import SegmentWriter


class Confirmation:
    """The connections that wait. One sync serves all that came before it began.

    The log is synced on a thread of its own, so that the port's thread can go on receiving; it is
    told by `wake`, asks for `done()`, and closes what it gets.
    """

    def __init__(self, log: SegmentWriter, wake: Callable[[], None]) -> None:
        self._log = log
        self._wake = wake
        self._waiting: deque[tuple[int, Connection]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        self._syncing = self._sync()

    def add(self, ended: Iterable[Connection]) -> None:
        """All lines of these connections are in the log, up to its end."""
        self._waiting.extend((self._log.end, connection) for connection in ended)
        self._sync_if_needed()

    def done(self) -> list[Connection]:
        """Those whose lines are on disk by now. Raises the `OSError` of a sync that failed."""
        if not self._syncing.done():
            return []
        synced = self._syncing.result()
        confirmed = []
        while self._waiting and self._waiting[0][0] <= synced:
            confirmed.append(self._waiting.popleft()[1])
        self._sync_if_needed()
        return confirmed

    def finish(self) -> list[Connection]:
        """Sync for all that wait. Raises `OSError`."""
        self._log.sync()
        confirmed = [connection for _, connection in self._waiting]
        self._waiting.clear()
        return confirmed

    def close(self) -> None:
        self._thread.shutdown()

    def _sync_if_needed(self) -> None:
        if self._waiting and self._syncing.done():
            self._syncing = self._sync()

    def _sync(self) -> Future[int]:
        syncing = self._thread.submit(self._log.sync)
        syncing.add_done_callback(lambda _: self._wake())
        return syncing
