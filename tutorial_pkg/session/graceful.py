"""run_until_signal(): a job that ends as a service should, with its batch finished."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql.streaming import StreamingQuery

from tutorial_pkg.core.waiting import wait_for

LOOK_SECONDS = 0.1


def run_until_signal(query: StreamingQuery, seconds: float = 60) -> bool:
    """Wait until the query ends or SIGTERM or Ctrl-C arrives; return whether a signal did.

    After a signal the running batch has `seconds` to finish, so that a restart need not repeat it.
    Then the query is stopped. This works in a script's main thread, with `python` and with
    `spark-submit`.

    Send SIGTERM only to the process that you started: in Spark's Python processes it would end the
    batch. So a systemd unit needs `KillMode=mixed`. Ctrl-C reaches all processes, and this
    package's sources leave it to the driver.

    Raises what ended the query.
    """
    signaled = threading.Event()
    with _catching_signals(signaled):
        while query.isActive and not signaled.wait(LOOK_SECONDS):
            pass
        if signaled.is_set():
            _stop_after_batch(query, seconds)
    query.awaitTermination()  # raises what ended it
    return signaled.is_set()


def _stop_after_batch(query: StreamingQuery, seconds: float) -> None:
    """A batch that begins at that very moment is interrupted, and the next start repeats it."""

    def last_batch() -> int | None:
        progress = query.lastProgress
        return progress.batchId if progress else None

    before = last_batch()
    wait_for(
        lambda: not query.status["isTriggerActive"] or last_batch() != before,
        seconds,
        every=LOOK_SECONDS / 10,
    )
    query.stop()


@contextmanager
def _catching_signals(signaled: threading.Event) -> Iterator[None]:
    """Let signals to this process and to its JVM set `signaled` instead of ending them."""
    java: Any = SparkContext._jvm
    with ExitStack() as restored:
        if java is not None:  # with Spark Connect, the server's JVM never gets our signals
            ensure_callback_server_started(SparkContext._gateway)
            handler, handle = _JavaHandler(signaled), java.sun.misc.Signal.handle
            for name in ("TERM", "INT"):
                number = java.sun.misc.Signal(name)
                restored.callback(handle, number, handle(number, handler))
        for own in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(own, lambda *_: signaled.set())
            restored.callback(signal.signal, own, before)
        yield


class _JavaHandler:
    """Called by the JVM, through PySpark's bridge."""

    def __init__(self, signaled: threading.Event) -> None:
        self._signaled = signaled

    def handle(self, _: object) -> None:
        self._signaled.set()

    class Java:
        implements = ("sun.misc.SignalHandler",)
