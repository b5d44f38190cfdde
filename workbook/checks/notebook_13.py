"""Checks of notebook 13: pages of a service, patience with it, and keys for what is posted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from email.message import Message
from itertools import islice, product
from typing import Any, cast
from unittest import mock

from workbook.checks.trial import context_of, copied
from workbook.checks.verdict import Wrong, exercise
from workbook.weather import Weather

# ---- Exercise 1: to the last page ----------------------------------------------------------------

ALL = "all"
THERE, LATER = 250, 30
PAGE = 70  # readings: the service may give fewer than 100, even if more follow
_SHORT = "A page with fewer than 100 readings need not be the last one."
UNEVEN, SHORT_PAGE = "valley", 20
DEGREES = [20.25 - number / 2 for number in range(THERE + LATER)]  # no degree is its number
PATIENCE = 60.0  # seconds, for what takes milliseconds: a busy machine passes


@exercise()
def check_13_1(answer: Any) -> str:
    """Does the pair `(latest, read)` go to the last page, and no further than it was told?"""
    if not (isinstance(answer, tuple | list) and len(answer) == 2 and all(map(callable, answer))):
        raise Wrong("Two functions are wanted: def latest, def read, and answer = (latest, read).")
    latest, read = answer
    with _service() as service:
        service.measure("hill", DEGREES[:THERE])
        hill = context_of(url=f"{service.url}/hill")
        for start in (0, 130, THERE):
            _compare_end(_in_time(latest, hill, ALL, start), start, THERE)
            _stays_within("latest", start, THERE, service)
        found = _in_time(latest, context_of(url=f"{service.url}/harbour"), ALL, 0)
        if found != 0:
            raise Wrong(f"Nothing was measured: `latest` must stay at 0, yours is {found!r}.")
        service.measure("hill", DEGREES[THERE:])
        _compare_end(_in_time(latest, hill, ALL, THERE), THERE, THERE + LATER)
        service.requests.clear()
        for start, end in ((0, THERE), (30, 130), (THERE - 20, THERE)):
            _compare_rows(_in_time(_rows, read, hill, start, end), start, end)
            _stays_within("read", start, end, service)
        service.measure(UNEVEN, DEGREES[:THERE])  # and nothing came later
        valley = context_of(url=f"{service.url}/{UNEVEN}")
        _compare_end(_in_time(latest, valley, ALL, 0), 0, THERE)
        _compare_rows(_in_time(_rows, read, valley, 0, THERE), 0, THERE)
    return "To the last page, and no further than `end`."


class _Weather(Weather):
    """Pages of one station are shorter after the first one."""

    def page(self, station: str, first: int) -> dict[str, Any]:
        page = super().page(station, first)
        if station == UNEVEN and first:
            del page["readings"][SHORT_PAGE:]
            page["next"] = first + len(page["readings"])
        return page


@contextmanager
def _service() -> Iterator[Weather]:
    service = _Weather(PAGE)
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
        raise Wrong(
            "`read` does not come back: it ends when it has reached `end` or passed it. A page may "
            "go beyond `end`, or nothing may follow it."
            if call is _rows
            else "`latest` does not come back: it ends at the page whose `next` is its `from`."
        )
    return results[0]


def _rows(read: Callable[..., Any], context: Any, start: int, end: int) -> list[Any]:
    return list(read(context, ALL, start, end) or [])


def _compare_end(found: Any, start: int, there: int) -> None:
    if found == there and isinstance(found, int):
        return
    if found == start == THERE:
        raise Wrong(
            f"{LATER} more readings came, and `latest` still says {THERE}: ask the service each "
            "time, for a page may have grown."
        )
    if found == min(start + PAGE, there):
        raise Wrong(
            f"`latest` reported the end of one page, {found}: ask for the next one, from "
            f"there. {_SHORT}"
        )
    raise Wrong(
        f"{there} readings are there, so from {start} on `latest` must be {there}, the next unread "
        f"position; yours is {found!r}."
    )


def _stays_within(name: str, start: int, end: int, service: Weather) -> None:
    """It asks neither for what is long past nor for what comes later, nor for single readings."""
    asked = [int(each.path.rpartition("=")[2]) for each in service.requests]
    if start and 0 in asked:
        raise Wrong(f"`{name}` was given {start}, and asked for the very first page: begin there.")
    if max(asked, default=0) > end:
        raise Wrong(
            f"`{name}` was given the end {end}, and asked for a page beyond it: stop there."
        )
    if len(asked) > 4 * ((end - start) // PAGE + 2):
        raise Wrong(f"`{name}` made {len(asked)} requests: take all readings of a page.")
    service.requests.clear()


def _compare_rows(found: list[Any], start: int, end: int) -> None:
    called, wanted = f"read(…, {start}, {end})", [(n, DEGREES[n]) for n in range(start, end)]
    try:
        rows = [(row[0], row[1]) for row in found]
    except (TypeError, KeyError, IndexError):
        rows = []
    if found and not (rows and all(isinstance(number, int) for number, _ in rows)):
        raise Wrong(f"{called} must yield (id, degrees), yours yields {found[0]!r}.")
    if rows == wanted:
        return
    if rows == wanted[:PAGE]:
        raise Wrong(
            f"{called} took one page of several: follow `next` until you are at `end`. {_SHORT}"
        )
    if any(number >= end for number, _ in rows):
        raise Wrong(f"{called} read beyond `end`: what came meanwhile belongs to the next batch.")
    if any(number < start for number, _ in rows):
        raise Wrong(f"{called} read what was before `start`: the first page begins there.")
    if rows and rows == wanted[: len(rows)]:
        raise Wrong(
            f"{called} must give {len(wanted)} rows, yours ended before {start + len(rows)}. A "
            f"page may go beyond `end`: take its rows before that. {_SHORT}"
        )
    differ = (row for row, right in zip(rows, wanted, strict=False) if row != right)
    first = "".join(f" {row} is wrong, or not in its place." for row in islice(differ, 1))
    raise Wrong(
        f"{called} must give {len(wanted)} rows, each once and in order: it gave {len(rows)}."
        f"{first}"
    )


# ---- Exercise 2: patience ------------------------------------------------------------------------

MOST_SECONDS = 30.0
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
    _compare_waits(answer, [(429, {"Retry-After": "5"}), _BUSY, _OK], [5, 2], [5, 1])
    _gives_up(answer, _BUSY, [1, 2, 4, 8])
    _gives_up(answer, (429, {"Retry-After": "3600"}), [])
    _gives_up(answer, (429, {"Retry-After": "0"}), [1] * 30)
    _compare_waits(answer, [_BUSY, _BUSY, _OK], [1, 2])  # whatever it did in another call
    return "It waits as long as it is told, and not for ever."


def _patient(answer: Callable[..., Any], script: list[Said]) -> tuple[Any, Any]:
    """The status that came out, and how long it slept each time."""
    answers, slept = iter(script), list[float]()
    given: list[tuple[int, Message, Any]] = []

    def ask() -> tuple[int, Message, Any]:
        status, headers = next(answers, (0, {}))
        if status == 0:
            last = script[-1][0]
            raise Wrong(
                f"After a {last} there is no need to wait: return it, and do not ask again."
            )
        message = Message()
        for name, value in headers.items():
            message[name] = value
        given.append((status, message, {"readings": [], "next": 0} if status == 200 else None))
        return given[-1]

    def sleep(seconds: float) -> None:
        if not isinstance(seconds, int | float):
            raise Wrong(f"`sleep` takes a number, not {seconds!r}: what a header says is text.")
        slept.append(seconds)
        if seconds < 0 or sum(slept) > MOST_SECONDS:
            raise Wrong(f"It slept for {slept} seconds: at most {MOST_SECONDS:g} s in all.")

    found = answer(ask, sleep)
    if [found] != given[-1:]:
        raise Wrong(f"Return what `ask()` returned last, all three; yours returned {found!r}.")
    return found[0], slept


def _compare_waits(answer: Callable[..., Any], script: list[Said], *wanted: list[float]) -> None:
    status, slept = _patient(answer, script)
    told_to = ", ".join(f"{s} {' '.join(map(': '.join, h.items()))}".strip() for s, h in script)
    if status != 200:
        raise Wrong(f"The answers were {told_to}; it returned the {status}: ask again.")
    if slept not in wanted:
        raise Wrong(
            f"The answers were {told_to}: sleep for {' or '.join(map(str, wanted))} seconds, "
            f"yours slept {slept}."
        )


def _gives_up(answer: Callable[..., Any], said: Said, wanted: list[float]) -> None:
    """The service says so each time, and would take the first request after the last pause."""
    status, slept = _patient(answer, [said] * (len(wanted) + 1) + [_OK])
    if slept != wanted:
        told_to = " ".join([str(said[0]), *map(": ".join, said[1].items())])
        raise Wrong(
            f"Each answer was {told_to}: the pauses must be {_short(wanted)}, yours were "
            f"{_short(slept)}. None is shorter than a second, and it gives up when the next one is "
            f"longer than what is left of {MOST_SECONDS:g} seconds."
        )
    if status != said[0]:
        raise Wrong(f"When it gives up it returns the last answer, not {status!r}.")


def _short(pauses: list[float]) -> str:
    texts = ", ".join(f"{seconds:g}" for seconds in pauses[:5])
    return f"[{texts}, …] ({len(pauses)} in all)" if pauses[5:] else f"[{texts}]"


# ---- Exercise 3: a key ---------------------------------------------------------------------------


QUERY = "b2e1f0a7-5c3d-4e8f-9a61-7d2c4b8e0f3"
CONTEXTS = ((QUERY, f"{QUERY}1"), (1, 2, 11, 1000, 10_000), (0, 1, 10, 11, 101))
MANY = 200_000  # rows: two of them have the same key if that is one of four billion
NUMBERS = (*range(300), 1001, 10_001, 100_001, 1_000_001, 2**20 + 1)
ELSEWHERE = ("builtins.hash", "os.getpid", "os.getppid", "socket.gethostname", "time.time")


@exercise("def key(context, number)")
def check_13_3(answer: Callable[..., Any]) -> str:
    """Is the key of a row the same when its batch is repeated, and another one for any other?"""
    other = _of_another_process(answer)
    keys: dict[str, tuple[Any, ...]] = {}
    contexts = [_Context(*which) for which in product(*CONTEXTS)]  # kept: none has another's `id`
    for context, number in product(contexts, NUMBERS):
        which = (context.query, context.batch, context.index, number)
        found = answer(context, number)
        if not isinstance(found, str) or not found.isascii() or not found.isprintable():
            raise Wrong(f"A key is a header: a str of plain letters and digits, not {found!r}.")
        if found in keys:
            raise Wrong(_same_key(keys[found], which, found))
        keys[found] = which
    if len({answer(contexts[0], number) for number in range(MANY)}) < MANY:
        raise Wrong(f"Of {MANY:,} rows some have the same key: it is too short.")
    for key, which in keys.items():
        if key != answer(_Context(*which[:3]), which[3]):
            raise Wrong(
                "Called twice for one row it gave two keys: no time, no random number, no `id`."
            )
    with _elsewhere():  # for one row only: other threads are there, too
        differs = key != other(_Context(*which[:3]), which[3])
    if differs:
        raise Wrong(
            "In another process, later, the key differs: no `hash` of a text, no process id, no "
            "time, no machine, and nothing that is only remembered."
        )
    return "The same row has the same key, whoever sends it, and no other row has it."


class _Context:
    def __init__(self, query: str, batch: int, index: int) -> None:
        self.query, self.batch, self.index = query, batch, index


def _of_another_process(answer: Callable[..., Any]) -> Callable[..., Any]:
    """It knows nothing of what the answer will have remembered by then."""
    try:
        return cast("Callable[..., Any]", copied(answer))
    except Exception:  # it cannot travel
        return answer


@contextmanager
def _elsewhere() -> Iterator[None]:
    """As in another process, later: its number, hashes of texts, and the time are others."""
    with ExitStack() as stack:
        for name in ELSEWHERE:
            stack.enter_context(mock.patch(name, lambda *_: 7))
        yield


def _same_key(one: tuple[Any, ...], other: tuple[Any, ...], key: str) -> str:
    names = ("query", "batch", "index", "number")
    differ = [name for name, a, b in zip(names, one, other, strict=True) if a != b]
    if len(differ) > 1:
        return (
            f"Two rows have the key {key!r}: put something between the parts, such as '-', and "
            "shorten neither the parts nor the key."
        )
    return (
        f"Rows that differ in `{differ[0]}` have the same key, {key!r}: all of it belongs in the "
        "key."
    )
