"""run_until_signal(): a job that ends as a service should, with its batch finished.

One name that PySpark does not call public is used: `java_gateway.ensure_callback_server_started`;
`tests/unit/session/test_session_privates.py` notices when it changes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.core.waiting import wait_for

LOOK_SECONDS = 0.1
SIGNALS = ("TERM", "INT")


def run_until_signal(query: StreamingQuery, seconds: float = 60) -> bool:
    """Wait until the query ends, or until SIGTERM or Ctrl-C asks for it; True if one did.

    Then the running batch has that many `seconds` to finish, and the query is stopped, so that a
    restart need not repeat the batch. It works in a script, in the main thread, with `python` and
    with `spark-submit`, where the signal goes to the JVM.

    Ctrl-C goes to all processes of the job; this package's sources leave it to the driver. SIGTERM
    must go only to the process that was started: in Spark's Python processes it ends the process,
    and with it the batch. So a systemd unit needs `KillMode=mixed`, and `kill` must not get a
    process group.

    Raises what ended the query.
    """
    asked = threading.Event()
    with _signals_set(asked):
        while query.isActive and not asked.wait(LOOK_SECONDS):
            pass
        if asked.is_set():
            stop_after_batch(query, seconds)
    query.awaitTermination()  # it has ended; this raises what ended it
    return asked.is_set()


def stop_after_batch(query: StreamingQuery, seconds: float = 60) -> None:
    """Stop the query when no batch runs, or the one that runs is done, or `seconds` are over.

    A batch that begins at that very moment is broken off, and comes again at the next start.
    """
    before = _last_batch(query)
    wait_for(
        lambda: not query.status["isTriggerActive"] or _last_batch(query) != before,
        seconds,
        every=LOOK_SECONDS / 10,
    )
    query.stop()


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return progress.batchId if progress else None


@contextmanager
def _signals_set(asked: threading.Event) -> Iterator[None]:
    """Signals to this process and its JVM set `asked` instead of ending them."""
    before: dict[signal.Signals, Any] = {}
    with _java_signals_set(asked):  # first: should it fail, Ctrl-C still means what it did
        try:
            for name in SIGNALS:
                number = signal.Signals[f"SIG{name}"]
                before[number] = signal.signal(number, lambda *_: asked.set())
            yield
        finally:
            for number, former in before.items():
                signal.signal(number, former)


@contextmanager
def _java_signals_set(asked: threading.Event) -> Iterator[None]:
    java: Any = SparkContext._jvm
    if java is None:  # with Spark Connect it is a server's, and our signals never reach it
        yield
        return
    ensure_callback_server_started(SparkContext._gateway)
    handler = _JavaHandler(asked)
    signals = [java.sun.misc.Signal(name) for name in SIGNALS]
    before = [java.sun.misc.Signal.handle(each, handler) for each in signals]
    try:
        yield
    finally:
        for each, old in zip(signals, before, strict=True):
            java.sun.misc.Signal.handle(each, old)


class _JavaHandler:
    """Called by the JVM, through PySpark's bridge."""

    def __init__(self, asked: threading.Event) -> None:
        self._asked = asked

    def handle(self, _: object) -> None:
        self._asked.set()

    class Java:
        implements = ("sun.misc.SignalHandler",)
