"""The promises that sources and sinks share, and ways to try them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from spark_connector_tests.errors import last_error
from spark_connector_tests.processes import Size
from spark_connector_tests.promise import Broken, NotTried, promise
from spark_connector_tests.trap import BEHIND_A_ROW, How, ToldToRaise, some_of
from spark_connector_tests.trial import HELD, Trial

UNKNOWN = "noSuchOption"
BATCHES = 7  # in which a process must not grow
DECLARED = "Declare options with `.option`: the builder refuses all others."
CLOSES = (
    "Close in `destroy` or `close` what `create` or `connect` opened, and what another function "
    "opens before it returns."
)
MOST_A_BATCH = Size(0.5, 0.5, 4)  # that a process may grow with each


def must_refuse_unknown(run: Callable[[], object]) -> None:
    """Raise `Broken` unless the query that `run()` runs fails, and names the unknown option."""
    try:
        run()
    except Broken as error:
        if UNKNOWN.lower() not in f"{error}{error.__cause__}".lower():
            raise Broken(f"the error does not name the option: {error}") from None
    else:
        raise Broken(f"a query with the option `{UNKNOWN}` ran")


def must_leave_no_process(trial: Trial) -> None:
    """Raise `Broken` when a query of this trial has left a process behind."""
    trial.stop()
    if trial.left_behind:
        raise Broken(f"still there after `stop()`: {', '.join(trial.left_behind)}")


@promise(
    "No port and no file stays open when the query has stopped.",
    "The workers of tasks live on, and with them what `read` or `write` opened: close it there, "
    "with `with` or `finally`.",
    built=CLOSES,
)
def nothing_open(trial: Trial) -> None:
    """Ports of Spark's Python processes, and open files in the connector's folder, are sought."""
    trial.ensure_worked()
    trial.stop()
    if left := trial.left_open():
        raise Broken(f"still open after `stop()`: {', '.join(sorted(left))}")


@promise(
    "No process grows from batch to batch: in threads, open files, or memory.",
    "Make in `__init__`, or when it is first needed, what is needed again; close what you open; "
    "and keep no list of what has passed.",
    needs="seen",
    built=f"{CLOSES} Keep no list of what has passed.",
)
def steady(trial: Trial) -> None:
    """Many small batches; before and after them Spark's Python processes are measured."""
    trial.run()
    before, after = _size_after(trial, 2), _size_after(trial, BATCHES)
    for pid in before.keys() & after.keys():
        for what, old, new, most in zip(
            Size._fields, before[pid], after[pid], MOST_A_BATCH, strict=True
        ):
            if new - old > most * BATCHES:
                told = f"a process grew from {old:.0f} to {new:.0f} {what}"
                raise Broken(f"with {BATCHES} batches {told}")


def _size_after(trial: Trial, batches: int) -> dict[int, Size]:
    """Each batch is waited for, or they would be one."""
    for _ in range(batches):
        trial.more()
        trial.wait(trial.done, trial.seconds)
    trial.arrive("in many small batches")
    return trial.processes.sizes()


def must_survive(
    trial: Trial,
    method: str,
    how: How,
    most: int,
    look: Callable[[str], object] | None = None,
) -> None:
    """Let a method of the connector end before some of its lines, and compare each time.

    When an error has ended the query, as it should, the next one comes in the repeated batch,
    unless rows come only while a query runs: none may come before that batch is over.
    Before the query is run again, there may be something to `look` at.
    """
    turns = 2 if how == "dies" else 1  # between two turns of a loop something is half done
    with trial.trapped(method, turns) as trap:
        _work(trial, f"before anything happened to `{method}`")
        if not trap.lines():
            raise NotTried(f"`{method}` runs no line of Python but libraries'")
        lines = some_of(trap.lines() + (how == "dies"), most)
        for line in [*lines, BEHIND_A_ROW] if method == "read" else lines:
            trap.lay(line, how)
            trial.run()
            if method == "latestOffset":  # it runs without more rows, and may keep them from coming
                trial.more_unread()
            else:
                trial.more()
            trial.endure()
            told = "a crash" if how == "dies" else "an error"
            when = f"after {told} in `{method}`, before {trap.sprung()}"
            if look:
                look(when)
            if how == "dies" or not trial.waiting or trial.runs():
                _recover_late(trial, when)
        _recover_late(trial, when)


def _recover_late(trial: Trial, when: str) -> None:
    """An error in a thread may reach the query after a while, and may end it then."""
    try:
        trial.recover(when)
    except Broken:
        if trial.query is None or ToldToRaise.__name__ not in (last_error(trial.query) or ""):
            raise
        trial.recover(when)


# ---- Servers -------------------------------------------------------------------------------------


@promise(
    "Nothing is lost or doubled when the server is restarted.",
    "Connect again, after a pause, for as long as a restart takes; or let the query fail with an "
    "error. What the server has not confirmed is still to be done.",
    needs="server seen",
)
def server_restarted(trial: Trial) -> None:
    """The server is stopped and started while rows are under way; a failed query is run again."""
    _work(trial, "before its server was restarted")
    trial.more()
    with trial.away():
        """Its clients find out."""
    _recover(trial, "after its server was restarted")


@promise(
    "A server that is away makes a query fail with an error, or wait: no row is passed over.",
    "An error is no empty answer, and no success: raise it, or try again.",
    needs="server seen restarts",
)
def server_away(trial: Trial) -> None:
    """A query is started while the server is away; it comes back, and all rows must come."""
    _work(trial, "before its server went away")
    trial.stop()
    trial.more_unread()
    with trial.away(), contextlib.suppress(Broken):
        trial.run()
        trial.wait(lambda: False, HELD)
    _recover(trial, "after its server was away")


@promise(
    "A server that does not answer for a while delays the rows, and loses none.",
    "Bound every wait, and take its end for an error: no empty answer, and no success.",
    needs="slow_server seen",
)
def server_slow(trial: Trial) -> None:
    """The server's processes are held for three seconds while rows are under way."""
    _work(trial, "before its server was slow")
    trial.more()
    with trial.held():
        time.sleep(HELD)
    _recover(trial, "after its server was slow")


def _work(trial: Trial, when: str) -> None:
    trial.run()
    trial.more()
    trial.arrive(when)


def _recover(trial: Trial, when: str) -> None:
    trial.recover(when)
    trial.more()
    trial.recover(when)
