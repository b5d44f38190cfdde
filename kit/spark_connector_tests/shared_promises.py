"""Promises that sources and sinks share, and ways to try them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import psutil

from spark_connector_tests.errors import last_error
from spark_connector_tests.faults import How, InjectedError
from spark_connector_tests.promise import Broken, NotTried, promise
from spark_connector_tests.sink_trial import SinkTrial
from spark_connector_tests.source_trial import SourceTrial

AnyTrial = SourceTrial | SinkTrial
FAULTS = 6  # calls of a method that fail, at most
HELD = 3.0  # seconds that a slow server doesn't respond


def must_survive(
    trial: AnyTrial, method: str, how: How, look: Callable[[str], object] | None = None
) -> None:
    """End some calls of a connector's method to the system, and compare after each.

    Before the query runs again, `look` is called. Raises `NotTried` if there are no such calls.
    """
    what = "a crash" if how == "dies" else "an error"
    with trial.faults(method) as faults:
        trial.works(when=f"before {what} in `{method}`")
        if not (calls := faults.some(FAULTS)):
            raise NotTried(f"`{method}` opens no file and no connection in Python")
        for call in calls:
            faults.plan(call, how)
            trial.run()
            trial.more()
            _endure(trial)
            when = f"after {what} in `{method}` at `{faults.ended()}`"
            if look:
                look(when)
            try:
                _recover(trial, when)
            except Broken:  # an error in a thread may end the query only now
                if InjectedError.__name__ not in str(trial.query and last_error(trial.query)):
                    raise
                _recover(trial, when)


@promise(
    "A server that is restarted, down or slow delays rows, but loses and duplicates none.",
    "Treat an error or a timeout as an error, not as an empty response or a success: raise it, or "
    "connect again after a pause. Repeat everything that the server did not confirm.",
    needs="server seen",
)
def server_down(trial: AnyTrial) -> None:
    """The server is restarted while rows are under way. A query starts while the server is down.
    The server's processes are paused for three seconds."""
    server = trial.described.server
    assert server
    trial.works(when="before the server was restarted")
    trial.more()
    server.stop()
    server.start()
    _recover_and_work(trial, "after the server was restarted")
    if trial.described.restarts:
        trial.stop()
        trial.more_unread()
        server.stop()
        try:
            with contextlib.suppress(Broken):
                trial.run()
                trial.wait(lambda: False, HELD)
        finally:
            server.start()
        _recover_and_work(trial, "after a query had started while the server was down")
    if server.processes:
        trial.more()
        with contextlib.ExitStack() as suspended:
            for process in map(psutil.Process, server.processes()):
                process.suspend()
                suspended.callback(process.resume)
            time.sleep(HELD)
        _recover_and_work(trial, "after the server was slow")


def _endure(trial: AnyTrial) -> None:
    """Let the query read everything, or fail; it may not even have started."""
    with contextlib.suppress(Broken):
        if trial.query is not None:
            trial.read_all(trial.done)


def _recover(trial: AnyTrial, when: str) -> None:
    """Let the query run or fail; then make sure that it runs, and compare."""
    _endure(trial)
    trial.run()
    trial.arrive(when)


def _recover_and_work(trial: AnyTrial, when: str) -> None:
    _recover(trial, when)
    trial.more()
    _recover(trial, when)
