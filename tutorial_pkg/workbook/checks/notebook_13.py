"""Checks of notebook 13: pages of a service, patience with it, and keys for what is posted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from email.message import Message
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest import mock

from tutorial_pkg.workbook.checks.trial import context_of
from tutorial_pkg.workbook.checks.verdict import Wrong, exercise
from tutorial_pkg.workbook.weather import Weather

# ---- Exercise 1: to the last page ----------------------------------------------------------------

ALL = "all"
THERE, LATER = 250, 30
PAGE = 70  # readings: the service may give fewer than 100, even if more follow
DEGREES = [float(number) for number in range(THERE + LATER)]
PATIENCE = 10.0  # seconds, for what takes milliseconds


@exercise()
def check_13_1(answer: Any) -> str:
    """Does the pair `(latest, read)` go to the last page, and no further than it was told?"""
    if not (isinstance(answer, tuple) and len(answer) == 2 and all(map(callable, answer))):
        raise Wrong("Two functions are wanted: def latest, def read, and answer = (latest, read).")
    latest, read = answer
    with _service() as service:
        service.measure("hill", DEGREES[:THERE])
        hill = context_of(url=f"{service.url}/hill")
        for start in (0, 130, THERE):
            _compare_end(_in_time(latest, hill, ALL, start), start)
            _begins_there("latest", start, service)
        found = _in_time(latest, context_of(url=f"{service.url}/harbour"), ALL, 0)
        if found != 0:
            raise Wrong(f"Nothing was measured: `latest` must stay at 0, yours is {found!r}.")
        service.measure("hill", DEGREES[THERE:])
        service.requests.clear()
        for start, end in ((0, THERE), (30, 130), (THERE - 20, THERE)):
            _compare_rows(_in_time(_rows, read, hill, start, end), start, end)
            _begins_there("read", start, service)
    return "To the last page, and no further than `end`."


@contextmanager
def _service() -> Iterator[Weather]:
    service = Weather(PAGE)
    try:
        yield service
    finally:
        service.close()


def _in_time(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call returns; a loop without end must not stop the check."""
    results: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call(*arguments))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    for error in errors:
        raise error
    if not results:
        raise Wrong("It does not come back: the last page is the one whose `next` is its `from`.")
    return results[0]


def _rows(read: Callable[..., Any], context: Any, start: int, end: int) -> list[Any]:
    return list(read(context, ALL, start, end) or [])


def _compare_end(found: Any, start: int) -> None:
    if found == THERE:
        return
    if found == min(start + PAGE, THERE):
        raise Wrong(
            f"`latest` reported the end of one page, {found}: ask for the next one, from there. "
            "A page with fewer than 100 readings need not be the last one."
        )
    raise Wrong(
        f"{THERE} readings are there, so from {start} on `latest` must be {THERE}, the next unread "
        f"position; yours is {found!r}."
    )


def _begins_there(name: str, start: int, service: Weather) -> None:
    """What is long past must not be asked for again, each time."""
    if start and any(asked.path.endswith("from=0") for asked in service.requests):
        raise Wrong(f"`{name}` was given {start}, and asked for the very first page: begin there.")
    service.requests.clear()


def _compare_rows(found: list[Any], start: int, end: int) -> None:
    called, wanted = f"read(…, {start}, {end})", [(n, DEGREES[n]) for n in range(start, end)]
    try:
        rows = [(row[0], row[1]) for row in found]
    except (TypeError, KeyError, IndexError):
        raise Wrong(f"{called} must yield (id, degrees), yours yields {found[0]!r}.") from None
    if rows == wanted:
        return
    if rows == wanted[:PAGE]:
        raise Wrong(f"{called} took one page of several: follow `next` until you are at `end`.")
    if any(number >= end for number, _ in rows):
        raise Wrong(f"{called} read beyond `end`: what came meanwhile belongs to the next batch.")
    if any(number < start for number, _ in rows):
        raise Wrong(f"{called} read what was before `start`: the first page begins there.")
    raise Wrong(
        f"{called} must give {len(wanted)} rows, each once and in order: it gave {len(rows)}."
    )


# ---- Exercise 2: patience ------------------------------------------------------------------------

MOST_SECONDS = 30.0
MOST_CALLS = 50
Said = tuple[int, dict[str, str]]  # a status, and headers
_OK: Said = (200, {})
_BUSY: Said = (503, {})


