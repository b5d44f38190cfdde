"""The checks of notebook 13."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import random
import socket
import time
import uuid
import zlib
from typing import Any
from urllib.request import urlopen

import pytest

from tests.unit.workbook.answers import changed, tried
from workbook.checks import check_13_1, check_13_2, check_13_3
from workbook.checks import notebook_13 as checks
from workbook.checks.trial import context_of

# ---- Exercise 1 ----------------------------------------------------------------------------------


def page_at(context: Any, position: int) -> Any:
    with urlopen(f"{context.options.url}/readings?from={position}", timeout=10) as answer:
        return json.load(answer)


def latest(context: Any, split: str, start: int) -> int:
    while (following := page_at(context, start)["next"]) != start:
        start = following
    return start


def read(context: Any, split: str, start: int, end: int) -> Any:
    while start < end:
        page = page_at(context, start)
        for reading in page["readings"]:
            if reading["id"] < end:
                yield reading["id"], reading["degrees"]
        start = page["next"]


def one_page_latest(context: Any, split: str, start: int) -> int:
    return int(page_at(context, start)["next"])


def one_page_read(context: Any, split: str, start: int, end: int) -> Any:
    readings = page_at(context, start)["readings"]
    return [(one["id"], one["degrees"]) for one in readings if one["id"] < end]


def read_by_hundreds(context: Any, split: str, start: int, end: int) -> Any:
    for first in range(start, end, 100):
        yield from one_page_read(context, split, first, end)


def read_by_the_first_size(context: Any, split: str, start: int, end: int) -> Any:
    """As if all pages were as long as the first one."""
    size = len(page_at(context, start)["readings"])
    for first in range(start, end, size):
        yield from one_page_read(context, split, first, end)


def read_whole_pages(context: Any, split: str, start: int, end: int) -> Any:
    while (page := page_at(context, start))["next"] <= end and page["readings"]:
        yield from ((one["id"], one["degrees"]) for one in page["readings"])
        start = page["next"]


def latest_to_a_short_page(context: Any, split: str, start: int) -> int:
    while True:
        page = page_at(context, start)
        start = page["next"]
        if len(page["readings"]) < 100:
            return start


def read_from_the_hundred(context: Any, split: str, start: int, end: int) -> Any:
    return read(context, split, start // 100 * 100, end)


def latest_from_0(context: Any, split: str, start: int) -> int:
    return latest(context, split, 0)


def read_from_0(context: Any, split: str, start: int, end: int) -> Any:
    return [row for row in read(context, split, 0, end) if row[0] >= start]


def read_to_the_last_page(context: Any, split: str, start: int, end: int) -> Any:
    return [row for row in read(context, split, start, THERE_AND_LATER) if row[0] < end]


def read_one_by_one(context: Any, split: str, start: int, end: int) -> Any:
    for number in range(start, end):
        yield next(read(context, split, number, number + 1))


def latest_in_a_call(context: Any, split: str, start: int) -> int:
    following = page_at(context, start)["next"]
    return start if following == start else latest_in_a_call(context, split, following)


known_pages = functools.cache(lambda url, position: page_at(context_of(url=url), position))


def latest_of_known_pages(context: Any, split: str, start: int) -> int:
    while (following := known_pages(context.options.url, start)["next"]) != start:
        start = following
    return start


def read_a_list(context: Any, split: str, start: int, end: int) -> list[list[Any]]:
    return [[number, degrees] for number, degrees in read(context, split, start, end)]


THERE_AND_LATER = 280
PAIR = 'yield reading["id"], reading["degrees"]'
test_13_1 = tried(
    check_13_1,
    ((latest, read), "✓ To the last page"),
    ([latest_in_a_call, read_a_list], "✓ To the last page"),
    (
        (latest, changed(read, (PAIR, 'yield reading["degrees"], reading["id"]'))),
        "must yield (id, degrees), yours yields (20.25, 0)",
    ),
    (
        (latest, changed(read, (PAIR, 'yield str(reading["id"]), reading["degrees"]'))),
        "must yield (id, degrees), yours yields ('0', 20.25)",
    ),
    (
        (latest, changed(read, (PAIR, 'yield reading["id"], round(reading["degrees"])'))),
        "it gave 250. (0, 20) is wrong, or not in its place",
    ),
    (
        (latest, lambda *asked: list(read(*asked))[::-1]),
        "(249, -104.25) is wrong, or not in its place",
    ),
    ((latest, read_to_the_last_page), "asked for a page beyond it"),
    ((latest, read_one_by_one), "`read` made 250 requests: take all readings of a page"),
    ((lambda *asked: float(latest(*asked)), read), "yours is 250.0"),
    (latest, "Two functions are wanted"),
    ((latest, None), "Two functions are wanted"),
    ((latest_of_known_pages, read), "30 more readings came, and `latest` still says 250"),
    ((one_page_latest, read), "reported the end of one page, 70"),
    ((lambda *_: 249, read), "must be 250, the next unread position; yours is 249"),
    ((lambda *_: 250, read), "Nothing was measured: `latest` must stay at 0"),
    ((lambda *_: None, read), "must be 250"),
    (
        (latest, one_page_read),
        "follow `next` until you are at `end`. A page with fewer than 100 readings",
    ),
    ((latest, changed(read, ('if reading["id"] < end', "if True"))), "read beyond `end`"),
    ((latest, read_from_the_hundred), "read what was before `start`"),
    ((latest, read_by_hundreds), "must give 250 rows"),
    (
        (latest, read_whole_pages),
        "read(…, 0, 250) must give 250 rows, yours ended before 210. A page may go beyond `end`",
    ),
    ((latest, read_by_the_first_size), "(140, -49.75) is wrong, or not in its place"),
    ((latest_to_a_short_page, read), "reported the end of one page, 70"),
    (
        (latest, changed(read, (PAIR, "yield reading"))),
        "must yield (id, degrees)",
    ),
    (
        (latest, changed(read, ("        start = page", "        return\n        start = page"))),
        "took",
    ),
    ((latest_from_0, read), "`latest` was given 130, and asked for the very first page"),
    ((latest, read_from_0), "`read` was given 30, and asked for the very first page"),
    ((latest, lambda *_: None), "must give 250 rows, each once and in order: it gave 0"),
    ((lambda context, split: 0, read), "It raised TypeError"),
)


def test_13_1_a_walk_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would go on for ever: the loop ends here when its page is emptied."""
    monkeypatch.setattr(checks, "PATIENCE", 0.5)
    pages: list[Any] = []

    def walks(context: Any, split: str, start: int) -> int:
        pages.append(page_at(context, start))
        while pages[-1]["readings"]:
            start = pages[-1]["next"]
        return start

    verdict = check_13_1((walks, read))
    for page in pages:
        page["readings"].clear()
    assert "`latest` does not come back" in verdict.message


