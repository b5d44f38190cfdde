"""A promise: a sentence, a trial, and a remedy for when it is broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

HANG = "it hangs"  # the cause of everything that did not happen in time


class Mistake(ValueError):
    """The description or the call is wrong: a name, an expression, a value."""


class Broken(Exception):
    """A promise is broken; the message says what the kit saw.

    `remedy` replaces the promise's own. `cause`, such as an error's text, explains it fully.
    `rows_missing` means that nothing else is wrong, `nothing_works` that not even the first rows
    arrive, so that no other promise is worth a trial.
    """

    def __init__(
        self, seen: str, remedy: str = "", cause: str = "", rows_missing: bool = False
    ) -> None:
        super().__init__(seen)
        self.remedy, self.cause, self.rows_missing = remedy, cause, rows_missing
        self.nothing_works = False


class NotTried(Exception):
    """The trial is impossible here; the message says why."""


class MachineTooSlow(Exception):
    """Spark gave up on one of its processes, which says nothing about the connector."""


def plain(error: BaseException) -> str:
    """Return `KeyError: 'id'`, or only the name for an error without text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# Spark waits ten seconds for a worker, and has no setting for it.
_WORKER_LATE = re.compile("Python worker (failed )?to connect back")
# A line of a stack trace that is neither Spark's nor a library's.
_OWN_LINE = re.compile(r'File "(?!.*/(?:pyspark|lib/python3)).*?([^/]+)", line (\d+), in (\w+)')


def failure(text: str, trace: str = "") -> Broken | MachineTooSlow:
    """Return what a query's failure means, judging by `text` and by Spark's stack `trace`."""
    if _WORKER_LATE.search(f"{text} {trace}"):
        return MachineTooSlow(text)
    lines = _OWN_LINE.findall(trace)
    place = " at {}, line {}, in {}".format(*lines[-1]) if lines else ""
    return Broken(text, f"Fix this error{place}: it ends the query.", re.sub(r"\d+", "#", text))


_WITHOUT = {
    "restarts": "it can't be restarted",
    "python": "its Python class is not described",
    "unread": "rows can't wait for it: it can't be restarted, nor fed while no query runs",
    "waiting": "it can't be fed while no query runs",
    "from_start": "it starts with the rows that arrive after a query's start",
    "once": "it may write a row more than once",
    "seen": "its rows have no number, or it creates them",
    "batch": "it works with streams only",
}


@dataclass(frozen=True)
class Promise:
    """One promise of a source or a sink.

    `try_it` raises `Broken`, or may return a remark for the report. `needs` names the fields of the
    description that the trial needs, as in `"number restarts"`.
    """

    name: str
    sentence: str
    how: str
    remedy: str
    try_it: Callable[[Any], str | None]
    needs: str = ""

    def why_not(self, description: Any) -> str | None:
        """Return why this promise can't be tried, or None if it can."""
        if self.name in description.not_claimed:
            return str(description.not_claimed[self.name])
        for field in self.needs.split():
            if not getattr(description, field):
                return _WITHOUT.get(field, f"`{field}` is not described")
        return None


def promise(
    sentence: str, remedy: str, **more: Any
) -> Callable[[Callable[[Any], str | None]], Promise]:
    """Turn a function into a `Promise` of the same name; its docstring says how it is tried."""

    def make(function: Callable[[Any], str | None]) -> Promise:
        how = " ".join((function.__doc__ or "").split())
        return Promise(function.__name__, sentence, how, remedy, function, **more)

    return make


def check_names(names: Iterable[str], known: list[str], where: str) -> None:
    """Raise `Mistake` for an unknown name, so that a typing error is noticed."""
    for name in names:
        if name not in known:
            raise Mistake(f"{where}: no promise is called {name!r}; choose from {', '.join(known)}")
