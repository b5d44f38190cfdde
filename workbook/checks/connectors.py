"""Checks of notebooks 09 to 12: the builder's functions, the kit, a REST service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from copy import deepcopy
from email import message_from_string
from typing import Any
from unittest import mock

from spark_connector_tests import Report
from workbook.checks import trial
from workbook.checks.verdict import Case, compare, exercise, expect, must_be, show
from workbook.weather import Weather


@exercise("class Once(Mailbox)")
def check_09_1(answer: Any, mailbox: type, acknowledge: Callable[..., None]) -> str:
    """Does the class `answer` read each letter once, even if the process dies?"""
    with trial.scratch() as folder:
        context = trial.context_of(letters=str(folder))
        first = answer(context)
        for number in range(100):
            (folder / f"{number}.txt").write_text("in the log")
        trial.filled(first)
        (folder / "new.txt").write_text("new")
        snapshot = trial.snapshot_of(first)
        text = "`snapshot` removed a letter; expected that it stays, because the log lacks it."
        expect((folder / "0.txt").exists(), text)
        why = "the others were handed out. Try not to change `self.handed` in `snapshot`."
        must_be(trial.filled(first), ["new"], "After a snapshot `fill` added", why)
        acknowledge(first, ["0.txt"])
        second = answer(context)  # the first process died before the new letter was in the log
        second.restore([snapshot])
        why = "the snapshot must name letters that are in the log, and no others."
        must_be(trial.filled(second), ["new"], "After a restart `fill` added", why)
        acknowledge(second, ["new.txt"])
        names = [file.name for file in folder.iterdir()]
        must_be(names, [], "After a restart there are still", "`restore` should acknowledge them.")
        text = "Your snapshot names letters that were acknowledged. Try `self.handed` alone."
        expect(len(str(trial.snapshot_of(second))) < 300, text)
    return "No letter arrives twice, and none stays in the folder."


@exercise("def restore(feeds, snapshots)")
def check_09_2(answer: Callable[..., None], feeds: type) -> str:
    """Does `answer` resume from snapshots of a different number of instances of `feeds`?"""
    snapshots = [{"c": 5, "e": 4}, {"b": 7, "d": 6, "f": 7}]  # of two instances; sensor a is new
    expected = [("a", 0), ("b", 7), ("c", 5), ("d", 6), ("e", 4), ("f", 7)]

    def positions_with(count: int) -> Any:
        states = [feeds(trial.context_of(index, count)) for index in range(count)]
        for state in states:
            answer(state, deepcopy(snapshots))
        return sorted(pair for state in states for pair in state.next.items())

    why = f"each instance looks in *all* snapshots, {snapshots}, for its own sensors (feeds.next)."
    compare(positions_with, [Case((count,), expected, why) for count in (2, 3, 1)])
    return "Each sensor resumes where it was, on whichever instance."


_TABLES = """
CREATE TABLE orders (item INT, euros INT);
CREATE TABLE staged (handle TEXT, query TEXT, batch INT, item INT, euros INT);
CREATE TABLE done (query TEXT, batch INT, PRIMARY KEY (query, batch));
INSERT INTO staged VALUES ('c', 'other', 0, 3, 5), ('late', 'mine', 4, 4, 5),
    ('dead', 'mine', 1, 6, 5);
