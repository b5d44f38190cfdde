"""Checks of notebooks 09 to 12: the builder's functions, the kit, a REST service."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.message import Message
from typing import Any
from unittest import mock

import psycopg
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource

from spark_connector_tests import Report, StreamSink
from workbook.checks.trial import (
    Follower,
    as_json,
    context_of,
    filled,
    must_keep_all,
    own_database,
    scratch,
)
from workbook.checks.verdict import Wrong, exercise, expect, must_be, show
from workbook.weather import Weather


@exercise("class Once(Mailbox)")
def check_09_1(answer: Any, mailbox: type, acknowledge: Callable[..., None]) -> str:
    """Does the class `answer` read each letter once, even if the process dies?"""
    expect(issubclass(answer, mailbox), "You returned another class. Try class Once(Mailbox).")
    with scratch() as folder:

        def started(snapshot: Any) -> Any:
            state = answer(context_of(letters=str(folder)))
            if snapshot is not None:
                state.restore([snapshot])
            return state

        def arrives(number: int) -> list[Any]:
            (folder / f"{number}.txt").write_text(f"letter {number}")
            return filled(state)

        state, snapshot = started(None), None
        for number in (1, 2):
            why = "a letter is handed out once. Try not to change `self.handed` in `snapshot`."
            must_be(arrives(number), [f"letter {number}"], "`fill` added", why)
            snapshot = as_json(state.snapshot())
        kept = len(list(folder.iterdir()))
        must_be(kept, 2, "Letters in the folder:", "they are not acknowledged yet.")
        arrives(3)  # the process dies before this letter and the next snapshot are on disk
        state = started(snapshot)
        why = "the snapshot must name letters 1 and 2, which are in the log. Letter 3 is not."
        must_be(filled(state), ["letter 3"], "After a restart `fill` added", why)
        acknowledge(state, ["3.txt"])
        names = [file.name for file in folder.iterdir()]
        must_be(names, [], "After a restart there are still", "`restore` should acknowledge them.")
        sizes = []
        for number in range(100, 200):
            arrives(number)
            sizes.append(len(json.dumps(state.snapshot())))
            acknowledge(state, [f"{number}.txt"])
        text = f"After 50 letters a snapshot has {sizes[50]} characters, after 100 {sizes[-1]}; "
        expect(sizes[-1] <= 1.5 * sizes[50], f"{text}expected no growth. Try `self.handed` alone.")
    return "No letter arrives twice, and none stays in the folder."


@exercise("def restore(feeds, snapshots)")
def check_09_2(answer: Callable[..., None], feeds: type) -> str:
    """Does `answer` resume from snapshots of a different number of instances of `feeds`?"""
    for before, after in ((2, 2), (2, 3), (3, 1), (1, 2)):
        states = [feeds(context_of(index, before, until=1000)) for index in range(before)]
        for index, state in enumerate(states):
            for _ in range(3 * index + 2):
                filled(state)
        snapshots = [dict(state.next) for state in states]
        del snapshots[0]["a"]  # as if sensor a were new
        expected = {"a": 0} | {name: n for one in snapshots for name, n in one.items()}
        states = [feeds(context_of(index, after, until=1000)) for index in range(after)]
        for state in states:
            answer(state, as_json(snapshots))
        found = sorted(pair for state in states for pair in state.next.items())
        what = f"With {before} instances before a restart and {after} after it they resume at"
        why = "each instance keeps its own sensors and looks for them in *all* snapshots."
        must_be(found, sorted(expected.items()), what, why)
    return "Each sensor resumes where it was, on whichever instance."


_UPSERTS: Any = (  # rows, and the prices afterwards
    ([(1, 10), (2, 20)], {1: 10, 2: 20}),
    ([(1, 10), (2, 15)], {1: 10, 2: 15}),
    ([(1, 11), (3, 30), (1, 12)], {1: 12, 2: 15, 3: 30}),
    ([], {1: 12, 2: 15, 3: 30}),
)


@exercise("def upsert(connection, rows)")
def check_10_1(answer: Callable[..., Any], uri: str) -> str:
    """Does `answer(connection, rows)` set prices by item, so that repeats change nothing?"""
    with own_database(uri) as own, psycopg.connect(own) as connection:
        connection.execute("CREATE TABLE prices (item BIGINT PRIMARY KEY, euros BIGINT)")
        connection.commit()

        def prices() -> dict[int, int]:
            return dict(connection.execute("SELECT item, euros FROM prices").fetchall())

        for rows, expected in _UPSERTS:
            answer(connection, rows)
            expect(not connection.closed, "It closed the connection; `flush` still needs it.")
            why = "the last price of an item counts. Try ON CONFLICT (item) DO UPDATE, executemany."
            must_be(prices(), expected, f"After {rows} the prices are", why)
        connection.rollback()
        why = "only `flush` commits. Try it without commit()."
        must_be(prices(), {}, "After a rollback the prices are", why)
    return "Set by key: doing it twice is doing it once."


_TABLES = """
CREATE TABLE orders (item BIGINT, euros BIGINT);
CREATE TABLE staged (handle TEXT, query TEXT, batch BIGINT, item BIGINT, euros BIGINT);
CREATE TABLE done (query TEXT, batch BIGINT CHECK (batch <> 4), PRIMARY KEY (query, batch));
INSERT INTO staged VALUES ('c', 'other', 0, 3, 5), ('late', 'mine', 4, 4, 5);
"""
_TIDY: Any = (  # query, batch, what it stages by handle, handles; orders and stages afterwards
    ("mine", 0, {"a": 1, "b": 2, "dead": 1}, "ab", [1, 2], [("mine", 4), ("other", 0)]),
    ("mine", 0, {"d": 1, "e": 2}, "de", [1, 2], [("mine", 4), ("other", 0)]),
    ("other", 0, {}, "c", [1, 2, 3], [("mine", 4)]),
    ("mine", 2, {"dead": 1}, "", [1, 2, 3], [("mine", 4)]),
)


@exercise("def tidy(context, handles)")
def check_10_2(answer: Callable[..., Any], uri: str) -> str:
    """Does `answer(context, handles)` publish each batch once and clear away what is its own?"""
    with own_database(uri) as own, psycopg.connect(own, autocommit=True) as database:
        database.execute(_TABLES)

        def state() -> tuple[Any, ...]:
            items = database.execute("SELECT item FROM orders ORDER BY 1").fetchall()
            staged = database.execute("SELECT DISTINCT query, batch FROM staged ORDER BY 1, 2")
            return [item for (item,) in items], staged.fetchall()

        for query, batch, stages, handles, items, staged in _TIDY:
            for handle, item in stages.items():
                row = (handle, query, batch, item)
                database.execute("INSERT INTO staged VALUES (%s, %s, %s, %s, 5)", row)
            answer(context_of(query=query, batch=batch, uri=own), list(handles))
            what = f"After batch {batch} of query `{query}`, orders and stages are"
            why = "a batch counts once, and takes this query's stages up to this batch, no others."
            must_be(state(), (items, staged), what, why)
        try:  # the database refuses the note of batch 4
            answer(context_of(query="mine", batch=4, uri=own), ["late"])
        except psycopg.Error:
            what, why = "The note was refused; orders and stages are", "it is one transaction."
            must_be(state(), ([1, 2, 3], [("mine", 4)]), what, why)
        else:
            raise Wrong("The database raised an error, and yours swallowed it.")
    return "Published once, and nothing left behind."


_CHANGES = {
    "a": "all earlier rows would arrive again with each batch, and break `every_row_once`",
    "c": "the last row would be missing until more arrive, and break `every_row_once`",
    "d": "a batch could not be read twice, and `same_rows_again` would break",
}


@exercise()
def check_11_1(answer: Any) -> str:
    """Does the letter `answer` name the change that explains the report?"""
    letter = str(answer).strip("()* ").lower()
    text = f"You set answer to {show(answer)}; expected one of the letters a to d."
    expect(letter == "b" or letter in _CHANGES, text)
    text = f"With ({letter}), {_CHANGES.get(letter, '')}. Which change needs a failure to show?"
    expect(letter == "b", text)
    return "`read` goes beyond the end of its partition, so a repeated batch has more rows."


@exercise("def describe(sink, folder)")
def check_11_2(answer: Callable[..., Any]) -> str:
    """Does `answer(sink, folder)` describe a sink so that the kit can count its rows?"""
    with scratch() as folder:
        described = answer(DataSource, folder)
        text = f"You returned {show(described)}; expected StreamSink(sink, read, options)."
        expect(isinstance(described, StreamSink), text)
        right = described.format is DataSource and str(described.options.get("path")) == str(folder)
        expect(right, f"{text} Try StreamSink(sink, read, {{'path': folder}}).")
        why = "there are no files yet. Try a loop over folder.glob('*.txt')."
        must_be(list(described.read()), [], "Before the first batch `read` returned", why)
        for name, text in (("q-0.txt", "2\n1\n"), ("q-1.txt", "2\n"), ("q-2.draft", "3\n")):
            (folder / name).write_text(text)
        values = sorted(map(str, described.read()))
        why = "each line of each .txt file is a row, duplicates included, and drafts don't count."
        must_be(values, ["1", "2", "2"], "Of two files and a draft `read` returned", why)
    return "The kit sees each row as often as a reader does."


@exercise("class Mended")
def check_11_3(answer: Any, examine: Callable[[type], Report]) -> str:
    """Does the class `answer` keep every promise that `examine` tries?"""
    report = examine(answer)
    must_keep_all(report)
    return f"{len(report.verdicts)} promises were tried, and all are kept."


_DEGREES = [20.25 - number / 2 for number in range(280)]


@exercise("(look, read)")
def check_12_1(answer: Any) -> str:
    """Does the pair `(look, read)` go to the last page, and no further than `end`?"""
    service = Weather(page=70)  # a page may have fewer readings than 100, even if more follow
    try:
        follower = Follower(answer, url=f"{service.url}/hill")
        for end in (0, 250, 250, 280):
            service.measure("hill", _DEGREES[len(follower.rows) : end])
            follower.follow()
            why = "`look` returns the end of the data, not of a page, and `read` goes up to it."
            rows = sorted((f"hill-{n}", _DEGREES[n]) for n in range(end))
            what = f"With {end} readings your functions read {len(follower.rows)} rows,"
            must_be(follower.rows, rows, what, why)
        follower.read_again()
    finally:
        service.close()
    return "It reads to the last page, and no further than `end`."


_BUSY: tuple[int, str | None] = (503, None)
_OK: tuple[int, str | None] = (200, None)
_RESPONSES: Any = (  # (status, Retry-After) of each, the accepted pauses, how many requests
    ([(404, "3"), _OK], ([],), 1),
    ([(429, "3"), (503, "2"), _OK], ([3, 2],), 3),
    ([_BUSY, _BUSY, _BUSY, _OK], ([1, 2, 4],), 4),
    ([(429, "5"), _BUSY, _OK], ([5, 2], [5, 1]), 3),  # the task leaves it open
    ([(503, "20"), (503, "10"), _OK], ([20, 10],), 3),
    ([_BUSY] * 5 + [_OK], ([1, 2, 4, 8],), 5),
    ([(429, "3600"), _OK], ([],), 1),
    ([(429, "0")] * 31 + [_OK], ([1] * 30,), 31),
)


@exercise("def patiently(ask, sleep)")
def check_12_2(answer: Callable[..., Any]) -> str:
    """Does `answer` wait, ask again, and give up in time?"""
    for script, accepted, requests in _RESPONSES:
        responses = [_response(*one) for one in script]
        ask, sleep = mock.Mock(side_effect=responses), mock.Mock()
        result = answer(ask, sleep)
        pauses = [call.args[0] for call in sleep.call_args_list]
        what = f"The responses were {show(script)}; it"
        text = f"{what} slept for {show(pauses)} s; expected {accepted[0]}, because it follows "
        text += "Retry-After, or doubles from 1 s, never below 1 s, and 30 s at most in all."
        expect(pauses in accepted, text)
        why = "it asks again after 429 and 503 only, until the next pause would be too long."
        must_be(ask.call_count, requests, f"{what} asked so often:", why)
        last = responses[requests - 1]
        must_be(result, last, f"{what} returned", "the last response counts, all three parts.")
    return "It waits as long as the service asks, and not forever."


def _response(status: int, seconds: str | None) -> tuple[int, Message, Any]:
    headers = Message()
    if seconds is not None:
        headers["Retry-After"] = seconds
    return status, headers, {"readings": []} if status == 200 else None


@exercise("def key(context, row)")
def check_12_3(answer: Callable[..., Any]) -> str:
    """Is the key of a row the same when its batch is repeated, and different for any other row?"""
    places = [context_of(index) for index in range(3)]
    keys: dict[Any, str] = {}
    for name in [f"{station}-{n}" for station in ("hill", "valley") for n in range(150)]:
        row = Row(id=name, degrees=-1.0)
        found = {answer(place, row) for place in places}
        with mock.patch("builtins.hash", lambda _: 7):  # in another process texts hash differently
            found.add(answer(places[0], row))
        text = f"For reading {name} you returned {show(found)}; expected one key, because a "
        expect(len(found) == 1, f"{text}restart may put it into another task. Try row.id.")
        [key] = found
        header = isinstance(key, str) and key.isascii() and key.isprintable() and key
        expect(header, f"You returned {key!r}; expected a str for a header. Try an f-string.")
        expect(key not in keys, f"Readings {keys.get(key)} and {name} have the same key, {key!r}.")
        keys[key] = name
    return "The same row always has the same key, and no other row has it."
