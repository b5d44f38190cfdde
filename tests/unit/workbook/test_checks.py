"""Each check accepts the notebook's solution, and refuses wrong answers with a fitting message.

Checks that need Spark are in `tests/integration/test_checks_with_spark.py`.
"""

from __future__ import annotations

import json
import math
import socket
from collections import Counter
from contextlib import suppress
from functools import cache
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import confluent_kafka
import psycopg
import pyarrow as pa
import pytest
from obstore.exceptions import AlreadyExistsError
from pyspark.sql import functions as F

from spark_connector_tests import StreamSink
from tutorial_pkg.state import drop_mark, is_late
from workbook import HOST, checks
from workbook.checks import trial, verdict
from workbook.services import start_kafka

ROOT = Path(__file__).parents[3]
NAMES = [name for name in vars(checks) if name.startswith("check_")]


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_missing_or_of_another_kind(name: str) -> None:
    check = getattr(checks, name)
    assert check.__name__ == name
    more = [object] * (len(signature(check).parameters) - 1)
    assert not check(None, *more).answered
    if check.start:
        assert check.start in check(3, *more).message


def test_cell_that_raised_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    result = SimpleNamespace(error_in_exec=NameError("name 'x' is not defined"))
    shell = SimpleNamespace(last_execution_result=result)
    monkeypatch.setattr(verdict, "get_ipython", lambda: shell)
    found = checks.check_03_1(object)
    assert not found.answered
    assert "NameError: name 'x' is not defined" in found.message


# ---- Answers: the stored solution, and edits of its source ---------------------------------------


def page_at(url: str, position: int) -> Any:
    with urlopen(f"{url}/readings?from={position}") as response:
        return json.load(response)


class Mailbox:
    def __init__(self, context: Any) -> None:
        self.folder, self.handed = Path(context.options.letters), set[str]()

    def fill(self, buffer: Any) -> None:
        for name in sorted({letter.name for letter in self.folder.glob("*.txt")} - self.handed):
            buffer.add((self.folder / name).read_text(), token=name)
            self.handed.add(name)


def acknowledge(mailbox: Mailbox, names: Any) -> None:
    for name in names:
        (mailbox.folder / name).unlink(missing_ok=True)
    mailbox.handed.difference_update(names)


class Feeds:
    def __init__(self, context: Any) -> None:
        self.next = dict.fromkeys("abcdef"[context.index :: context.count], 0)

    def fill(self, buffer: Any) -> None:
        self.next = {sensor: number + 1 for sensor, number in self.next.items()}


# What the solution extends: an earlier cell has it.
EARLIER = dict.fromkeys(("04_1", "04_2"), "class SmallReader(") | {"21_1": "class RollingAverage("}
USED = (
    AlreadyExistsError,
    F,
    drop_mark,
    is_late,
    StreamSink,
    confluent_kafka,
    math,
    socket,
    Counter,
    psycopg,
    suppress,
    pa,
    HOST,
)  # by the solutions
LATER_NAMES = globals()  # what the notebooks' earlier cells define


@cache
def source_of(name: str) -> str:
    """The source of the stored solution, up to its check."""
    [file] = (ROOT / "notebooks").glob(f"{name[:2]}_*.ipynb")
    cells = ["".join(cell["source"]) for cell in json.loads(file.read_text())["cells"]]
    solutions = [text for text in cells if text.startswith("# Solution")]
    [text] = [text for text in solutions if f"the_solution(check_{name})" in text]
    earlier = [text for text in cells if EARLIER.get(name, "no such class") in text]
    return "\n".join([*earlier, text.partition("the_solution(")[0]])


def answer_of(name: str, old: str = "", new: str = "") -> Any:
    source = source_of(name)
    assert old in source, f"{name} has no {old!r}"
    lines = source.replace(old, new).splitlines() if old else source.splitlines()
    space = dict(LATER_NAMES)
    exec("\n".join(line for line in lines if "if check_" not in line), space)
    names = [line.split()[1].split("(")[0].rstrip(":") for line in lines if line[:4] == "def "]
    names += [line.split()[1].split("(")[0].rstrip(":") for line in lines if line[:6] == "class "]
    return space.get("solution") or space[names[-1]]