@exercise("def patiently(ask, sleep)")
def check_13_2(answer: Callable[..., Any]) -> str:
    """Does `answer` wait as it is told, ask again, and give up in time?"""
    for first in (200, 304, 404, 500):
        status, slept = _patient(answer, [(first, {"Retry-After": "3"})])
        if status != first:
            raise Wrong(f"After a {first} it must return that answer, yours returned {status!r}.")
        if slept:
            raise Wrong(f"After a {first} there is no need to wait, yours slept {slept}.")
    _compare_waits(answer, [(429, {"Retry-After": "3"}), _OK], [3])
    _compare_waits(answer, [(503, {"Retry-After": "2"}), (429, {"Retry-After": "5"}), _OK], [2, 5])
    _compare_waits(answer, [_BUSY, _BUSY, _BUSY, _OK], [1, 2, 4])
    _compare_waits(
        answer, [(503, {"Retry-After": "20"}), (503, {"Retry-After": "10"}), _OK], [20, 10]
    )
    _gives_up(answer, [_BUSY] * MOST_CALLS, [1, 2, 4, 8])
    _gives_up(answer, [(429, {"Retry-After": "3600"})] * MOST_CALLS, [])
    _gives_up(answer, [(429, {"Retry-After": "0"})] * MOST_CALLS, [1] * 30)
    return "It waits as long as it is told, and not for ever."


def _patient(answer: Callable[..., Any], script: list[Said]) -> tuple[Any, Any]:
    """The status that came out, and how long it slept each time."""
    answers, slept = iter(script), list[float]()

    def ask() -> tuple[int, Message, Any]:
        status, headers = next(answers, (0, {}))
        if status == 0:
            raise Wrong(_asked_too_often(script[-1][0]))
        message = Message()
        for name, value in headers.items():
            message[name] = value
        return status, message, {"readings": [], "next": 0} if status == 200 else None

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if seconds < 0 or sum(slept) > MOST_SECONDS:
            raise Wrong(f"It slept for {slept} seconds: at most {MOST_SECONDS:g} s in all.")

    found = answer(ask, sleep)
    if not isinstance(found, tuple) or len(found) != 3:
        raise Wrong(f"Return what `ask()` returned, all three; yours returned {found!r}.")
    return found[0], slept


def _asked_too_often(status: int) -> str:
    if status in (429, 503):
        return f"The service was busy {MOST_CALLS} times, and it asked once more: give up."
    return f"After a {status} there is no need to wait: return it, and do not ask again."


def _compare_waits(answer: Callable[..., Any], script: list[Said], wanted: list[float]) -> None:
    status, slept = _patient(answer, script)
    told_to = ", ".join(f"{s} {' '.join(map(': '.join, h.items()))}".strip() for s, h in script)
    if status != 200:
        raise Wrong(f"The answers were {told_to}; it returned the {status}: ask again.")
    if slept != wanted:
        raise Wrong(f"The answers were {told_to}: sleep for {wanted} seconds, yours slept {slept}.")


def _gives_up(answer: Callable[..., Any], script: list[Said], wanted: list[float]) -> None:
    status, slept = _patient(answer, script)
    if status != script[0][0]:
        raise Wrong(f"When it gives up it returns the last answer, not {status!r}.")
    if slept != wanted:
        raise Wrong(
            f"It slept for {slept} seconds and gave up, instead of {wanted}: it has "
            f"{MOST_SECONDS:g} seconds, and gives up when the next pause is longer than that."
        )


# ---- Exercise 3: a key ---------------------------------------------------------------------------


@exercise("def key(context, number)")
def check_13_3(answer: Callable[..., Any]) -> str:
    """Is the key of a row the same when its batch is repeated, and another one for any other?"""
    keys: dict[str, tuple[Any, ...]] = {}
    for which in product(("q", "q1"), (1, 11), (1, 11), (1, 11, 1001, 10_001)):
        context = SimpleNamespace(**dict(zip(("query", "batch", "index"), which, strict=False)))
        found = answer(context, which[3])
        if not isinstance(found, str) or not found.isascii() or not found.isprintable():
            raise Wrong(f"A key is a header: a str of plain letters and digits, not {found!r}.")
        if found != answer(copy(context), which[3]):
            raise Wrong("Called twice for one row it gave two keys: no time, no random number.")
        with _elsewhere():
            if found != answer(context, which[3]):
                raise Wrong(
                    "In another process the key differs: no `hash` of a text, no process id."
                )
        if found in keys:
            raise Wrong(_same_key(keys[found], which, found))
        keys[found] = which
    return "The same row has the same key, whoever sends it, and no other row has it."


@contextmanager
def _elsewhere() -> Iterator[None]:
    """As in another process: it has another number, and other hashes of texts."""
    with mock.patch("builtins.hash", lambda _: 7), mock.patch("os.getpid", lambda: 7):
        yield


def _same_key(one: tuple[Any, ...], other: tuple[Any, ...], key: str) -> str:
    names = ("query", "batch", "index", "number")
    differ = [name for name, a, b in zip(names, one, other, strict=True) if a != b]
    if len(differ) > 1:
        return f"Two rows have the key {key!r}: put something between the parts, such as '-'."
    return f"Rows that differ in `{differ[0]}` have the same key, {key!r}: it belongs in the key."
