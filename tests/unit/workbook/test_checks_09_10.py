"""The checks of notebooks 09 and 10: right answers pass, typical wrong ones get their hint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tutorial_pkg.workbook.checks import check_09_1, check_09_2, check_10_1, check_10_2

# ---- 09, exercise 1: what the notebook has, and answers ------------------------------------------


class Mailbox:
    def __init__(self, context: Any) -> None:
        self.folder, self.handed = Path(context.options.letters), set()

    def fill(self, buffer: Any) -> None:
        for name in sorted({letter.name for letter in self.folder.glob("*.txt")} - self.handed):
            buffer.add((self.folder / name).read_text(), token=name)
            self.handed.add(name)


def acknowledge(mailbox: Any, names: list[str]) -> None:
    for name in names:
        (mailbox.folder / name).unlink(missing_ok=True)
    mailbox.handed.difference_update(names)


class Once(Mailbox):
    def snapshot(self) -> Any:
        return sorted(self.handed)

    def restore(self, snapshots: list[Any]) -> None:
        for handed in snapshots:
            acknowledge(self, handed)


class SetAsSnapshot(Once):
    def snapshot(self) -> Any:
        return self.handed


class Forgets(Once):
    def restore(self, snapshots: list[Any]) -> None:
        pass


class KeepsThem(Once):
    """It does not read them again, but nobody ever deletes them."""

    def restore(self, snapshots: list[Any]) -> None:
        self.handed.update(*snapshots)


class SkipsAll(Once):
    def restore(self, snapshots: list[Any]) -> None:
        for letter in self.folder.glob("*.txt"):
            letter.unlink()


class Grows(Once):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.ever: set[str] = set()

    def fill(self, buffer: Any) -> None:
        super().fill(buffer)
        self.ever |= self.handed

    def snapshot(self) -> Any:
        return sorted(self.ever)


class GrowsFromRestartToRestart(Once):
    """What it restored has no token now, so nobody ever takes it out again."""

    def restore(self, snapshots: list[Any]) -> None:
        for names in snapshots:
            self.handed.update(names)
            for name in names:
                (self.folder / name).unlink(missing_ok=True)


class OnlyOfTheLastFill(Once):
    """It forgets what earlier fills added and nobody has acknowledged."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.new: list[str] = []

    def fill(self, buffer: Any) -> None:
        old = set(self.handed)
        super().fill(buffer)
        self.new = sorted(self.handed - old)

    def snapshot(self) -> Any:
        return self.new


class NoSnapshotBeforeFill(OnlyOfTheLastFill):
    def __init__(self, context: Any) -> None:
        super().__init__(context)
        del self.new