WRONG: dict[str, list[tuple[Any, str]]] = {  # an answer or an edit of the solution; the symptom
    "04_1": [
        (('self.rests.get(sender, b"")', "self.rest"), "own rest"),
        (("[line.decode() for line in lines]", '["left"]'), "own rest"),
    ],
    "04_2": [
        (('self.rows(start["lines"], end["lines"])', "[]"), "[start:end]"),
        (('self.rows(start["lines"], None)', "self.rows(0, None)"), "from `start` on"),
        (('rows = self.rows(start["lines"], None)', "rows = []"), "from `start` on"),
    ],
    "05_1": [
        ((" / 1000, UTC", " / 1000"), "is in UTC"),
        (("comma and ", ""), "digits must precede"),
        (("yield line, None", "pass"), "no line is lost"),
        (("raise ValueError(", "print("), "expected 'a ValueError"),
        ((": {line!r}", ""), "returned 'a ValueError: no time"),
    ],
    "06_2": [
        (("min(first + size, stop)", "first + size"), "each unread byte in one"),
        (("min(first + size, stop)", "stop"), "slice of 1 to 10"),
        (("start.get(port, 0)", "0"), "each unread byte in one"),
        (("start.get(port, 0)", "start[port]"), "raised"),
        (lambda start, end, size: [], "each unread byte in one"),
    ],
    "07_1": [
        (("dict(seen), []", "seen, []"), "Try a copy"),
        (("int(number) > seen.get(name, -1)", "number > str(seen.get(name, ''))"), "as texts"),
        (("seen.get(name, -1)", "max(seen.values(), default=-1)"), "each sender"),
    ],
    "07_2": [
        (("**saved}", "}"), "wins over 0"),
        (("str(port): 0", "port: 0"), "in JSON is a str"),
        (lambda saved, ports: {str(port): saved.get(str(port), 0) for port in ports}, "is gone"),
    ],
    "08_1": [
        (('f".batch-{batch_id}.draft"', '"batch-draft.csv"'), "broke off"),
        (("in lines)", "in [*lines][:1])"), "Readers see"),
        (
            lambda folder, batch, lines: (folder / f"batch-{batch}.csv").write_text(
                "".join(f"{line}\n" for line in lines)
            ),
            "written in place",
        ),
    ],
    "08_2": [
        (("INSERT OR IGNORE", "INSERT OR REPLACE"), "is repeated"),
        (("[query_id, batch_id]", "['q', batch_id]"), "another query"),
        ((").rowcount:  # 0 for a repeated batch", "):"), "is repeated"),
        (("as db, db:", "as db:"), "the till has 0"),
    ],
    "11_1": [("a", "with each batch"), ("(C)", "last row"), (3, "letters")],
    "11_2": [
        (('"*.txt"', '"*"'), "drafts don't count"),
        (('glob("*.txt")', 'glob("q-1.*")'), "each line"),
        (('"path"', '"folder"'), "{'path': folder}"),
    ],
    "12_1": [
        ((lambda c: {"all": (0, page_at(c.options.url, 0)["next"])}, lambda *_: []), "of a page"),
        (("while start < end:", "if True:"), "With 250 readings"),
    ],
    "12_2": [
        (lambda ask, sleep: ask(), "slept for []"),
        (("30.0", "60.0"), "30 s at most"),
        (("pause, left = 2 * pause, left - seconds", "left -= seconds"), "doubles"),
    ],
    "12_3": [
        (("row.id", "f'{context.batch}-{context.index}'"), "Try row.id"),
        (("row.id", "str(hash(row))"), "Try row.id"),
        (("row.id", "str(row.degrees)"), "have the same key"),
    ],
    "18_1": [
        (("batches[-5:]", "batches"), "expected ['behind']"),
        (("before < after", "before <= after"), "expected []"),
        ((" and None not in lags", ""), "raised TypeError"),
        (("any(batch.late_rows for batch in last)", "last and last[-1].late_rows"), "include"),
        (("all(before", "lags[0] < lags[4] or all(before"), "expected []"),
    ],
    "18_2": [
        (('self.next["a"] = saved', 'self.next = {"a": saved}'), "Resumed from 40"),
        (('self.next["a"] = saved', "pass"), "Resumed from 40"),
        (('{"version": 2, "next"', '{"version": 1, "next"'), "the version 2"),
        (("elif saved", "elif 1 or saved"), "expected a ValueError"),
        (("raise ValueError", "print"), "expected a ValueError"),
        (("= number + 1", "= 1"), "two calls of `fill`"),
        (("{saved['version']}; this is 2", "?"), "names version 3"),
    ],
    "19_1": [
        (("uuid.uuid4()", "context.index"), "uuid4()"),
        (('"staged-{uuid.uuid4()}"', '"{uuid.uuid4()}.txt"'), "expected []"),
        (('"{context.query}-{context.batch}.txt"', '"{context.batch}.txt"'), "context.query"),
        (('"{context.query}-{context.batch}.txt"', '"{uuid.uuid4()}.txt"'), "replaces what"),
        (('draft-{context.query}"', '{context.query}-{context.batch}.txt"'), "half of one"),
    ],
    "17_1": [
        (("self.record.write_text(str(position))", "pass"), "and the position 0"),
        (("return int(", "return 1 + int("), "and the position 21"),
        (
            (
                "self.file.read_text().splitlines()",
                "sorted({*self.file.read_text().splitlines()}, key=lambda x: int(x[5:]))",
            ),
            "exercise 2",
        ),
    ],
    "17_2": [
        (('"\\n" + json', "json"), "even if a write"),
        (("with suppress(ValueError):", "if text:"), "even if a write"),
        (('open(self.file, "a")', 'open(self.file, "w")'), "even if a write"),
        (
            (
                "json.dumps([position, lines]))",
                'f"[{position}, ") or file.flush() or file.write(json.dumps(lines) + "]")',
            ),
            "even if",
        ),
    ],
    "16_2": [
        (("version + 1", "version"), "in order"),
        (('"add"', '"remove"'), "in order"),
        (("elif action", "elif 0 and action"), "in order"),
        (("log[: version + 1]", "log[version : version + 1]"), "in order"),
        (("log[: version + 1]", "log"), "in order"),
    ],
    "16_1": [
        ((', mode="create"', ""), "its manifest stays"),
        (("bytes(store.get(name).bytes()) == content", "False"), "your own manifest"),
        (("bytes(store.get(name).bytes()) == content", "True"), "its manifest stays"),
        (("except AlreadyExistsError", "except Exception"), "AlreadyExistsError alone"),
    ],
    "22_1": [
        (
            (
                "{item: (euros.get(item), now) for item in stale}",
                "{i: (e, now) for i, e in euros.items()}",
            ),
            "raised",
        ),
        (("= query, seconds", "= query, 99"), "At second 10"),
        (("if stale:", "if True:"), "`query`"),
        ((", pa.int32()", ""), "pa.int32()"),
        (("set(items)", "{'tea', *items}"), "`query`"),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_check_of_function(name: str) -> None:
    check = getattr(checks, f"check_{name}")
    right = answer_of(name)
    assert check(right).passed, check(right)
    for wrong, symptom in WRONG[name]:
        if isinstance(wrong, tuple) and isinstance(wrong[0], str):
            wrong = answer_of(name, *wrong)
        found = check(wrong)
        assert not found.passed, f"{name}: {wrong}"
        assert symptom in found.message, found


def test_galloping_end_is_accepted() -> None:
    def look(context: Any) -> dict[str, tuple[int, int]]:
        step, low = 1, (context.offset or {}).get("all", 0)
        while page_at(context.options.url, low + step)["readings"]:
            low, step = low + step, 2 * step
        high = low + step
        while low < high:
            middle = (low + high) // 2
            more = page_at(context.options.url, middle)["readings"]
            low, high = (middle + 1, high) if more else (low, middle)
        return {"all": (0, low)}

    assert checks.check_12_1((look, answer_of("12_1")[1])).passed


def test_heartbeat() -> None:
    begin = 1_600_000_000_000
    assert checks.check_06_1(f"{begin + 924_999},0.0,x", begin).passed
    assert "second 870" in checks.check_06_1(f"{begin + 895_000},0.0,x", begin).message
    assert "expected one line" in checks.check_06_1("x", begin).message


def test_mailbox_and_feeds() -> None:
    assert checks.check_09_1(answer_of("09_1"), Mailbox, acknowledge).passed
    for edit, symptom in (
        (("acknowledge(self, handed)", "pass"), "must name letters"),
        (("acknowledge(self, handed)", "self.handed |= {*handed}"), "there are still"),
        (("sorted(self.handed)", "[]"), "must name letters"),
    ):
        wrong = answer_of("09_1", *edit)
        assert symptom in checks.check_09_1(wrong, Mailbox, acknowledge).message
    assert checks.check_09_2(answer_of("09_2"), Feeds).passed
    for edit in (("in snapshots", "in snapshots[:1]"), ("if sensor in", "if feeds or sensor in")):
        wrong = answer_of("09_2", *edit)
        assert "*all* snapshots" in checks.check_09_2(wrong, Feeds).message


def test_upsert_and_tidy(uri: str) -> None:
    assert checks.check_10_1(answer_of("10_1"), uri).passed
    for edit in (
        ("UPDATE SET euros = EXCLUDED.euros", "NOTHING"),
        ("SET euros = EXCLUDED.euros", "SET euros = prices.euros + EXCLUDED.euros"),
    ):
        assert "the last price" in checks.check_10_1(answer_of("10_1", *edit), uri).message
    assert checks.check_10_2(answer_of("10_2"), uri).passed
    for edit in (
        ("query = %s AND batch <= %s", "query = %s OR batch <= %s"),
        ("batch <= %s", "batch < %s"),
        (".rowcount:", ":"),
    ):
        assert "a batch counts once" in checks.check_10_2(answer_of("10_2", *edit), uri).message


def largest(context: Any, column: str, condition: str = "true") -> Any:
    text = f"SELECT coalesce(max({column}), 0) + 1 FROM orders WHERE {condition}"
    return {"orders": (0, context.connection.execute(text).fetchone()[0])}


def between_ids(context: Any, split: str, start: int, end: int) -> Any:
    text = "SELECT id, item FROM orders WHERE id >= %s AND id < %s"
    return context.connection.execute(text, (start, end))


def test_table_is_followed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    look, read = answer_of("14_1")
    horizon = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

    def with_horizon(context: Any) -> Any:
        return {"orders": (0, context.connection.execute(horizon).fetchone()[0])}

    def with_lock(context: Any) -> Any:
        with context.connection.transaction():  # it waits for all writers
            context.connection.execute("LOCK TABLE orders IN SHARE MODE")
            return largest(context, "id")

    def without_gaps(context: Any) -> Any:
        return largest(context, "id", "id = (SELECT count(*) FROM orders AS o WHERE o.id <= id)")

    def all_rows(context: Any, split: str, start: int, end: int) -> Any:
        return context.connection.execute("SELECT id, item FROM orders")

    for right in ((look, read), (with_horizon, read), (with_lock, between_ids)):
        assert checks.check_14_1(right, uri).passed
    for wrong, symptom in (
        ((lambda context: largest(context, "id"), between_ids), "committed late"),
        ((lambda context: largest(context, "xact"), read), "committed late"),
        ((look, between_ids), "committed late"),
        ((without_gaps, between_ids), "committed late"),
        ((look, all_rows), "committed late"),
        (look, "expected a pair"),
    ):
        assert symptom in checks.check_14_1(wrong, uri).message


def test_topic_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    look, read = answer_of("15_1")

    def one_partition(context: Any) -> Any:
        return {"0": look(context)["0"]}

    def without_the_last(context: Any, split: str, start: int, end: int) -> Any:
        return read(context, split, start, end - 1)

    def beyond(context: Any, split: str, start: int, end: int) -> Any:
        return [*read(context, split, start, end), (0, end, "record")]

    with start_kafka(tmp_path) as broker:
        assert checks.check_15_1((look, read), broker.uri).passed
        for wrong in ((one_partition, read), (look, without_the_last), (look, beyond)):
            assert "each record arrives once" in checks.check_15_1(wrong, broker.uri).message