@pytest.mark.parametrize("condition", ["start <= end", "start != end"])
def test_13_1_a_read_without_end(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    """It asks until the service is gone: `end` is where all ends, or a page goes beyond it."""
    monkeypatch.setattr(checks, "PATIENCE", 0.5)
    verdict = check_13_1((latest, changed(read, ("start < end", condition))))
    assert "`read` does not come back: it ends when it has reached `end` or" in verdict.message


# ---- Exercise 2 ----------------------------------------------------------------------------------


def patiently(ask: Any, sleep: Any) -> Any:
    pause, left = 1.0, 30.0
    while True:
        status, headers, content = ask()
        seconds = max(1, float(headers["Retry-After"] or pause))
        if status not in (429, 503) or seconds > left:
            return status, headers, content
        sleep(seconds)
        pause, left = 2 * pause, left - seconds


def patient(*edits: tuple[str, str]) -> Any:
    return changed(patiently, *edits)


def in_a_loop(ask: Any, sleep: Any) -> Any:
    """The pause doubles only where the service does not say how long."""
    slept, pause = 0.0, 1.0
    for answer in iter(ask, None):
        told = answer[1].get("Retry-After")
        seconds = max(1, int(told)) if told else pause
        if answer[0] not in {429, 503} or slept + seconds > 30:
            return answer
        sleep(seconds)
        slept, pause = slept + seconds, pause if told else 2 * pause
    return None


def in_a_call(ask: Any, sleep: Any, pause: float = 1, slept: float = 0) -> Any:
    status, headers, content = ask()
    seconds = max(float(headers["Retry-After"] or pause), 1)
    if status not in (429, 503) or slept + seconds > 30:
        return status, headers, content
    sleep(seconds)
    return in_a_call(ask, sleep, 2 * pause, slept + seconds)


def never_forgets() -> Any:
    """The next call goes on with the pause of the one that gave up."""
    pause = 1.0

    def answer(ask: Any, sleep: Any) -> Any:
        nonlocal pause
        left = 30.0
        while True:
            found = ask()
            if found[0] not in (429, 503):
                pause = 1.0
                return found
            seconds = max(1, float(found[1]["Retry-After"] or pause))
            if seconds > left:
                return found
            sleep(seconds)
            pause, left = 2 * pause, left - seconds

    return answer


test_13_2 = tried(
    check_13_2,
    (never_forgets(), "it returned the 503: ask again"),
    (patiently, "✓ It waits as long as it is told"),
    (lambda ask, sleep: ask(), "it returned the 429: ask again"),
    (patient(("not in (429, 503)", "!= 503")), "it returned the 429"),
    (patient(("not in (429, 503)", "!= 429")), "it returned the 503"),
    (
        patient(("status not in (429, 503)", "status == 200")),
        "After a 304 there is no need to wait",
    ),
    (patient(("status not in (429, 503)", "status < 400")), "After a 404 there is no need to wait"),
    (
        patient(("status not in (429, 503)", "status < 500 and status != 429")),
        "After a 500 there is no need",
    ),
    (
        patient(('headers["Retry-After"] or pause', "pause")),
        "sleep for [3] seconds, yours slept [1]",
    ),
    (
        patient(('float(headers["Retry-After"] or pause)', 'float(headers["Retry-After"])')),
        "TypeError",
    ),
    (
        patient(("        if status not", "        sleep(seconds)\n        if status not")),
        "slept [3.0]",
    ),
    (in_a_loop, "✓ It waits as long as it is told"),
    (in_a_call, "✓ It waits as long as it is told"),
    (
        patient(
            (
                "return status, headers, content",
                "return ask() if status == 503 and seconds > left else (status, headers, content)",
            )
        ),
        "When it gives up it returns the last answer, not 200",
    ),
    (
        patient(("2 * pause", "2 * seconds")),
        "429 Retry-After: 5, 503, 200: sleep for [5, 2] or [5, 1] seconds, yours slept [5.0, 10.0]",
    ),
    (patient(("2 * pause", "pause")), "sleep for [1, 2, 4] seconds, yours slept [1, 1, 1]"),
    (
        patient(("sleep(seconds)", 'sleep(headers["Retry-After"] or pause)')),
        "`sleep` takes a number, not '3'",
    ),
    (patient(("max(1, ", "(")), "yours were [0, 0, 0, 0, 0, …] (31 in all)"),
    (patient(("seconds > left", "False")), "at most 30 s in all"),
    (patient(("sleep(seconds)", "pass"), ("left - seconds", "left")), "Retry-After: 3"),
    (patient(("seconds > left", "seconds > 3")), "it returned the 429"),
    (patient(("seconds > left", "pause > 8")), "It slept for [3600.0] seconds"),
    (patient(("seconds > left", "seconds >= left")), "it returned the 503: ask again"),
    (
        patient(('headers["Retry-After"] or pause', 'headers["Retry-After"] or 0) or float(pause')),
        "the pauses must be [1, 1, 1",
    ),
    (
        patient(("return status, headers, content", "return content")),
        "Return what `ask()` returned",
    ),
    (
        patient(("return status, headers, content", "return status, content, headers")),
        "Return what `ask()` returned last, all three",
    ),
    (
        patient(
            ("    while True:", "    answers = []\n    while True:"),
            (
                "content = ask()",
                "content = ask()\n        answers.append((status, headers, content))",
            ),
            (
                "return status, headers, content",
                "return answers[0] if seconds > left else (status, headers, content)",
            ),
        ),
        "Return what `ask()` returned last",
    ),
    (patient((" or seconds > left", ""), ("left - seconds", "left")), "at most 30 s"),
    (
        patient(
            (" or seconds > left", " or not left"),
            ("sleep(seconds)", "sleep(min(seconds, left))"),
            ("left - seconds", "max(0, left - seconds)"),
        ),
        "the pauses must be [1, 2, 4, 8]",
    ),
)


# ---- Exercise 3 ----------------------------------------------------------------------------------


def key(context: Any, number: int) -> str:
    return f"{context.query}-{context.batch}-{context.index}-{number}"


counting = itertools.count()
cached = functools.cache(lambda context, number: str(next(counting)))


def with_(*edits: tuple[str, str]) -> Any:
    return changed(key, *edits)


def drawn_once(context: Any, number: int, known: Any = {}) -> str:  # noqa: B006
    """A random key, which only this process remembers."""
    return str(known.setdefault(key(context, number), str(uuid.uuid4())))


test_13_3 = tried(
    check_13_3,
    (key, "✓ The same row has the same key"),
    (lambda context, number: number, "a str of plain letters"),
    (lambda context, number: key(context, number).encode(), "a str of plain letters"),
    (lambda context, number: f"{key(context, number)}\n", "a str of plain letters"),
    (lambda context, number: str(random.random()), "Called twice for one row it gave two keys"),
    (lambda context, number: f"{key(context, number)}-{next(counting)}", "it gave two keys"),
    (lambda context, number: cached(id(context), number), "it gave two keys"),
    (with_(("{context.query}-", "")), "Rows that differ in `query` have the same key"),
    (with_(("{context.batch}-", "")), "Rows that differ in `batch` have the same key"),
    (with_(("{context.index}-", "")), "Rows that differ in `index` have the same key"),
    (with_(("-{number}", "")), "Rows that differ in `number` have the same key"),
    (with_(("}-{", "}{")), "put something between the parts"),
    (lambda context, number: f"{key(context, number)}-{os.getpid()}", "In another process"),
    (with_(("{context.index}-{number}", "{1000 * context.index + number}")), "between the parts"),
    (with_(("{context.index}-{number}", "{10**6 * context.index + number}")), "between the parts"),
    (with_(("{context.index}-{number}", "{(context.index << 20) + number}")), "between the parts"),
    (lambda context, number: str(hash(key(context, number))), "In another process"),
    (lambda context, number: context.name, "It raised AttributeError"),
    (
        lambda context, number: hashlib.sha256(key(context, number).encode()).hexdigest(),
        "✓ The same",
    ),
    (lambda *row: json.dumps([*vars(row[0]).values(), row[1]]), "✓ The same row has the same key"),
    (lambda context, number: f"{context!r}-{number}", "Called twice for one row it gave two keys"),
    (lambda context, number: f"{key(context, number)}-{int(time.time())}", "no time"),
    (lambda context, number: f"{key(context, number)}-{socket.gethostname()}", "no machine"),
    (changed(drawn_once), "In another process, later, the key differs"),
    (with_(("context.query", "context.query[:8]")), "Rows that differ in `query`"),
    (with_(("{context.index}-{number}", "{context.index}{number:04}")), "between the parts"),
    (
        with_(("{context.batch}-{context.index}-", "{10 * context.batch + context.index}-")),
        "between the parts",
    ),
    (with_(("}-{", "}{"), ("batch}", "batch:04}"), ("index}", "index:04}")), "between the parts"),
    (with_(("-{number}", "-{number % 100}")), "all of it belongs in the key"),
    (
        lambda context, number: hashlib.sha256(key(context, number).encode()).hexdigest()[:8],
        "Of 200,000 rows some have the same key",
    ),
    (lambda context, number: f"{zlib.crc32(key(context, number).encode()) % 65536:x}", "Two rows"),
)
