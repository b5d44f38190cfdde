"""Checks of notebooks 14 to 22: systems, operations, state and time."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any
from unittest import mock

import psycopg
import pyarrow as pa
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from obstore.exceptions import GenericError
from obstore.store import MemoryStore
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import DataStreamWriter, StatefulProcessor

from workbook.batches import post, stream_of
from workbook.checks import trial
from workbook.checks.crashes import crash_everywhere
from workbook.checks.verdict import Case, compare, exercise, expect, must_be, show
from workbook.trading import OPENING, SCHEMA, Trade

_ORDERS_TABLE = """
CREATE TABLE orders (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item TEXT,
    xact BIGINT DEFAULT pg_current_xact_id()::text::bigint)
"""
_INSERT = "INSERT INTO orders (item) VALUES (%s)"


@exercise("(look, read)")
def check_14_1(answer: Any, uri: str) -> str:
    """Does the pair `(look, read)` read each order once, however late its transaction commits?"""
    with trial.own_database(uri) as (own, database), psycopg.connect(own) as slow:
        database.execute(_ORDERS_TABLE)
        follower = trial.Follower(answer, database, uri=own)
        follower.read_batch()
        database.execute(_INSERT, ["1"])
        follower.must_read([(1, "1")], "order 1 is committed, and no transaction is open.")
        slow.execute(_INSERT, ["2"])
        database.execute(_INSERT, ["3"])
        database.execute("SELECT nextval('orders_id_seq')")  # as a transaction that is rolled back
        database.execute(_INSERT, ["5"])
        timer = Timer(3, slow.commit)  # a `look` that waits for it is right, too
        timer.start()
        follower.read_batch()
        timer.join()
        why = "2 was committed late. Try `xact`, up to the oldest transaction that is open."
        follower.must_read([(number, str(number)) for number in (1, 2, 3, 5)], why)
    return "Each order arrives once, however late its transaction commits."


@exercise("(look, read)")
def check_15_1(answer: Any, uri: str) -> str:
    """Does the pair `(look, read)` read each record of a topic once, and again if asked to?"""
    settings: dict[str, Any] = {"bootstrap.servers": uri, "batch.num.messages": 1, "log_level": 0}
    settings |= {"group.id": "check", "enable.auto.commit": False}
    topic, expected = f"check-{uuid.uuid4().hex[:8]}", list[tuple[int, int, str]]()
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    producer, why = Producer(settings), "each record arrives once, as (partition, offset, value)."
    with closing(Consumer(settings)) as consumer:
        follower = trial.Follower(answer, consumer, topic=topic)
        for partitions in ((), (0, 0, 0), (0, 1), (1, 1, 0)):
            for partition in partitions:
                offset = sum(place[0] == partition for place in expected)
                expected.append((partition, offset, f"record {len(expected)}"))
                producer.produce(topic, expected[-1][2], partition=partition)
            expect(not producer.flush(trial.SECONDS), "The broker does not respond. Restart it.")
            follower.must_read(sorted(expected), why)
    return "Each record arrives once, and `read` can be called again."


_SNAPSHOTS = [  # of an earlier run; the rows of this run, which is restarted once
    Case((None,), [("a", 0), ("a", 1), ("b", 0), ("b", 1)], "both start at 0. Try `__init__`."),
    Case((40,), [("a", 40), ("a", 41), ("b", 0), ("b", 1)], "40 belongs to sensor a."),
    Case(({"version": 3, "next": {"a": 0, "b": 0}},), ValueError("3"), "it is too new. Raise."),
]


@exercise("class Readings")
def check_18_1(answer: Any) -> str:
    """Does the state `answer` resume from an older version, and refuse a newer one?"""

    def rows_after(snapshot: Any) -> Any:
        rows = []
        for _ in range(2):
            state = answer(trial.context_of())
            if snapshot is not None:
                state.restore([snapshot])
            rows += trial.filled(state)
            snapshot = trial.snapshot_of(state)
            text = f"Your snapshot is {show(snapshot)}; expected a dict with the version 2."
            expect(isinstance(snapshot, dict) and snapshot.get("version") == 2, text)
        return sorted(tuple(row) for row in rows)

    compare(rows_after, _SNAPSHOTS)
    return "Version 1 is continued, and version 3 is refused."


_TASKS: Any = (  # query, batch, the items of each task, the items that readers see, the reason
    ("q", 0, ["ab", "c"], "abc", "all tasks count. Try a file of its own for each task."),
    ("q", 1, ["de"], "abcde", "each batch has a file. Try context.batch in its name."),
    ("q", 1, ["d", "e", ""], "abcde", "a repeated batch replaces what it has published before."),
    ("q", 1, ["ed"], "abcde", "a repeated batch may have fewer tasks. Try one file per batch."),
    ("other", 1, ["f"], "abcdef", "a different query also has a batch 1. Try context.query."),
)


@exercise("(Part, publish)")
def check_19_1(answer: Any) -> str:
    """Does the pair `(Part, publish)` publish each batch once, even if tasks run twice?"""
    state, publish = answer
    published = ""
    with trial.scratch() as folder:

        def flush(context: Any, items: str) -> Any:
            task = state(context)
            for item in items:
                task.receive(Row(item=item))
            handle = task.flush()
            if isinstance(handle, str | Path):
                text = f"A task has staged {handle}; expected the folder, because other machines "
                expect((folder / handle).is_relative_to(folder), f"{text}don't see that place.")
            return handle

        def readers_see(expected: str, why: str) -> None:
            text = "".join(file.read_text() for file in folder.glob("*.txt"))
            must_be(sorted(text.splitlines()), sorted(expected), "Readers see", why)

        for query, batch, tasks, expected, why in _TASKS:
            context = partial(trial.context_of, query=query, batch=batch, folder=str(folder))
            handles = [flush(context(index), items) for index, items in enumerate(tasks)]
            with trial.no_file_in_place(folder, "*", "Try uuid4() in the name."):
                flush(context(0), tasks[0])  # again, by a worker that had only lost its network
            readers_see(published, "nothing counts before `publish` ends. Try a name without .txt.")
            with trial.no_file_in_place(folder, "*.txt", "Try a draft, and rename it."):
                publish(context(), handles)
            readers_see(expected, why)
            published = expected
    return "Every batch is published once, even if tasks run twice."


_UNHARMED = ": 0 lines lost, 0 duplicated"


@exercise("class TwoFiles")
def check_17_1(answer: Any) -> str:
    """Does the store `answer` work, and does a crash cost it lines?"""
    outcome = crash_everywhere(answer, "lines")
    text = f"{outcome}. That solves exercise 2; here write the position to a second file."
    expect(_UNHARMED not in outcome, text)
    return f"{outcome}."


@exercise("class OneFrame")
def check_17_2(answer: Any) -> str:
    """Does the store `answer` survive a crash in each line, and at each byte of a write?"""
    outcome = crash_everywhere(answer, "bytes")
    text = f"{outcome}; expected none, because lines and position are one frame. "
    text += "Try one write per append. Ignore a torn frame, and don't append to its line."
    expect(_UNHARMED in outcome, text)
    return f"{outcome}: lines and position are one frame."


_MANIFESTS = [  # what is there, and what a rival writes meanwhile; the result, and what is there
    Case((b"", b""), (True, b"ours"), "the name is free."),
    Case((b"", b"theirs"), (False, b"theirs"), "another driver was faster. Try mode='create'."),
    Case((b"ours", b""), (True, b"ours"), "your own manifest is there, of an earlier put."),
    Case((b"", b"ours"), (True, b"ours"), "your own put arrived, and its response was lost."),
    Case((b"", None), GenericError(), "the store is down. Try to catch AlreadyExistsError alone."),
]


@exercise("def publish(store, name, content)")
def check_16_1(answer: Callable[[Any, str, bytes], Any]) -> str:
    """Does `answer` write a manifest so that one of two drivers wins, and knows it?"""

    def result_and_manifest(there: bytes, meanwhile: bytes | None) -> Any:
        memory = MemoryStore()

        def put(*args: Any, **options: Any) -> Any:
            if meanwhile is None:
                raise GenericError("the store cannot be reached")
            if meanwhile:
                memory.put("manifest", meanwhile)
            return memory.put(*args, **options)

        if there:
            memory.put("manifest", there)
        result = answer(mock.Mock(wraps=memory, put=put), "manifest", b"ours")
        return result, bytes(memory.get("manifest").bytes())

    compare(result_and_manifest, _MANIFESTS)
    return "One driver wins, and each one knows whether it has, even after a crash."


_BATCHES = ["T1 T5", "T12 T8", "T9 T15", "T7 T10.5 T33", "T16 T28 T34", "T3 T19 T31"]
_CORRECTED = {10: 6, 20: 5, 30: 1}  # trades by the end of their window, for closed windows
_COUNTS = "CREATE TABLE counts (end INTEGER PRIMARY KEY, trades INTEGER)"
_DONE = "CREATE TABLE done (batch INTEGER PRIMARY KEY)"


def _post_in_two_steps(folder: Path, batches: Sequence[str]) -> list[Callable[[], None]]:
    """In a batch, `T10.5` is a trade of ticker T at second 10.5. The last step adds nothing."""

    def trade(text: str) -> Trade:
        return Trade(OPENING + timedelta(seconds=float(text[1:])), text[0], 100, 1)

    rows = [[trade(text) for text in batch.split()] for batch in batches]
    return [partial(post, folder / "trades", part) for part in (rows[:3], rows[3:], [])]


@exercise("def correct(path, checkpoint)")
def check_20_1(
    answer: Callable[[str, Path], Callable[[DataFrame, int], None]],
    counted_and_passed: Callable[[Path], DataFrame],
) -> str:
    """Does `answer` add late trades to their windows, in a query that is restarted?"""
    with trial.scratch() as folder, closing(sqlite3.connect(folder / "counts.db")) as database:
        database.executescript(f"{_COUNTS}; {_DONE}")

        def query() -> DataStreamWriter:
            write = answer(str(folder / "counts.db"), folder / "checkpoint")
            return counted_and_passed(folder / "trades").writeStream.foreachBatch(write)

        trial.run_and_restart(query, folder, _post_in_two_steps(folder, _BATCHES))
        select = "SELECT CAST(end - ? AS INTEGER), trades FROM counts"
        counts = dict(database.execute(select, [OPENING.timestamp()]))
    why = "trades count each once, also late ones. Try `is_late`, with this batch's drop mark."
    must_be(counts, _CORRECTED, "Trades by the end of the window, in seconds:", why)
    return "Every trade of a closed window is counted once, however late it came."


_BURSTS = ["T0 T10 S5 F5 R5 C5", "T25 S12 S30", "T22 S26", "T50", "T62", "L63", "S59", "L100"]
_BURSTS += ["L101 L140", "T150", "L200"]  # from L100 on, T and S are silent
_RESULT = "ticker STRING, trades LONG"
_YIELDED = [("C", 1), ("F", 1), ("R", 1), ("S", 5), ("T", 1), ("T", 6)]


@exercise("class Bursts(StatefulProcessor)")
def check_21_1(answer: type[StatefulProcessor]) -> str:
    """Does `answer` count the trades of each burst, in a query that is restarted?"""
    with trial.scratch() as folder:

        def bursts() -> DataFrame:
            trades = stream_of(trial.session(), folder / "trades", SCHEMA)
            tickers = trades.withWatermark("time", "5 seconds").groupBy("ticker")
            return tickers.transformWithState(answer(), _RESULT, "append", "eventTime")

        steps = _post_in_two_steps(folder, _BURSTS)
        result, query = trial.rows_after_restart(bursts, folder, steps)
        last = query.lastProgress
    why = "a burst ends 30 s after its newest trade. Try to delete the timer of an older one."
    must_be(sorted(result), _YIELDED, "Your class yielded", why)
    rows = last.stateOperators[0].numRowsTotal if last else 0
    text = f"{rows} rows of state are left; expected only the state of ticker L, because all others"
    expect(rows < 5, f"{text} are silent. Try `clear()`.")
    return "Each burst is counted once, and a silent ticker leaves no state behind."


_YOUNG = "answers younger than 10 s are known, also those about unknown items."
_CACHE = [  # the second, a batch's items; the calls of `query`, the prices
    Case((0, ["tea", "milk", "tea"]), ([["milk", "tea"]], [3, 2, 3]), "each item is asked once."),
    Case((5, ["salt", "tea"]), ([["salt"]], [None, 3]), _YOUNG),
    Case((9, ["salt"]), ([], [None]), _YOUNG),
    Case((10, ["milk", "salt"]), ([["milk"]], [20, None]), "milk has a new price."),
    Case((15, ["milk", "salt", "tea"]), ([["salt", "tea"]], [20, None, None]), _YOUNG),
]


@exercise("class PriceCache")
def check_22_1(answer: Any) -> str:
    """Does the class `answer` look up only what it doesn't know, or knows for too long?"""
    times, calls = [0], list[list[str]]()

    def query(items: Any) -> dict[str, int]:
        calls.append(sorted(items))
        prices = {"milk": 20} if times[-1] else {"tea": 3, "milk": 2}
        return {item: prices[item] for item in items if item in prices}

    cache = answer(query, 10, lambda: times[-1])

    def calls_and_euros(second: int, items: list[str]) -> Any:
        times.append(second)
        calls.clear()
        euros = cache.add_prices(pa.record_batch({"item": pa.array(items, pa.string())}))["euros"]
        must_be(str(euros.type), "int32", "Your type is", "the task says so: pa.int32().")
        return list(calls), euros.to_pylist()

    compare(calls_and_euros, _CACHE)
    return "It looks up each item at most once in ten seconds, and only when needed."
