"""Checks of notebook 13, the capstone: with a ledger in this process that makes trouble."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming import DataStreamWriter

from spark_connector_tests import StreamSink, StreamSource, examine_sink, examine_source
from workbook.checks import trial
from workbook.checks.verdict import Case, Wrong, compare, exercise, expect, must_be, show
from workbook.ledger import BUSY, CUT, LOST, LedgerServer, Trouble, entries, no_trouble

_BIG = ["x" * 900] * 50
_PAGE = [f"{number} {'x' * 900}" for number in range(52, 2, -1)]
_CUT_OFF = "the reply is incomplete: each line ends with a newline."
_APPEND = "APPEND shop me BUSY 2"
_REQUESTS = [  # a request, its lines, and trouble
    Case(("LAST shop", [], ""), ["0"], "that follows OK."),
    Case((_APPEND, ["nuts", "für\u2028 € "], ""), ["2"], "its lines follow the request."),
    Case(("MEMO shop me", [], ""), ["BUSY"], "only the first word of a reply says what it is."),
    Case(("PAGE shop 0", [], ""), ["2", "2 für\u2028 € ", "1 nuts"], "only a newline ends a line."),
    Case(("LAST shop", [], BUSY), OSError(), "nothing was done, so the caller may try again."),
    Case(("LAST shop", [], LOST), OSError(), _CUT_OFF),
    Case(("PAGE shop 0", [], CUT), OSError(), _CUT_OFF),
    Case(("APPEND shop me BIG 50", _BIG, ""), ["52"], "that follows OK."),
    Case(("PAGE shop 0", [], ""), ["50", *_PAGE], "one `recv` may return a part of it."),
    Case(("LAST", [], ""), ValueError(), "the ledger said NO: repeating the request is useless."),
]


@exercise("def ask(address, request, lines=())")
def check_13_1(answer: Callable[..., list[str]]) -> str:
    """Does `answer` return the whole reply to a request, or raise what says why there is none?"""

    @wraps(answer)
    def ask(request: str, lines: list[str], trouble: str) -> Any:
        server.trouble = mock.Mock(side_effect=chain([trouble], repeat("")))  # of the first try
        start = time.monotonic()
        result = answer(server.address, request, *([lines] if lines else []))
        is_late = time.monotonic() - start > trial.SECONDS / 2
        return "a reply after the connection had ended" if is_late else result

    with _ledger("shop") as (server, _, _):
        compare(ask, _REQUESTS)
    return "A whole reply, or an error that says whether to ask again."


@contextmanager
def _ledger(book: str) -> Iterator[tuple[LedgerServer, dict[str, str], Path]]:
    """Yield a ledger, the options of a connector to `book`, and a folder."""
    with trial.scratch() as folder, LedgerServer(folder / "ledger.db") as server:
        yield server, {"address": server.address, "book": book}, folder


def _check_built(answer: Any, how: str, name: str) -> None:
    built = isinstance(answer, type) and issubclass(answer, DataSource)
    expect(built, f"You returned {show(answer)}; expected a class. Try {how}. … .build()")
    must_be(answer.name(), name, "Its name is", "the query uses that one.")


@exercise()
def check_13_2(answer: Any) -> str:
    """Does the source `answer` read each entry once, even when the ledger makes trouble?"""
    _check_built(answer, "SourceBuilder.replayable(...)", "orders")
    spark = trial.session()
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

        mixed = mock.Mock(side_effect=cycle(["", BUSY, "", CUT, LOST]))
        batches = (3_000, no_trouble), (120, others_append), (120, mixed)
        steps = [partial(feed, *batch) for batch in batches]
        stream = spark.readStream.format("orders").options(**options)
        rows, _ = trial.rows_after_restart(stream.load, folder, steps)
        last = server.books.last("shop")
    text = f"For 300 of {last} entries you sent {mixed.call_count} requests; expected fewer. Try to"
    expect(mixed.call_count < 150, f"{text} stop at the page that has `start`.")
    expected = [(number, f" order {number // 2} ") for number in range(1, last + 1)]
    why = "in order; the next is LAST + 1. Pages shift while others append: try the numbers."
    must_be(rows, expected, f"Of {last} entries {len(rows)} arrived:", why)
    return "Each entry once, in order, and the same again for the same offsets."


@exercise()
def check_13_3(answer: Any) -> str:
    """Does the sink `answer` append each batch once and whole, in spite of all trouble?"""
    _check_built(answer, "SinkBuilder.stream(...)", "copies")
    spark, expected = trial.session(), Counter[str]()
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
            troubles = dict.fromkeys(("LAST", "PAGE", "MEMO", "APPEND"), trouble)  # of each once
            server.trouble = lambda request: troubles.pop(request.split(" ")[0], "")

        lines = ["nuts", " bolts ", ""] + ["nuts"] * 1_500
        batches = [(lines, ""), ([], ""), (["a"], BUSY), (["b", "c"], LOST), (["b", "d"], CUT)]
        steps = [partial(feed, *batch) for batch in batches]
        # Another query appends all lines before the last batch of the first one is repeated.
        copy_to_other = partial(trial.run_to_end, query(), folder / "other")
        trial.run_and_restart(query, folder, [*steps, copy_to_other])
        expected.update(dict(expected))
        found = Counter(entries(server.address, "archive"))
        text = f"The book lacks {(expected - found).total()} lines, and "
        text += f"{(found - expected).total()} are too many. Try one APPEND, after MEMO says that "
        expect(found == expected, f"{text}the batch is new.")
        feed(["x" * 1_001], "")
        try:
            trial.run_to_end(query(), folder)
        except Wrong:
            return "Each batch is appended once and whole, even if replies get lost."
    raise Wrong("The ledger said NO, and `commit` hid it; expected that the query fails.")


@exercise("(my_source, my_sink)")
def check_13_4(answer: Any) -> str:
    """Can the kit try the source and the sink that the two functions of `answer` describe?"""
    kinds: Any = (StreamSource, examine_source), (StreamSink, examine_sink)
    for describe, (kind, examine) in zip(answer, kinds, strict=True):
        with trial.scratch() as folder:
            two = [describe(folder / name / "trial") for name in ("one", "two")]
        books = {each.options.get("book") for each in two if isinstance(each, kind)}
        text = f"For two folders your description names the books {show(books)}; expected two "
        expect(len(books) == 2, f"{text}{kind.__name__}s, because each trial needs an empty book.")
        report = examine(describe, trial.session(), only=["every_row_once"])
        trial.must_keep_all(report)
    return "The kit can feed your source and read your sink."