"""
_LEFT = "SELECT array(SELECT item FROM orders), array(SELECT DISTINCT query || batch FROM staged)"
_TIDY: Any = (  # query, batch, what it stages by handle, handles; orders and stages afterwards
    ("mine", 0, {"a": 1, "b": 2, "dead": 1}, "ab", [1, 2], ["mine1", "mine4", "other0"]),
    ("mine", 0, {"d": 1, "e": 2}, "de", [1, 2], ["mine1", "mine4", "other0"]),
    ("other", 0, {}, "c", [1, 2, 3], ["mine1", "mine4"]),
    ("mine", 2, {"dead": 1}, "", [1, 2, 3], ["mine4"]),
)


@exercise("def tidy(context, handles)")
def check_10_1(answer: Callable[..., Any], uri: str) -> str:
    """Does `answer(context, handles)` publish each batch once and clear away what is its own?"""
    with trial.own_database(uri) as (own, database):
        database.execute(_TABLES)
        for query, batch, stages, handles, *expected in _TIDY:
            for handle, item in stages.items():
                row = (handle, query, batch, item)
                database.execute("INSERT INTO staged VALUES (%s, %s, %s, %s, 5)", row)
            answer(trial.context_of(query=query, batch=batch, uri=own), list(handles))
            what = f"After batch {batch} of query `{query}`, orders and stages are"
            why = "a batch counts once. The same transaction deletes the query's stages up to it."
            left = database.execute(_LEFT).fetchone() or ()
            must_be([sorted(part) for part in left], expected, what, why)
    return "Published once, and nothing left behind."


@exercise()
def check_11_1(answer: Any) -> str:
    """Does the letter `answer` name the change that explains the report?"""
    text = f"You set answer to {show(answer)}; expected another of the letters a to d, because the "
    text += "others break `every_row_once` or `same_rows_again`. Which one needs a failure to show?"
    expect(str(answer).strip("()* ").lower() == "b", text)
    return "That change explains what the report says, and no other one does."


@exercise("def describe(sink, folder)")
def check_11_2(answer: Callable[..., Any]) -> str:
    """Does `answer(sink, folder)` describe a sink so that the kit can count its rows?"""
    with trial.scratch() as folder:
        described = answer("a sink", folder)
        right = described.format == "a sink" and str(described.options.get("path")) == str(folder)
        text = f"You returned {show(described)}; expected the sink, and the option path. Try "
        expect(right, f"{text}StreamSink(sink, read, {{'path': folder}}).")
        for name, text in (("q-0.txt", "2\n1\n"), ("q-1.txt", "2\n"), ("q-2.draft", "3\n")):
            (folder / name).write_text(text)
        values = sorted(described.read())
        why = "each line of each .txt file is a row, duplicates included, and drafts don't count."
        must_be(values, ["1", "2", "2"], "Of two files and a draft `read` returned", why)
    return "The kit sees each row as often as a reader does."


@exercise("class Mended")
def check_11_3(answer: Any, examine: Callable[[type], Report]) -> str:
    """Does the class `answer` keep every promise that `examine` tries?"""
    report = examine(answer)
    trial.must_keep_all(report)
    return f"{len(report.verdicts)} promises were tried, and all are kept."


@exercise("(look, read)")
def check_12_1(answer: Any) -> str:
    """Does the pair `(look, read)` go to the last page, and no further than `end`?"""
    degrees = [20.25 - number / 2 for number in range(280)]
    with closing(Weather(page=70)) as service:  # fewer readings than 100, even if more follow
        follower = trial.Follower(answer, url=f"{service.url}/hill")
        for end in (0, 250, 250, 280):
            service.measure("hill", degrees[len(follower.rows) : end])
            rows = sorted((f"hill-{n}", degrees[n]) for n in range(end))
            why = "`look` returns the end of the data, not of a page, and `read` goes up to it."
            follower.must_read(rows, why, patience=0)
    return "It reads to the last page, and no further than `end`."


_BUSY, _OK = (503, ""), (200, "")
_PATIENCE = [  # status and Retry-After of each response; the pauses
    Case(((404, "3"), _OK), [], "waiting does not help after a 404."),
    Case(((429, "3"), (503, "2"), _OK), [3, 2], "Retry-After counts after 429 and 503."),
    Case((_BUSY, _BUSY, _BUSY, _OK), [1, 2, 4], "without Retry-After each pause doubles."),
    Case((*[_BUSY] * 5, _OK), [1, 2, 4, 8], "with 16 s more it would be over 30 s in all."),
    Case(((429, "3600"), _OK), [], "an hour is more than 30 s. Return the last response."),
    Case((*[(429, "0")] * 31, _OK), [1] * 30, "a pause has at least 1 s, and all have 30 s."),
]


@exercise("def patiently(ask, sleep)")
def check_12_2(answer: Callable[..., Any]) -> str:
    """Does `answer` wait, ask again, and give up in time?"""

    def pauses_after(*script: tuple[int, str]) -> Any:
        responses = [
            (status, message_from_string(f"Retry-After: {seconds}" if seconds else ""), None)
            for status, seconds in script
        ]
        ask, sleep = mock.Mock(side_effect=responses), mock.Mock()
        result = answer(ask, sleep)
        seconds = [call.args[0] for call in sleep.call_args_list]
        is_last = result == responses[len(seconds)]
        return seconds if is_last else f"{show(result)} after pauses of {seconds} s"

    compare(pauses_after, _PATIENCE)
    return "It waits as long as the service asks, and not forever."
