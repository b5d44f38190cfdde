"""The checks of notebook 21, the capstone."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from tests.unit.workbook.answers import changed, tried
from tests.unit.workbook.capstone import (
    ask,
    commit,
    latest,
    patiently,
    read,
    sink_of,
    source_of,
)
from tutorial_pkg import SourceBuilder
from tutorial_pkg.workbook.checks import check_21_1, check_21_2, check_21_3, notebook_21


@pytest.fixture(autouse=True)
def hanging_answers_are_noticed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_21._OneReply, "timeout", 2.0)


def until_the_end(address: str, request: str, lines: Any = ()) -> list[str]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        *found, _ = connection.makefile(encoding="utf-8", newline="\n").read().split("\n")
    return [found[0].removeprefix("OK "), *found[1:]]


MAKEFILE = 'connection.makefile(encoding="utf-8", newline="\\n")'
ONE_PIECE = "__import__('io').StringIO(connection.recv(65536).decode())"
test_21_1 = tried(
    check_21_1,
    (ask, "✓ A whole reply"),
    ("text", "A function is wanted"),
    (changed(ask, (MAKEFILE, ONE_PIECE)), "A reply may take a second, and come in two pieces"),
    (until_the_end, "it waits for more. Read as many"),
    (
        changed(ask, ("line_of(stream)", "stream.readline().strip()")),
        "as they are: only the newline",
    ),
    (
        changed(ask, ("line_of(stream)", "stream.readline().rstrip('\\n')")),
        "was closed without a reply",
    ),
    (changed(ask, ('word == "BUSY"', "False")), "BUSY: nothing was done"),
    (
        changed(ask, ("ValueError", "ConnectionError")),
        "must raise ValueError, yours raised ConnectionError",
    ),
    (changed(ask, ("*lines]", "*lines][:1]")), "must send b'BOOK orders me 1 2\\nnuts\\nbolts\\n'"),
    (changed(ask, ('utf-8"', 'latin-1"')), "Text is UTF-8"),
    (changed(ask, ("return [rest] +", "return")), "Return what follows OK"),
    (changed(ask, ("timeout=5", "timeout=0.5")), "A reply may take a second, and come"),
    (
        changed(ask, ('request.startswith("PAGE")', "rest.isdecimal()")),
        "it waits for more. Read as many",
    ),
)


def changed_read(*edits: tuple[str, str]) -> Any:
    return source_of(latest, changed(read, *edits))


def pages_one_by_one(context: Any, book: str, start: int, end: int) -> Any:
    """From the oldest page on, as long as there are entries, and each line as it comes."""
    pages = range((latest(context, book, 1) - 1) // 50, -1, -1)
    for page in pages:
        request = f"PAGE {book} {page}"
        for line in reversed(
            patiently(lambda request=request: ask(context.options.address, request))[1:]
        ):
            number, _, text = line.partition(" ")
            if start <= int(number) < end:
                yield int(number), text


test_21_2 = tried(
    check_21_2,
    (source_of(latest, read), "✓ Each entry once"),
    (read, "A data source class is wanted"),
    (
        SourceBuilder.cursor("orders", "number LONG", lambda context, split, at: []).build(),
        "This source needs a log",
    ),
    (
        source_of(latest, read, splits=lambda context: [context.options.book]),
        "an endless loop? A book begins at entry 1",
    ),
    (
        source_of(latest, read, splits=lambda context: {"orders": 1}),
        "the split is the book that the option names",
    ),
    (source_of(latest, pages_one_by_one), "while others book: of the entries 1 to 120"),
    (
        source_of(changed(latest, (" + 1", "")), read),
        "`latest` is the next unread number, one more than LAST",
    ),
    (
        changed_read(("range(start, end)", "sorted(found)")),
        "which is beyond the batch: stop at `end`",
    ),
    (
        changed_read(("range(start, end)", "range(end - 1, start - 1, -1)")),
        "give the oldest first",
    ),
    (
        changed_read(("(last_of(context, book) - (end - 1)) // 50", "0")),
        "do not begin at page 0",
    ),
    (changed_read(("patiently(", "(lambda work: work())(")), "It raised"),
    (
        changed_read(
            ('number, _, text = line.partition(" ")', "number, text = line.split(None, 1)")
        ),
        "A row is",
    ),
    (source_of(changed(latest, ("(context, book)", '(context, "orders")')), read), "did not come"),
)


def changed_commit(*edits: tuple[str, str]) -> Any:
    return sink_of(changed(commit, *edits))


test_21_3 = tried(
    check_21_3,
    (sink_of(commit), "✓ Each batch once and whole"),
    (commit, "A data source class is wanted"),
    (
        changed_commit(('ask(context.options.address, f"MEMO {book}") != [memo]', "True")),
        "again, after",
    ),
    (changed_commit(("{context.query}", "me")), "after another query: book as"),
    (changed_commit(("    if lines:\n        ", "    ")), "BOOK takes 1 to 10000 lines"),
    (changed_commit(("patiently(book_once)", "book_once()")), "✓ Each batch once and whole"),
    (
        changed_commit(
            ("            ask(", "            patiently(lambda: ask("),
            ("lines)\n\n", "lines))\n\n"),
        ),
        "the reply was lost, the lines were booked",
    ),
    (changed_commit(("{context.options.book}", "copies")), "lines are missing in the book"),
    (
        changed_commit(
            ("!= [memo]", "< [memo]"),
        ),
        "compare numbers",
    ),
)
