"""Each check refuses wrong answers with a fitting message.

The notebooks show that it accepts the solution. Checks that need Spark are in
`test_checks_with_spark.py`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.unit.workbook.solutions import answer_of, names_at
from tutorial_pkg.core.places import work_dir
from workbook import checks
from workbook.checks import trial
from workbook.services import Postgres, start_kafka

NAMES = [name for name in vars(checks) if name.startswith("check_")]


@pytest.mark.parametrize("name", NAMES)
def test_answer_is_missing_or_of_another_kind(name: str) -> None:
    check = getattr(checks, name)
    assert check.__name__ == name
    more = [object] * (len(signature(check).parameters) - 1)
    assert check(None, *more).passed is None
    assert "3; expected" in check(3, *more).message


def publish_half(folder: Path, batch: int, lines: Iterable[str]) -> None:
    draft = folder / "draft"
    try:
        with draft.open("w") as file:
            file.writelines(f"{line}\n" for line in lines)
    finally:
        draft.replace(folder / f"batch-{batch}.csv")


def pay_in_two_steps(path: Path, query: str, batch: int, euros: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        row = query, batch
        if not database.execute("SELECT 1 FROM done WHERE (query, batch) = (?, ?)", row).fetchone():
            database.execute("UPDATE till SET euros = euros + ?", [euros])
            database.execute("INSERT INTO done VALUES (?, ?)", row)


WRONG: dict[str, list[tuple[Any, str]]] = {  # an answer or an edit of the solution; the symptom
    "04_1": [(('self.rests.get(sender, b"")', "self.rest"), "own rest")],
    "04_2": [
        (('self.rows(start["lines"], end["lines"])', "[]"), "from 2 to 3 returned []"),
        (('self.rows(start["lines"], end["lines"])', "self.rows(0, None)"), "or to `end`"),
        (('self.rows(start["lines"], None)', "self.rows(0, None)"), "from `start`"),
    ],
    "05_1": [
        ((" / 1000, UTC", " / 1000"), "is in UTC"),
        (("comma and ", ""), "digits must precede"),
        (("raise ValueError(", "print("), "expected ValueError"),
    ],
    "06_1": [
        (("min(first + size, stop)", "first + size"), "A's end"),
        (("start.get(port, 0)", "start[port]"), "new ports start at 0"),
        (lambda start, end, size: None, "returned None"),
    ],
    "07_1": [
        (("dict(seen), []", "seen, []"), "Try a copy"),
        (("return new", "return sorted(new)"), "integers"),
        (("int(number) > seen.get(name, -1)", "number > str(seen.get(name, ''))"), "integers"),
        (("seen.get(name, -1)", "max(seen.values(), default=-1)"), "each sender"),
        (("seen.get(name, -1)", "seen.get(name, 0)"), "starts at 0"),
    ],
    "08_1": [
        (('f".batch-{batch_id}.draft"', '"batch-draft.csv"'), "in place"),
        (('".batch-{batch_id}.draft"', '"batch-{batch_id}.csv"'), "in place"),
        (("with draft", "with __import__('contextlib').suppress(ValueError), draft"), "catch that"),
        (publish_half, "batch 1 is replaced, and 2 has failed"),
    ],
    "08_2": [
        (("INSERT OR IGNORE", "INSERT OR REPLACE"), "is repeated"),
        (("[query_id, batch_id]", "['q', batch_id]"), "another query"),
        (("as db, db:", "as db:"), "till_after('q', 1, 50) returned 0"),
        (("connect(path)", "connect(path, isolation_level=None)"), "batch failed before"),
        (pay_in_two_steps, "batch 3 failed before"),
    ],
    "11_1": [("a", "needs a failure"), (3, "letters")],
    "11_2": [
        (('"*.txt"', '"*"'), "drafts don't count"),
        (('"path"', '"folder"'), "{'path': folder}"),
    ],
    "12_1": [(("while start < end:", "if True:"), "not of a page")],
    "12_2": [
        (lambda ask, sleep: ask(), "returned []"),
        (("30.0", "60.0"), "30 s in all"),
        (("pause, left = 2 * pause, left - seconds", "left -= seconds"), "doubles"),
    ],
    "16_1": [
        ((', mode="create"', ""), "mode='create'"),
        (("bytes(store.get(name).bytes()) == content", "False"), "your own manifest"),
        (("except AlreadyExistsError", "except Exception"), "FileNotFoundError"),
    ],
    "17_1": [
        (("self.record.write_text(str(position))", "pass"), "position 0"),
        (
            (
                "self.file.read_text().splitlines()",
                "sorted({*self.file.read_text().splitlines()}, key=lambda x: int(x[5:]))",
            ),
            "exercise 2",
        ),
    ],
    "17_2": [
        (("with suppress(ValueError):", "if text:"), "even if a write"),
        (('open(self.file, "a")', 'open(self.file, "w")'), "even if a write"),
        (
            ("file.write(", "file.write('[') or file.flush() or file.write("),
            "even if",
        ),
    ],
    "18_1": [
        (('self.next["a"] = saved', "pass"), "rows_after(40)"),
        (("raise ValueError", "print"), "expected ValueError"),
    ],
    "19_1": [
        (("uuid.uuid4()", "context.index"), "uuid4()"),
        (('"staged-{uuid.uuid4()}"', '"{uuid.uuid4()}.txt"'), "expected []"),
        (('f"{item}\\n"', 'f"{item} "'), "all tasks count"),
        (('"{context.query}-{context.batch}.txt"', '"{context.batch}.txt"'), "context.query"),
        (('draft-{context.query}"', '{context.query}-{context.batch}.txt"'), "in place"),
        (('Path(context.options.folder, f"staged', 'Path("/tmp", f"staged'), "staged /tmp/staged"),
    ],
    "22_1": [
        (("= query, seconds", "= query, 99"), "a new price"),
        (("if stale:", "if True:"), "are known"),
        ((", pa.int32()", ""), "pa.int32()"),
    ],
}


@pytest.mark.parametrize("name", WRONG)
def test_check_of_function(name: str) -> None:
    refuses(name, *WRONG[name])


def refuses(name: str, *wrong_answers: tuple[Any, str], **more: Any) -> None:
    """Try wrong answers, each with a part of the message.

    Args:
        more: what the check needs besides the answer.
    """
    check = getattr(checks, f"check_{name}")
    for wrong, symptom in wrong_answers:
        is_edit = isinstance(wrong, tuple) and isinstance(wrong[0], str)
        verdict = check(answer_of(name, *wrong) if is_edit else wrong, **more)
        assert not verdict.passed, f"{name}: {wrong}"
        assert symptom in verdict.message, verdict


def test_galloping_end_is_accepted() -> None:
    names = names_at("12_1")

    def has_more(context: Any, position: int) -> bool:
        return bool(names["page_at"](context.options.url, position)["readings"])

    def look(context: Any) -> dict[str, tuple[int, int]]:
        step, low = 1, (context.offset or {}).get("all", 0)
        while has_more(context, low + step):
            low, step = low + step, 2 * step
        high = low + step
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if has_more(context, middle) else (low, middle)
        return {"all": (0, low)}

    def end_of_a_page(context: Any) -> dict[str, tuple[int, int]]:
        start = (context.offset or {}).get("all", 0)
        return {"all": (0, names["page_at"](context.options.url, start)["next"])}

    assert checks.check_12_1((look, names["answer"][1])).passed
    assert "not of a page" in checks.check_12_1((end_of_a_page, names["answer"][1])).message


def test_mailbox() -> None:
    names = names_at("09_1")
    refuses(
        "09_1",
        (("acknowledge(self, handed)", "pass"), "must name letters"),
        (("return ", "acknowledge(self, [*self.handed]); return "), "removed a letter"),
        (("acknowledge(self, handed)", "self.handed |= {*handed}"), "there are still"),
        mailbox=names["Mailbox"],
        acknowledge=names["acknowledge"],
    )


def test_feeds() -> None:
    refuses(
        "09_2",
        (("in snapshots", "in snapshots[:1]"), "*all* snapshots"),
        (("if sensor in", "if feeds or sensor in"), "*all* snapshots"),
        feeds=names_at("09_2")["Feeds"],
    )


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """Where an empty PostgreSQL listens."""
    with (
        TemporaryDirectory(dir=work_dir("tests")) as folder,
        Postgres(Path(folder, "data")) as server,
    ):
        yield server.uri


def test_tidy(uri: str) -> None:
    once = "a batch counts once"
    refuses(
        "10_1",
        (("query = %s AND batch <= %s", "query = %s OR batch <= %s"), once),
        (("batch <= %s", "batch < %s"), once),
        (("batch <= %s", "batch = %s"), once),
        ((".rowcount:", ":"), once),
        uri=uri,
    )


def test_table_is_followed(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    look = answer_of("14_1")[0]

    def by_id(context: Any) -> Any:
        text = "SELECT coalesce(max(id), 0) + 1 FROM orders"
        return {"orders": (0, context.connection.execute(text).fetchone()[0])}

    def read_by_id(context: Any, split: str, start: int, end: int) -> Any:
        text = "SELECT id, item FROM orders WHERE id >= %s AND id < %s"
        return context.connection.execute(text, (start, end))

    def with_lock(context: Any) -> Any:
        with context.connection.transaction():  # it waits for all writers
            context.connection.execute("LOCK TABLE orders IN SHARE MODE")
            return by_id(context)

    late = "committed late"
    wrong = (
        ((by_id, read_by_id), late),
        ((look, read_by_id), late),
        (look, "expected `(look, read)`"),
    )
    refuses("14_1", *wrong, uri=uri)
    assert checks.check_14_1((with_lock, read_by_id), uri).passed


def test_topic_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE", 0.5)
    look, read = answer_of("15_1")

    def one_partition(context: Any) -> Any:
        return {"0": look(context)["0"]}

    def beyond(context: Any, split: str, start: int, end: int) -> Any:
        return [*read(context, split, start, end), (0, end, "record")]

    with start_kafka(tmp_path) as broker:
        wrong = [
            (pair, "each record arrives once") for pair in ((one_partition, read), (look, beyond))
        ]
        refuses("15_1", *wrong, uri=broker.uri)
