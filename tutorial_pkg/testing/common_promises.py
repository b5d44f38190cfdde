"""How the promises are tried that sources and sinks share."""

from __future__ import annotations

from collections.abc import Callable

from tutorial_pkg.testing.promise import Broken
from tutorial_pkg.testing.trial import Trial

UNKNOWN = "noSuchOption"


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


def must_leave_nothing_open(trial: Trial) -> None:
    """Raise `Broken` when a query of this trial has left a port or a file open."""
    trial.stop()
    if left := trial.left_open():
        raise Broken(f"still open after `stop()`: {', '.join(sorted(left))}")
