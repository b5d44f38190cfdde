"""What a promise is: a sentence, a way to try it, and what to do when it is broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Trial = TypeVar("Trial", contravariant=True)

_SHOWN = 5
HANG = "it hangs"  # what did not happen in time explains what does not happen later


class Mistake(ValueError):
    """The user's description or request is wrong: a name, an expression, a value."""


class Broken(Exception):
    """A promise is broken; the message is what was seen.

    `remedy` says what to do, if that differs from the promise's own. `cause` is what fully explains
    it: an error's text. Of several promises with one cause, the first is reported.
    """

    def __init__(self, seen: str, remedy: str = "", cause: str = "") -> None:
        super().__init__(seen)
        self.remedy, self.cause = remedy, cause


class NothingWorks(Broken):
    """Not even the first rows come through, so nothing else is worth a trial."""


class NotTried(Exception):
    """There is nothing to try a promise on; the message says why."""


class MachineTooSlow(Exception):
    """Spark gave up waiting for a process of its own; that says nothing about the connector."""


def plain(error: BaseException) -> str:
    """`KeyError: 'id'`, and just the name where there is no text."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# Spark waits ten seconds for a worker, and cannot be told to wait longer.
_WORKER_LATE = re.compile("Python worker (failed )?to connect back")


def failure(text: str, error: object = "") -> Broken | MachineTooSlow:
    """What a query's end means, according to `text`; the `error` may say more, or less."""
    if _WORKER_LATE.search(f"{text} {error}"):
        return MachineTooSlow(text)
    return Broken(text, cause=re.sub(r"\d+", "#", text))


_WITHOUT = {
    "restarts": "it cannot be restarted",
    "python": "no class in Python: nobody can look inside",
    "unread": "it cannot be restarted, nor fed while no query runs: no row can wait",
    "waiting": "it cannot be fed while no query runs",
    "slow_server": "`processes` of its `server` are not described",
    "from_start": "it begins with what comes after a query's start",
    "once": "it says that a row may come more than once",
    "seen": "its rows have no number, or it makes them itself",
    "batch": "it has no batches beside streams",
}


@dataclass(frozen=True)
class Promise(Generic[Trial]):
    """One promise of a source or a sink.

    `try_it` raises `Broken` when the promise is not kept. `needs` names the fields of the
    description without which it cannot be tried, as in `"number restarts"`. `remedy` is for authors
    of a class, `built` for those who give functions to a builder, if their remedy differs. An
    `advice` is not a promise: ignoring it breaks nothing.
    """

    name: str
    sentence: str
    how: str
    remedy: str
    try_it: Callable[[Trial], None]
    needs: str = ""
    built: str = ""
    advice: bool = False

    def why_not(self, description: Any) -> str | None:
        """Why this promise is not to be tried; None when it is."""
        if self.name in description.not_claimed:
            return str(description.not_claimed[self.name])
        for field in self.needs.split():
            if not getattr(description, field):
                return _WITHOUT.get(field, f"`{field}` is not described")
        return None


def promise(
    sentence: str, remedy: str, needs: str = "", built: str = "", advice: bool = False
) -> Callable[[Callable[[Trial], None]], Promise[Trial]]:
    """Make a `Promise` of a function: its name, and its docstring on how it is tried, stay."""

    def make(function: Callable[[Trial], None]) -> Promise[Trial]:
        how = " ".join((function.__doc__ or "").split())
        return Promise(function.__name__, sentence, how, remedy, function, needs, built, advice)

    return make


def check_names(names: Iterable[str], promises: Iterable[Promise[Any]], where: str) -> None:
    """Raise `Mistake` for a name that no promise has; a typing error would go unnoticed."""
    known = [promise.name for promise in promises]
    for name in names:
        if name not in known:
            raise Mistake(f"{where}: no promise is called {name!r}; there are {', '.join(known)}")


def check_once(expected: Iterable[object], seen: Iterable[object], when: str) -> None:
    """Raise `Broken` unless `seen` has each of `expected` once, and nothing else."""
    wanted, found = Counter(expected), Counter(seen)
    parts = [
        f"{_listed(rows)} {what}"
        for what, rows in (("missing", wanted - found), ("too many", found - wanted))
        if rows
    ]
    if parts:
        raise Broken(f"{when}: of {wanted.total()} rows {' and '.join(parts)}")


def _listed(rows: Counter[object]) -> str:
    """`3 (rows 7, 8, 9)`: how many, and the first of them."""
    first = sorted(rows, key=lambda row: (len(str(row)), str(row)))[:_SHOWN]
    more = " …" if len(rows) > _SHOWN else ""
    return f"{rows.total()} ({', '.join(_short(row) for row in first)}{more})"


def _short(row: object) -> str:
    text = repr(row)
    return text if len(text) <= 40 else f"{text[:40]}…"
