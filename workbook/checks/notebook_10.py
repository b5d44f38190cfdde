"""Checks of notebook 10: against a real PostgreSQL, in tables and a database of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from workbook.checks.verdict import Wrong, exercise, told

Answer = Callable[..., Any]


# ---- Exercise 1: upsert --------------------------------------------------------------------------


@exercise("def upsert(connection, rows)")
def check_10_1(answer: Answer, uri: str) -> str:
    """Does `answer(connection, rows)` set prices by item, whatever is repeated?"""
    # A temporary table hides the learner's own one of that name, and is gone with the connection.
    with psycopg.connect(uri) as connection:
        connection.execute("CREATE TEMP TABLE prices (item BIGINT PRIMARY KEY, euros BIGINT)")
        connection.commit()
        _upsert(answer, connection, [(1, 10), (2, 20)], {1: 10, 2: 20}, _NEW)
        _take_back(connection, {})
        _upsert(answer, connection, [(1, 10), (2, 20)], {1: 10, 2: 20}, _NEW)
        connection.commit()
        for rows, wanted, hint in _UPSERTS:
            _upsert(answer, connection, rows, wanted, hint)
        _take_back(connection, {1: 10, 2: 20})
    return "Set by key: doing it twice is doing it once."


def _take_back(connection: Any, before: dict[int, int]) -> None:
    connection.rollback()
    if _prices(connection) != before:
        raise Wrong(
            "It must not commit: `flush` does, when all rows of the task are there. The end of "
            "`with connection.transaction()` commits, too."
        )


_NEW = "Two new items must be in the table, and `connection` must see them."
_LATER = "A later price replaces an earlier one: DO UPDATE, not DO NOTHING; set it, do not add."
_LOWER = "A later price counts, even a lower one: take EXCLUDED.euros."
_WITHIN = "An item that comes twice within `rows` has the price of its last row there."
_UPSERTS: list[tuple[list[tuple[int, int]], dict[int, int], str]] = [
    ([(2, 25)], {1: 10, 2: 25}, _LATER),
    ([(1, 10), (2, 25)], {1: 10, 2: 25}, "A repeat must change nothing."),
    ([(2, 15)], {1: 10, 2: 15}, _LOWER),
    ([(1, 11), (3, 30), (1, 12)], {1: 12, 2: 15, 3: 30}, _WITHIN),
    ([(2, 15), (3, 32), (3, 31), (4, 42), (4, 41), (3, 33)], {1: 12, 2: 15, 3: 33, 4: 41}, _WITHIN),
    ([(4, 0)], {1: 12, 2: 15, 3: 33, 4: 0}, "A price of 0 is a price, too."),
    ([], {1: 12, 2: 15, 3: 33, 4: 0}, "Without rows nothing changes."),
]


def _upsert(answer: Answer, connection: Any, rows: Any, wanted: Any, hint: str) -> None:
    """Call it with the rows; then these prices are wanted."""
    try:
        answer(connection, rows)
    except psycopg.errors.CardinalityViolation:
        raise Wrong(
            "One INSERT cannot set an item twice (CardinalityViolation), and `rows` has one twice: "
            "use executemany, which takes one row after the other."
        ) from None
    except (psycopg.errors.UniqueViolation, psycopg.errors.InFailedSqlTransaction):
        raise Wrong(
            "An item is in the table already, or comes twice in `rows`: INSERT … ON CONFLICT "
            "(item) DO UPDATE sets its price."
        ) from None
    except psycopg.errors.UndefinedTable:
        raise Wrong("Only `connection` sees the check's table: write with that one.") from None
    except Exception as error:
        raise Wrong(f"upsert(connection, {rows}) raised {told(error)}. {hint}") from None
    if connection.closed:
        raise Wrong("It closed the connection (`with` does, and commits): use it as it is.")
    found = _prices(connection)
    missing = sorted(wanted.keys() - found.keys())
    if missing and missing[0] not in dict(rows):
        hint = f"Item {missing[0]} is gone: do not empty the table."
    elif missing and hint != _NEW:
        hint = f"Item {missing[0]} must be in the table."
    if found != wanted:
        raise Wrong(f"upsert(connection, {rows}): {hint} Wanted {wanted}, found {found}.")


def _prices(connection: Any) -> dict[int, int]:
    return dict(connection.execute("SELECT item, euros FROM prices ORDER BY item").fetchall())


# ---- Exercise 2: a commit that leaves nothing behind ---------------------------------------------

_TABLES = """
CREATE TABLE orders (item BIGINT, euros BIGINT CHECK (euros > 0));
CREATE TABLE staged (handle TEXT, query TEXT, batch BIGINT, item BIGINT, euros BIGINT);
CREATE TABLE done (query TEXT, batch BIGINT CHECK (batch <> 4), PRIMARY KEY (query, batch));
"""


@exercise("def tidy(context, handles)")
def check_10_2(answer: Answer, uri: str) -> str:
    """Is `answer(context, handles)` exactly once, and clears away what is its own to clear?"""
    with _own_database(uri) as own, psycopg.connect(own, autocommit=True) as database:
        database.execute(_TABLES)
        trial = _Trial(answer, own, database)
        trial.publishes_what_counts()
        trial.knows_a_repeat()
        trial.leaves_other_queries_alone()
        trial.clears_earlier_batches()
        trial.is_all_or_nothing()
        trial.clears_without_handles()
    return "Published once, and nothing left behind."


@contextmanager
def _own_database(uri: str) -> Iterator[str]:
    name = f"check_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(uri, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield make_conninfo(uri, dbname=name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


class _Trial:
    """Batches of the query "mine", beside one called "other"."""

    def __init__(self, answer: Answer, uri: str, database: Any) -> None:
        self._answer, self._uri, self._database = answer, uri, database

    def publishes_what_counts(self) -> None:
        """An attempt that died has staged the same rows: its handle does not come."""
        self._stage("dead", "mine", 0, 1, 2)
        self._stage("other", "other", 0, 77)
        self._stage("a", "mine", 0, 1)
        self._stage("b", "mine", 0, 2)
        self._commit(0, "a", "b")
        if self._items() == []:
            raise Wrong(
                "Nothing is in `orders` of the database context.options.uri: connect to that one, "
                "insert before you delete, take all rows with handle = ANY(%s), and let `with` "
                "commit."
            )
        if self._items() != [1, 2]:
            raise Wrong(
                f"Of batch 0, items 1 and 2 must be in `orders`, found {self._items()}: rows "
                "count if their handle is in `handles`; others are of tasks that died."
            )
        if self._staged("mine"):
            raise Wrong(
                "Rows of batch 0 are still staged: delete those that you publish, and those of "
                "tasks that died, whose handles never come."
            )

    def knows_a_repeat(self) -> None:
        """The crash came behind the transaction: batch 0 comes again, and a task dies."""
        self._stage("dead again", "mine", 0, 1)
        self._stage("c", "mine", 0, 1, 2)
        try:
            self._commit(0, "c")
        except psycopg.errors.UniqueViolation:
            raise Wrong(
                "Batch 0 came again, and its note is in `done` already: INSERT … ON CONFLICT DO "
                "NOTHING, and look at `rowcount`."
            ) from None
        if self._items() != [1, 2]:
            raise Wrong(
                f"The same batch came again, and now `orders` has {self._items()}: see `done`."
            )
        if self._staged("mine"):
            raise Wrong("A batch that comes again was staged again: delete that, too.")
        self._stage("d", "mine", 1, 3, 3, 1)
        self._commit(1, "d")
        if self._items() != [1, 1, 2, 3, 3]:
            raise Wrong(f"Batch 1 is new, with the items 1, 3 and 3; found {self._items()}.")

    def leaves_other_queries_alone(self) -> None:
        if not self._staged("other"):
            raise Wrong("It deleted rows that another query has staged: compare `query`.")
        if self._database.execute("SELECT 1 FROM done WHERE query <> 'mine'").fetchone():
            raise Wrong("`done` has a batch of another query: note `context.query`.")
        self._stage("e", "other", 1, 78)
        self._commit(1, "e", query="other")
        if 78 not in self._items():
            raise Wrong("Batch 1 of another query was taken for yours: compare `query` in `done`.")

    def clears_earlier_batches(self) -> None:
        """A task that Spark had given up staged its rows of batch 0 behind that batch's commit."""
        self._stage("late", "mine", 0, 1)
        self._stage("f", "mine", 2, 4)
        self._stage("later", "mine", 3, 5)
        self._stage("again", "other", 1, 78)  # a batch with a note, and earlier than this one
        self._commit(2, "f")
        if self._items() != [1, 1, 2, 3, 3, 4, 78]:
            raise Wrong(f"Batch 2 is new; found {self._items()} in `orders`.")
        if min(self._staged("mine"), default=3) <= 2:
            raise Wrong("Rows of batch 0, staged late, are left: clear all batches up to this.")
        if not self._staged("mine"):
            raise Wrong("It deleted rows of a later batch: compare `batch`.")
        if 1 not in self._staged("other"):
            raise Wrong("It deleted rows that another query has staged: compare `query`.")
        self._commit(1, "again", query="other")
        if self._items().count(78) != 1:
            raise Wrong(
                "Batch 1 of another query came again, and is there twice: leave its note in `done`."
            )

    def is_all_or_nothing(self) -> None:
        """The database refuses the rows of batch 3, and the note of batch 4."""
        self._stage("g", "mine", 3, 6, euros=-1)
        self._is_refused(3, "g")
        if self._database.execute("SELECT 1 FROM done WHERE batch = 3").fetchone():
            raise Wrong("The rows were refused, but the batch is in `done`: use one transaction.")
        if not self._staged("mine"):
            raise Wrong("The rows were refused, and their stage is gone: use one transaction.")
        self._stage("h", "mine", 4, 7)
        self._is_refused(4, "h")
        if 7 in self._items():
            raise Wrong("The note failed, but the rows are in `orders`: use one transaction.")

    def clears_without_handles(self) -> None:
        """The rows of batches 3 and 4, which were refused, are staged."""
        self._commit(5)
        if self._staged("mine"):
            raise Wrong(
                "Batch 5 has no handles, and rows of earlier batches are left: clear them, too."
            )

    def _is_refused(self, batch: int, handle: str) -> None:
        try:
            self._commit(batch, handle)
        except Exception:  # the database's, or one of the learner's own
            return
        raise Wrong("The database raised an error, and it was swallowed: let it pass.")

    def _stage(self, handle: str, query: str, batch: int, *items: int, euros: int = 5) -> None:
        rows = [(handle, query, batch, item, euros) for item in items]
        insert = "INSERT INTO staged VALUES (%s, %s, %s, %s, %s)"
        self._database.cursor().executemany(insert, rows)

    def _commit(self, batch: int, *handles: str, query: str = "mine") -> None:
        options = SimpleNamespace(uri=self._uri)
        self._answer(SimpleNamespace(query=query, batch=batch, options=options), list(handles))

    def _items(self) -> list[int]:
        return [item for (item,) in self._database.execute("SELECT item FROM orders ORDER BY 1")]

    def _staged(self, query: str) -> list[int]:
        """The batches of the query's rows that are staged."""
        rows = self._database.execute("SELECT batch FROM staged WHERE query = %s", [query])
        return [batch for (batch,) in rows]