class LastTen(Once):
    """It keeps some names longer than it must, but not all."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.last: list[str] = []

    def fill(self, buffer: Any) -> None:
        old = set(self.handed)
        super().fill(buffer)
        self.last = (self.last + sorted(self.handed - old))[-10:]

    def snapshot(self) -> Any:
        return sorted(self.handed.union(self.last))

    def restore(self, snapshots: list[Any]) -> None:
        super().restore(snapshots)
        self.last = snapshots[0][-10:]


class DeletesAtOnce(Once):
    def fill(self, buffer: Any) -> None:
        super().fill(buffer)
        acknowledge(self, sorted(self.handed))


class OneSnapshot(Once):
    """Takes the list of all snapshots for a snapshot."""

    def restore(self, snapshots: list[Any]) -> None:
        acknowledge(self, snapshots)


class OnlySnapshot(Mailbox):
    def snapshot(self) -> Any:
        return sorted(self.handed)


@pytest.mark.parametrize("answer", [Once, LastTen])
def test_09_1_right(answer: type) -> None:
    assert check_09_1(answer, Mailbox, acknowledge).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (None, "No answer yet"),
        (Mailbox(type("C", (), {"options": type("O", (), {"letters": "."})})), "A class is wanted"),
        (dict, "extends Mailbox"),
        (OnlySnapshot, "has no method `restore`"),
        (SetAsSnapshot, "is a set, and JSON has none"),
        (Forgets, "must know from the snapshot"),
        (KeepsThem, "stays in the folder for ever"),
        (SkipsAll, "letter 3 is new; after a restart it added []"),
        (Grows, "grows with every letter that ever came:"),
        (GrowsFromRestartToRestart, "from restart to restart"),
        (OnlyOfTheLastFill, "must know from the snapshot"),
        (NoSnapshotBeforeFill, "before the first `fill` too: yours raised AttributeError"),
        (DeletesAtOnce, "leave them until they are acknowledged"),
        (OneSnapshot, "raised TypeError"),
    ],
)
def test_09_1_wrong(answer: Any, hint: str) -> None:
    verdict = check_09_1(answer, Mailbox, acknowledge)
    assert not verdict.passed
    assert hint in verdict.message


# ---- 09, exercise 2 ------------------------------------------------------------------------------


class Feeds:
    def __init__(self, context: Any) -> None:
        self.until = context.options.until
        self.next = dict.fromkeys("abcdef"[context.index :: context.count], 0)
        self.index = context.index

    def fill(self, buffer: Any) -> None:
        for sensor, number in self.next.items():
            if number < self.until:
                buffer.add((sensor, number))
                self.next[sensor] += 1


def restore(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    for snapshot in snapshots:
        feeds.next.update({s: number for s, number in snapshot.items() if s in feeds.next})


def take_all(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    for snapshot in snapshots:
        feeds.next.update(snapshot)


def own_index(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    feeds.next = snapshots[feeds.index]


def first_only(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    restore(feeds, snapshots[:1])


def only_known(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    known = {s: number for snapshot in snapshots for s, number in snapshot.items()}
    feeds.next = {s: known[s] for s in feeds.next if s in known}


def new_ones_from_the_middle(feeds: Feeds, snapshots: list[dict[str, int]]) -> None:
    known = {s: number for snapshot in snapshots for s, number in snapshot.items()}
    feeds.next = {s: known.get(s, min(known.values())) for s in feeds.next}


def as_a_list(feeds: Any, snapshots: list[dict[str, int]]) -> None:
    feeds.next = snapshots


def test_09_2_right() -> None:
    assert check_09_2(restore, Feeds).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ({}, "A function is wanted"),
        (lambda feeds, snapshots: None, "must go on at"),
        (take_all, "two instances read sensor"),
        (own_index, "From 2 to 2 instances: nobody reads sensor a"),
        (first_only, "another instance may have had it before"),
        (only_known, "nobody reads sensor a"),
        (new_ones_from_the_middle, "so it starts at 0"),
        (as_a_list, "must stay a dict"),
        (lambda feeds, snapshots: snapshots[9], "raised IndexError"),
    ],
)
def test_09_2_wrong(answer: Any, hint: str) -> None:
    verdict = check_09_2(answer, Feeds)
    assert not verdict.passed
    assert hint in verdict.message


# ---- 10, against a real server -------------------------------------------------------------------


def statement(text: str) -> Any:
    return lambda connection, rows: connection.cursor().executemany(text, rows)


INSERT = "INSERT INTO prices VALUES (%s, %s)"
UPSERT = f"{INSERT} ON CONFLICT (item) DO UPDATE SET euros = EXCLUDED.euros"


def deletes_first(connection: Any, rows: list[tuple[int, int]]) -> None:
    connection.execute("DELETE FROM prices")
    statement(UPSERT)(connection, rows)


def commits(connection: Any, rows: list[tuple[int, int]]) -> None:
    statement(UPSERT)(connection, rows)
    connection.commit()


def first_wins(connection: Any, rows: list[tuple[int, int]]) -> None:
    statement(UPSERT)(connection, list({item: (item, e) for item, e in reversed(rows)}.values()))


def in_one_statement(connection: Any, rows: list[tuple[int, int]]) -> None:
    values = ", ".join(f"({item}, {euros})" for item, euros in rows)
    text = f"INSERT INTO prices VALUES {values} ON CONFLICT (item) DO UPDATE SET euros = 0"
    connection.execute(text.replace("euros = 0", "euros = EXCLUDED.euros"))


def test_10_1_right(uri: str) -> None:
    assert check_10_1(statement(UPSERT), uri).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (UPSERT, "A function is wanted"),
        (lambda connection, rows: None, "Two new items must be in the table"),
        (statement(INSERT), "raised UniqueViolation"),
        (statement(f"{INSERT} ON CONFLICT DO NOTHING"), "DO UPDATE, not DO NOTHING"),
        (
            statement(f"{INSERT} ON CONFLICT (item) DO UPDATE SET euros = prices.euros + 1"),
            "A repeat must change nothing",
        ),
        (deletes_first, "A later price replaces an earlier one"),
        (first_wins, "has the later price"),
        (in_one_statement, "raised CardinalityViolation"),
        (commits, "It must not commit"),
    ],
)
def test_10_1_wrong(uri: str, answer: Any, hint: str) -> None:
    verdict = check_10_1(answer, uri)
    assert not verdict.passed
    assert hint in verdict.message


NOTE = "INSERT INTO done VALUES (%(query)s, %(batch)s) ON CONFLICT DO NOTHING"
SHOW = "INSERT INTO orders SELECT item, euros FROM staged WHERE handle = ANY(%(handles)s)"
CLEAR = "DELETE FROM staged WHERE query = %(query)s AND batch <= %(batch)s"


def in_steps(
    note: str = NOTE, show: str = SHOW, clear: str = CLEAR, autocommit: bool = False
) -> Any:
    def commit(context: Any, handles: list[str]) -> None:
        names = {"query": context.query, "batch": context.batch, "handles": handles}
        with psycopg.connect(context.options.uri, autocommit=autocommit) as database:
            if not note or database.execute(note, names).rowcount:
                database.execute(show, names)
            database.execute(clear, names)

    return commit


def swallows(context: Any, handles: list[str]) -> None:
    try:
        in_steps()(context, handles)
    except psycopg.Error:
        return


def returns_early(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    with psycopg.connect(context.options.uri) as database:
        if not database.execute(NOTE, names).rowcount:
            return
        database.execute(SHOW, names)
        database.execute(CLEAR, names)


def does_not_commit(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    database = psycopg.connect(context.options.uri)
    for text in (NOTE, SHOW, CLEAR):
        database.execute(text, names)
    database.close()


def test_10_2_right(uri: str) -> None:
    assert check_10_2(in_steps(), uri).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        ("commit", "A function is wanted"),
        (does_not_commit, "Nothing is in `orders`"),
        (in_steps(show=CLEAR), "insert before you delete"),
        (
            in_steps(show="INSERT INTO orders SELECT item, euros FROM staged WHERE batch = 0"),
            "count if their handle is in `handles`",
        ),
        (
            in_steps(clear="DELETE FROM staged WHERE handle = ANY(%(handles)s)"),
            "Rows of a task that died are still staged",
        ),
        (in_steps(note=""), "The same batch came again"),
        (returns_early, "A batch that comes again was staged again"),
        (in_steps(clear="DELETE FROM staged"), "what another query has staged"),
        (in_steps(clear="DELETE FROM staged WHERE batch <= %(batch)s"), "compare `query`"),
        (in_steps(clear=CLEAR.replace("<=", "=")), "clear all batches up to this one"),
        (in_steps(clear=CLEAR.replace("AND", "OR")), "what another query has staged"),
        (
            in_steps(clear="DELETE FROM staged WHERE query = %(query)s"),
            "It deleted rows of a later batch",
        ),
        (in_steps(autocommit=True), "use one transaction"),
        (swallows, "the error was swallowed"),
        (lambda context, handles: context.nothing, "raised AttributeError"),
    ],
)
def test_10_2_wrong(uri: str, answer: Any, hint: str) -> None:
    verdict = check_10_2(answer, uri)
    assert not verdict.passed
    assert hint in verdict.message


def test_the_check_leaves_no_database_behind(uri: str) -> None:
    check_10_2(swallows, uri)
    with psycopg.connect(uri) as database:
        names = [name for (name,) in database.execute("SELECT datname FROM pg_database")]
    assert not [name for name in names if name.startswith("check_")]
