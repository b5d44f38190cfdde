"""`SourceBuilder.pushed`: a client that calls back. A thread, a bounded queue, and a position."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Any

from tutorial_pkg.builder.context import ListenContext, SourceContext
from tutorial_pkg.builder.functions import Functions, ReturnedError
from tutorial_pkg.builder.rows import Buffer

MOST_WAITING = 1_000  # rows; then `emit` blocks
IDLE_SECONDS = 0.5  # `fill` returns without rows after that
FULL_SECONDS = 0.1  # how often a blocked `emit` looks whether the query is stopping
STOP_SECONDS = 1.0  # for `listen` to return; then its thread is left to the end of the process

Emit = Callable[..., None]
Listen = Callable[[ListenContext, Emit, Any], object]


class Listener:
    """The state of an instance. `listen` emits into a queue, from which `fill` takes the rows."""

    def __init__(self, functions: Functions, context: SourceContext) -> None:
        self._functions = functions
        self._context = ListenContext(context.index, context.count, context.options)
        self._who = f"instance {context.index}"
        self._position: Any = None  # of the last row that `fill` has added
        self._waiting = queue.Queue[tuple[Any, Any]](MOST_WAITING)
        self._news = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._listen, name=f"listen {self._who}")
        self._thread.daemon = True

    def fill(self, buffer: Buffer) -> None:
        if self._thread.ident is None:
            self._thread.start()  # not earlier: `restore` has set the position only now
        self._news.wait(IDLE_SECONDS)
        self._news.clear()
        failure = self._failure  # before the rows are counted: they came first
        for _ in range(self._waiting.qsize()):
            row, position = self._waiting.get()
            buffer.add(row)
            if position is not None:
                self._position = position
        buffer.connected = buffer.rows > 0 or self._context.connected.is_set()
        if failure and not buffer.rows:
            raise failure

    def emit(self, row: Any, position: Any = None) -> None:
        """Hand over a row, from any thread. Raises `SystemExit` when the query is stopping."""
        own = copy(row) if isinstance(row, dict | list) else row  # a client may reuse it
        while not self._context.stopped.is_set():
            with suppress(queue.Full):
                self._waiting.put((own, position), timeout=FULL_SECONDS)
                self._news.set()
                return
        raise SystemExit("the query is stopping")

    def snapshot(self) -> list[Any]:
        return [self._position]

    def restore(self, snapshots: list[list[Any]]) -> None:
        """Resume at the own position. Raises `ValueError` if there were more or fewer instances."""
        count = self._context.count
        if len(snapshots) != count and any(position is not None for [position] in snapshots):
            raise ValueError(
                f"the last run had {len(snapshots)} instances, this one has {count}, and each "
                f"resumes at its own position: set `parallelism` to {len(snapshots)}, or start "
                "with a new log and a new checkpoint"
            )
        [self._position] = snapshots[self._context.index] if len(snapshots) == count else [None]

    def destroy(self) -> None:
        self._context.stopped.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _listen(self) -> None:
        try:
            with self._functions.blamed("listen", self._who):
                self._functions.given["listen"](self._context, self.emit, self._position)
                raise ReturnedError("it returned, although the query has not been stopped")
        except BaseException as failure:
            self._failure = failure
        self._news.set()
