"""Checks of notebook 13, the capstone: with a ledger in this process that makes trouble."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter

from spark_connector_tests import StreamSink, StreamSource, examine_sink, examine_source
from workbook.checks.trial import (
    must_keep_all,
    rows_after_restart,
    run_and_restart,
    run_to_end,
    scratch,
    session,
)
from workbook.checks.verdict import Wrong, error_line, exercise, expect, must_be, show
from workbook.ledger import (
    BUSY,
    BUSY_SECONDS,
    CUT,
    LOST,
    SILENCE_SECONDS,
    LedgerServer,
    Trouble,
    entries,
    no_trouble,
)

_BIG = ["x" * 900] * 50
_PAGE = [f"{number} {'x' * 900}" for number in range(52, 2, -1)]
_CUT_OFF = "the reply is incomplete: each line ends with a newline."
_REQUESTS: Any = (  # request, its lines, trouble, what `ask` returns or raises, the reason
    ("LAST shop", (), "", ["0"], "that follows OK."),
    ("APPEND shop me BUSY 2", ("nuts", "für\u2028 € "), "", ["2"], "its lines follow the request."),
    ("MEMO shop me", (), "", ["BUSY"], "only the first word of a reply says what it is."),
    ("PAGE shop 0", (), "", ["2", "2 für\u2028 € ", "1 nuts"], "only a newline ends a line."),
    ("PAGE shop 9", (), "", ["0"], "a page without entries has no lines."),
    ("LAST shop", (), BUSY, OSError, "nothing was done, so the caller may try again."),
    ("LAST shop", (), LOST, OSError, _CUT_OFF),
    ("PAGE shop 0", (), CUT, OSError, _CUT_OFF),
    ("APPEND shop me BIG 50", _BIG, "", ["52"], "that follows OK."),
    ("PAGE shop 0", (), "", ["50", *_PAGE], "one `recv` may return a part of it."),
    ("LAST", (), "", ValueError, "the ledger said NO, so repeating the request is useless."),
)


@exercise("def ask(address, request, lines=())")
def check_13_1(answer: Callable[..., list[str]]) -> str:
    """Does `answer` return the whole reply to a request, or raise what says why there is none?"""
    with _ledger("shop") as (server, _, _):
        for request, lines, trouble, expected, why in _REQUESTS:
            server.trouble = _in_turn([trouble])  # a second try would succeed
            what = f"ask(address, {request!r}) {f'with the trouble {trouble!r} ' * bool(trouble)}"
            start = time.monotonic()
            try:
                result = answer(server.address, request, *([list(lines)] if lines else []))
                must_be(result, expected, f"{what}returned", why)
            except (OSError, ValueError) as error:
                name = expected.__name__ if isinstance(expected, type) else show(expected)
                text = f"{what}raised {error_line(error)}; expected {name}, because {why}"
                expect(isinstance(expected, type) and isinstance(error, expected), text)
                seconds = getattr(error, "seconds", None)
                text = f"{what}raised an error whose `seconds` are {seconds!r}; expected"
                expect(trouble != BUSY or seconds == BUSY_SECONDS, f"{text} {BUSY_SECONDS}.")
            text = f"{what}waited until the ledger closed the connection. Try as many lines as "
            expect(time.monotonic() - start < SILENCE_SECONDS / 2, f"{text}`OK` says.")
    return "A whole reply, or an error that says whether to ask again."


def _in_turn(troubles: Iterable[str]) -> Trouble:
    iterator = iter(troubles)
    return lambda request: next(iterator, "")


@contextmanager
def _ledger(book: str) -> Iterator[tuple[LedgerServer, dict[str, str], Path]]:
    """Yield a ledger, the options of a connector to `book`, and a folder."""
    with scratch() as folder, LedgerServer(folder / "ledger.db") as server:
        yield server, {"address": server.address, "book": book}, folder


def _check_built(answer: Any, how: str, name: str) -> None:
    built = isinstance(answer, type) and issubclass(answer, DataSource)
    expect(built, f"You returned {show(answer)}; expected a class. Try {how}. … .build()")
    must_be(answer.name(), name, "Its name is", "the query uses that one.")


@exercise()
def check_13_2(answer: Any) -> str:
    """Does the source `answer` read each entry once, even when the ledger makes trouble?"""
    _check_built(answer, "SourceBuilder.replayable(...)", "orders")
    spark = session()
    spark.dataSource.register(answer)
    with _ledger("shop") as (server, options, folder):

        def feed(count: int, trouble: Trouble) -> None:
            last = server.books.last("shop")
            texts = [f" order {number // 2} " for number in range(last + 1, last + count + 1)]
            server.books.append("shop", "check", str(last), texts)
            server.trouble = trouble

        def others_append(request: str) -> str:
            if request.startswith("PAGE"):
                feed(40, others_append)
            return ""

        mixed = _in_turn(cycle(["", BUSY, "", CUT, LOST]))
        steps = [(120, others_append), (120, mixed), (3_000, no_trouble)]
        stream = spark.readStream.format("orders").options(**options)
        rows, _ = rows_after_restart(stream.load, folder, [partial(feed, *step) for step in steps])
        last, requests = server.books.last("shop"), list[str]()

        def count_pages(request: str) -> str:
            requests.append(request)
            return ""

        feed(60, count_pages)
        run_to_end(stream.load().writeStream.format("noop"), folder)
        text = f"For 60 new entries you sent {len(requests)} requests; expected a few. Try to stop "
        expect(len(requests) < 20, f"{text}at the page that has `start`.")
    numbers = [number for number, *_ in rows]
    why = "in order; the next is LAST + 1. Pages shift while others append: use the numbers, "
    why += "from the newest page to the oldest, and request a page again if it did not arrive."
    must_be(numbers, [*range(1, last + 1)], f"Of {last} entries these arrived:", why)
    expected = (last, f" order {last // 2} ")
    must_be(rows[-1], expected, "A row is", "the text is all that follows the first space.")
    return "Each entry once, in order, and the same again for the same offsets."


@exercise()
def check_13_3(answer: Any) -> str:
    """Does the sink `answer` append each batch once and whole, in spite of all trouble?"""
    _check_built(answer, "SinkBuilder.stream(...)", "copies")
    spark, expected = session(), Counter[str]()
    spark.dataSource.register(answer)
    with _ledger("archive") as (server, options, folder):
        (folder / "in").mkdir()

        def query() -> DataStreamWriter:
            rows = spark.readStream.text(str(folder / "in")).repartition(3)
            return rows.writeStream.format("copies").options(**options)

        def feed(lines: list[str], trouble: str) -> None:
            expected.update(lines)
            name = f"{len(list((folder / 'in').iterdir()))}.txt"
            (folder / "in" / name).write_text("".join(f"{line}\n" for line in lines))
            met: set[str] = set()  # each kind of request meets the trouble once

            def meet(request: str) -> str:
                kind = request.split(" ")[0]
                new = kind not in met
                met.add(kind)
                return trouble if new else ""

            server.trouble = meet

        lines = ["nuts", " bolts ", ""] + ["nuts"] * 1_500
        steps = [(lines, ""), ([], ""), (["a"], BUSY), (["b", "c"], LOST), (["b", "d"], CUT)]
        run_and_restart(query, folder, [partial(feed, *step) for step in steps])
        # The first query repeats its last batch after a second one, in another folder.
        run_and_restart(query, folder, [dict, lambda: run_to_end(query(), folder / "other")])
        expected.update(dict(expected))
        found = Counter(entries(server.address, "archive"))
        text = "After requests that were refused, lost or cut, and a repeated batch, the book lacks"
        text += f" {(expected - found).total()} lines and has {(found - expected).total()} too many"
        expect(found == expected, f"{text}. Try one APPEND, after MEMO says that it is new.")
        feed(["x" * 1_001], "")
        try:
            run_to_end(query(), folder)
        except Wrong:
            return "Each batch is appended once and whole, even if replies get lost."
    raise Wrong("The ledger said NO, and `commit` hid it; expected that the query fails.")


@exercise("(my_source, my_sink)")
def check_13_4(answer: Any) -> str:
    """Can the kit try the source and the sink that the two functions of `answer` describe?"""
    kinds: Any = (StreamSource, examine_source), (StreamSink, examine_sink)
    for describe, (kind, examine) in zip(answer, kinds, strict=True):
        with scratch() as folder:
            two = [describe(folder / name / "trial") for name in ("one", "two")]
        books = {each.options.get("book") for each in two if isinstance(each, kind)}
        text = f"For two folders your description names the books {show(books)}; expected two "
        expect(len(books) == 2, f"{text}{kind.__name__}s, because each trial needs an empty book.")
        report = examine(describe, session(), only=["every_row_once"])
        must_keep_all(report)
    return "The kit can feed your source and read your sink."
