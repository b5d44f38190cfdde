"""The checks of notebook 21, the capstone."""

from __future__ import annotations

import contextlib
import io
import socket
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.workbook.answers import changed, tried
from tests.unit.workbook.capstone import (
    ask,
    commit,
    last_of,
    latest,
    line_of,
    patiently,
    read,
    sink_of,
    source_of,
)
from tutorial_pkg import SourceBuilder
from workbook.checks import check_21_1, check_21_2, check_21_3, notebook_21


@pytest.fixture(autouse=True)
def hanging_answers_are_noticed_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_21._OneReply, "timeout", 2.0)


def until_the_end(address: str, request: str, lines: Any = ()) -> list[str]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        *found, _ = connection.makefile(encoding="utf-8", newline="\n").read().split("\n")
    return [found[0].removeprefix("OK "), *found[1:]]


def to_its_end(address: str, request: str, lines: Any = ()) -> list[str]:
    """It says that no more requests come, and so the ledger closes the connection."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        connection.shutdown(socket.SHUT_WR)
        *whole, rest = b"".join(iter(lambda: connection.recv(4096), b"")).split(b"\n")
    found = [line.decode() for line in whole]
    word, _, value = found[0].partition(" ") if found else ("", "", "")
    if word == "NO":
        raise ValueError(value)
    wanted = int(value) if word == "OK" and request.startswith("PAGE") else 0
    if rest or word != "OK" or len(found) != 1 + wanted:
        raise ConnectionError("no whole reply")
    return [value, *found[1:]]


class Client:
    def __call__(self, address: str, request: str, lines: Any = ()) -> list[str]:
        return to_its_end(address, request, iter(lines))


def by_splitlines(address: str, request: str, lines: Any = ()) -> list[str]:
    first, *more = ask(address, request, lines)
    return [first, *"\n".join(more).splitlines()]


def as_long_as_busy(address: str, request: str, lines: Any = ()) -> list[str]:
    """Each time over a connection of its own."""
    while True:
        try:
            return ask(address, request, lines)
        except ConnectionError as error:
            if "cut" in str(error):
                raise


def again_if_busy(address: str, request: str, lines: Any = ()) -> list[str]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=1) as connection:
        stream = connection.makefile("rwb")
        while True:
            stream.write("".join(f"{line}\n" for line in [request, *lines]).encode())
            stream.flush()
            word, _, rest = line_of(stream).partition(" ")
            if word == "NO":
                raise ValueError(rest)
            if word == "OK":
                count = int(rest) if request.startswith("PAGE") else 0
                return [rest] + [line_of(stream) for _ in range(count)]


def until_a_newline(address: str, request: str, lines: Any = ()) -> list[str]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        data = b""
        while not data.endswith(b"\n"):
            data += (piece := connection.recv(65536))
            if not piece:
                raise ConnectionError("the reply was cut")
    word, _, rest = data[:-1].decode().partition(" ")
    first, *more = rest.split("\n")
    if word == "NO":
        raise ValueError(rest)
    if word == "BUSY" or (request.startswith("PAGE") and len(more) != int(first)):
        raise ConnectionError("no whole reply")
    return [first, *more]


def by_pieces(address: str, request: str, lines: Any = ()) -> list[str]:
    """It takes the end of a piece for the end of a line."""
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
        pieces = iter(lambda: connection.recv(65536), b"")
        each = (line for piece in pieces for line in io.BytesIO(piece))
        stream = SimpleNamespace(readline=lambda: next(each, b""))
        word, _, rest = line_of(stream).partition(" ")
        if word != "OK":
            raise ConnectionError(rest) if word == "BUSY" else ValueError(rest)
        count = int(rest) if request.startswith("PAGE") else 0
        return [rest, *(line_of(stream) for _ in range(count))]


def as_text(*, encoding: str = "utf-8", newline: str | None = "\n") -> Any:
    """The answer with a stream of text."""

    def in_text(address: str, request: str, lines: Any = ()) -> list[str]:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall("".join(f"{line}\n" for line in [request, *lines]).encode())
            stream = connection.makefile(encoding=encoding, newline=newline)

            def whole() -> str:
                line = stream.readline()
                if not line.endswith("\n"):
                    raise ConnectionError("the reply was cut")
                return line[:-1]

            word, _, rest = whole().partition(" ")
            if word != "OK":
                raise ConnectionError(rest) if word == "BUSY" else ValueError(rest)
            count = int(rest) if request.startswith("PAGE") else 0
            return [rest, *(whole() for _ in range(count))]

    return in_text


MAKEFILE = 'connection.makefile("rb")'
ONE_PIECE = "__import__('io').BytesIO(connection.recv(65536))"
test_21_1 = tried(
    check_21_1,
    (ask, "✓ A whole reply"),
    ("text", "A function is wanted"),
    (changed(ask, (MAKEFILE, ONE_PIECE)), "A reply may take a second, and come in pieces"),
    (until_a_newline, "in pieces that end anywhere: count whole lines"),
    (by_pieces, "in pieces that end anywhere: count whole lines"),
    (until_the_end, "it waits for more. Read as many"),
    (
        changed(ask, ("line_of(stream)", "stream.readline().decode().strip()")),
        "as they are: only the newline",
    ),
    (
        changed(ask, ("line_of(stream)", "stream.readline().decode().rstrip('\\n')")),
        "was closed without a reply",
    ),
    (changed(ask, ('word == "BUSY"', "False")), "BUSY: nothing was done"),
    (
        changed(ask, ("ValueError", "ConnectionError")),
        "must raise ValueError, yours raised ConnectionError",
    ),
    (changed(ask, ("*lines]", "*lines][:1]")), "must send b'BOOK orders me 1 2\\nnuts\\nbolts\\n'"),
    (as_text(), "The reply was cut, within a letter"),
    (as_text(encoding="latin-1"), "Text is UTF-8"),
    (changed(ask, ("return [rest] +", "return")), "Return what follows OK"),
    (changed(ask, (", timeout=5", "")), "waits for ever for a ledger that falls silent"),
    (changed(ask, ("timeout=5", "timeout=0.5")), "A reply may take a second, and come"),
    (changed(ask, ("timeout=5", "timeout=1")), "A reply may take a second, and come"),
    (changed(ask, ("timeout=5", "timeout=1"), ("sendall", "send")), "`sendall` sends all of it"),
    (changed(ask, ("encode()", "encode('ascii')")), "Text is UTF-8, lines that you send, too"),
    (
        changed(ask, ('request.startswith("PAGE")', "rest.isdecimal()")),
        "it waits for more. Read as many",
    ),
    (changed(ask, ('request.startswith("PAGE")', '"PAGE" in request')), "Lines follow only after"),
    (as_text(newline=None), "as they are: only the newline goes"),
    (changed(ask, ('word == "NO"', '"NO" in rest')), "A memo may be any word"),
    (changed(ask, ('word == "BUSY"', '"BUSY" in word + rest')), "A memo may be any word"),
    (by_splitlines, "as they are: only the newline goes"),
    (again_if_busy, "the ledger got b'LAST orders\\nLAST orders\\n'"),
    (as_long_as_busy, "It tries once, and"),
    (
        changed(
            ask,
            ("with socket", "for connection in [socket"),
            ("timeout=5) as connection", "timeout=5)]"),
            (
                "        connection.sendall",
                "        left_open.append(connection)\n        connection.sendall",
            ),
            (
                "lines: Any = ()",
                "lines: Any = (), left_open: Any = []",
            ),
        ),
        "the connection stays open",
    ),
    (to_its_end, "✓ A whole reply"),
    (Client(), "✓ A whole reply"),
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


to_the_oldest = changed(read, ("while start not in found:", "while 1 not in found:"))
four_pages = changed(
    read, ("while start not in found:", "for page in range(page, page + 4):"), ("page += 1", "pass")
)
as_many_pages_as_there_were = changed(
    read,
    ("while start not in found:", "for page in range(page, page + (end - start) // 50 + 1):"),
    ("page += 1", "pass"),
    ("range(start, end))", "sorted(found) if start <= number < end)"),
)


def last_kept_by_latest() -> Any:
    newest = [0]

    def keeping(context: Any, book: str, start: int) -> int:
        newest.append(last_of(context, book))
        return newest[-1] + 1

    def reading(*asked: Any) -> Any:
        return changed(read, ("last_of(context, book)", str(newest[-1])))(*asked)

    return source_of(keeping, reading)


def nothing_after_an_error(*asked: Any) -> Any:
    try:
        return list(changed(read, ("patiently(", "(lambda work: work())("))(*asked))
    except OSError:
        return []


def one_for_each_text(*asked: Any) -> Any:
    found = {text: number for number, text in reversed([*read(*asked)])}
    yield from sorted((number, text) for text, number in found.items())


def in_a_list(context: Any, book: str, start: int, end: int) -> list[Any]:
    found: dict[int, str] = {}
    page = max(0, last_of(context, book) - end) // 50
    while not found or min(found) > start:
        request = f"PAGE {book} {page}"
        lines = patiently(lambda request=request: ask(context.options.address, request))[1:]
        found.update((int(line.split(" ")[0]), line.split(" ", 1)[1]) for line in lines)
        page += 1
        if not lines:
            break
    return [(number, found[number]) for number in sorted(found) if start <= number < end]


def in_one_batch(*asked: Any) -> Any:
    numbers, texts = zip(*read(*asked), strict=True)
    yield pa.record_batch({"number": list(numbers), "text": list(texts)})


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
        "split is the book that the option names, shop, not orders",
    ),
    (source_of(latest, pages_one_by_one), "such as 1. Entries move to later pages meanwhile"),
    (
        changed_read(("while start not in found:", "while len(found) < end - start:")),
        "KeyError: 1. Entries move to later pages meanwhile",
    ),
    (last_kept_by_latest(), "the book shop: it raised FunctionError"),
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
        changed_read(
            (
                "(last_of(context, book) - (end - 1)) // 50",
                "(last_of(context, book) - end + 2) // 50",
            )
        ),
        "120 being the last one on its page: it raised FunctionError",
    ),
    (
        changed_read(
            (
                "(last_of(context, book) - (end - 1)) // 50",
                "round((last_of(context, book) - end) / 50)",
            ),
            ("range(start, end))", "range(start, end) if number in found)"),
        ),
        "1 did not come, such as 120. Begin at the page that has `end - 1`",
    ),
    (
        changed_read(("(last_of(context, book) - (end - 1)) // 50", "0")),
        "do not begin at page 0",
    ),
    (source_of(latest, to_the_oldest), "turn no more pages when you have entry `start`"),
    (changed_read(("patiently(", "(lambda work: work())(")), "for a page, not for the whole batch"),
    (
        changed_read(
            ('number, _, text = line.partition(" ")', "number, text = line.split(None, 1)")
        ),
        "{'number': 1, 'text': ' order 0 '}, yours is {'number': 1, 'text': 'order 0 '}",
    ),
    (source_of(changed(latest, ("(context, book)", '(context, "orders")')), read), "did not come"),
    (
        source_of(latest, read, splits=lambda context: {context.options.book: 1, "other": 1}),
        "split is the book that the option names, shop, not other, shop",
    ),
    (source_of(latest, read, schema="number INT, text STRING"), "yours is `number INT, text STR"),
    (source_of(latest, read, schema="text STRING, number LONG"), "yours is `text STRING, number"),
    (source_of(latest, read, name="my_orders"), "It must be named 'orders', yours is 'my_orders'"),
    (source_of(latest, four_pages), "KeyError"),
    (source_of(latest, as_many_pages_as_there_were), "while others book: of the entries 1 to 120"),
    (source_of(latest, one_for_each_text), "59 did not come, such as 3. Go by the numbers"),
    (source_of(latest, nothing_after_an_error), "do not take it for an empty page"),
    (source_of(latest, in_one_batch, schema="number: bigint, text: string"), "✓ Each entry once"),
    (
        source_of(lambda context, book, start: max(start, latest(context, book, start)), in_a_list),
        "✓ Each entry once",
    ),
)


def changed_commit(*edits: tuple[str, str]) -> Any:
    return sink_of(changed(commit, *edits))


def a_writer_for_each_batch(context: Any, handles: list[list[str]]) -> None:
    lines = [line for handle in handles for line in handle]
    place = f"{context.options.book} {context.query}-{context.batch}"

    def book_once() -> None:
        if lines and ask(context.options.address, f"MEMO {place}") == ["-"]:
            ask(context.options.address, f"BOOK {place} done {len(lines)}", lines)

    patiently(book_once)


def by_last(context: Any, handles: list[list[str]]) -> None:
    lines = [line for handle in handles for line in handle]
    book = context.options.book
    before = last_of(context, book)

    def book_once() -> None:
        if lines and last_of(context, book) == before:
            memo = f"{context.query} {context.batch} {len(lines)}"
            ask(context.options.address, f"BOOK {book} {memo}", lines)

    patiently(book_once)


def book_of_each_task(context: Any, handles: list[list[str]]) -> None:
    for number, handle in enumerate(handles):
        edits = ("{context.query}", f"{{context.query}}-{number}")
        changed(commit, edits)(context, [handle])


def in_chunks(context: Any, handles: list[list[str]], size: int = 100) -> None:
    lines = [line for handle in handles for line in handle]
    for first in range(0, len(lines), size):
        edits = ("str(context.batch)", f"str(context.batch) + '.{first}'")
        changed(commit, edits)(context, [lines[first : first + size]])


def in_thousands(context: Any, handles: list[list[str]]) -> None:
    in_chunks(context, handles, 1_000)


def without_empty_lines(context: Any, handles: list[list[str]]) -> None:
    commit(context, [list(filter(None, handle)) for handle in handles])


def without_refusals(context: Any, handles: list[list[str]]) -> None:
    with contextlib.suppress(ValueError):
        commit(context, handles)


test_21_3 = tried(
    check_21_3,
    (sink_of(a_writer_for_each_batch), "✓ Each batch once and whole"),
    (sink_of(lambda context, handles: commit(context, sorted(handles))), "✓ Each batch once"),
    (sink_of(by_last), "the same batch again, after a crash"),
    (sink_of(book_of_each_task), "was booked in 2 steps: one BOOK for all"),
    (
        changed_commit(("!= [memo]", "== ['-']")),
        "the next batch: compare the memo with its number. Lines missing from the book: 1,",
    ),
    (changed_commit(("!= [memo]", "!= memo")), "the same batch again, after a crash"),
    (
        changed_commit(("{context.query}", "{context.query.split('-')[0]}")),
        "after another query: book as",
    ),
    (
        changed_commit(("[line for", "{line for"), ("in handle]", "in handle}")),
        "and equal ones, too. Lines missing from the book: 1500, such as 'nuts'; too many: 0.",
    ),
    (
        changed_commit(("[line for", "[line.strip() for")),
        "missing from the book: 1, such as ' bolts '; too many: 1, such as 'bolts'.",
    ),
    (sink_of(in_chunks), "was booked in 16 steps: one BOOK for all"),
    (sink_of(in_thousands), "was booked in 2 steps: one BOOK for all"),
    (
        changed_commit(("str(context.batch)", "str(hash(tuple(lines)))")),
        "a batch of the same lines: the memo is the batch's number",
    ),
    (sink_of(without_refusals), "let the ValueError end `commit`"),
    (
        sink_of(without_empty_lines),
        "equal ones, too. Lines missing from the book: 1, such as ''; too many: 0.",
    ),
    (sink_of(commit, name="mine"), "It must be named 'copies', yours is 'mine'"),
    (sink_of(commit), "✓ Each batch once and whole"),
    (commit, "A data source class is wanted"),
    (
        changed_commit(('ask(context.options.address, f"MEMO {book}") != [memo]', "True")),
        "again, after",
    ),
    (changed_commit(("!= [memo]", "== [str(context.batch - 1)]")), "No BOOK came for batch 0"),
    (changed_commit(("{context.query}", "me")), "after another query: book as"),
    (changed_commit(("    if lines:\n        ", "    ")), "A BOOK without lines was refused"),
    (changed_commit(("patiently(book_once)", "book_once()")), "✓ Each batch once and whole"),
    (
        changed_commit(
            ("            ask(", "            patiently(lambda: ask("),
            ("lines)\n\n", "lines))\n\n"),
        ),
        "the reply was lost, the lines were booked",
    ),
    (changed_commit(("{context.options.book}", "copies")), "one BOOK for all handles, in archive"),
    (
        changed_commit(
            ("!= [memo]", "< [memo]"),
        ),
        "compare numbers",
    ),
)
