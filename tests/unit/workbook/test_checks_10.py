"""The checks of notebook 10, against a real server."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.unit.workbook.answers import look
from workbook.checks import check_10_1, check_10_2


def statement(text: str) -> Any:
    return lambda connection, rows: connection.cursor().executemany(text, rows)


INSERT = "INSERT INTO prices VALUES (%s, %s)"
UPDATE = "ON CONFLICT (item) DO UPDATE SET euros ="
UPSERT = f"{INSERT} {UPDATE} EXCLUDED.euros"


def deletes_first(connection: Any, rows: list[tuple[int, int]]) -> None:
    connection.execute("DELETE FROM prices")
    statement(UPSERT)(connection, rows)


def commits(connection: Any, rows: list[tuple[int, int]]) -> None:
    statement(UPSERT)(connection, rows)
    connection.commit()


def first_wins(connection: Any, rows: list[tuple[int, int]]) -> None:
    statement(UPSERT)(connection, list({item: (item, e) for item, e in reversed(rows)}.values()))


def counts_repeats(connection: Any, rows: list[tuple[int, int]]) -> None:
    same = "CASE WHEN prices.euros = EXCLUDED.euros THEN prices.euros + 1 ELSE EXCLUDED.euros END"
    statement(f"{INSERT} {UPDATE} {same}")(connection, rows)


def in_a_transaction(connection: Any, rows: list[tuple[int, int]]) -> None:
    with connection.transaction():  # where none has begun yet, it commits
        statement(UPSERT)(connection, rows)


def closes(connection: Any, rows: list[tuple[int, int]]) -> None:
    with connection:
        statement(UPSERT)(connection, rows)


def in_one_statement(connection: Any, rows: list[tuple[int, int]]) -> None:
    values = ", ".join(f"({item}, {euros})" for item, euros in rows)
    connection.execute(f"INSERT INTO prices VALUES {values} {UPDATE} EXCLUDED.euros")


def deletes_and_inserts(connection: Any, rows: list[tuple[int, int]]) -> None:
    for item, euros in rows:
        connection.execute("DELETE FROM prices WHERE item = %s", [item])
        connection.execute(INSERT, [item, euros])


class Upserts:
    """One statement for the last price of each item."""

    def __call__(self, connection: Any, rows: list[tuple[int, int]]) -> None:
        last = dict(rows)
        columns = "unnest(%s::bigint[]), unnest(%s::bigint[])"
        text = f"INSERT INTO prices SELECT {columns} {UPDATE} EXCLUDED.euros"
        connection.execute(text, [[*last], [*last.values()]])


def looks_first(connection: Any, rows: list[tuple[int, int]]) -> None:
    known = {item for (item,) in connection.execute("SELECT item FROM prices")}
    for item, euros in rows:
        update = "UPDATE prices SET euros = %(euros)s WHERE item = %(item)s"
        text = update if item in known else "INSERT INTO prices VALUES (%(item)s, %(euros)s)"
        connection.execute(text, {"item": item, "euros": euros})


def tries_first(connection: Any, rows: list[tuple[int, int]]) -> None:
    for item, euros in rows:
        try:
            connection.execute(INSERT, [item, euros])
        except psycopg.errors.UniqueViolation:
            connection.execute("UPDATE prices SET euros = %s WHERE item = %s", [euros, item])


def tries_in_a_transaction(connection: Any, rows: list[tuple[int, int]]) -> None:
    for item, euros in rows:
        try:
            with connection.transaction():  # where none has begun yet, it commits
                connection.execute(INSERT, [item, euros])
        except psycopg.errors.UniqueViolation:
            connection.execute("UPDATE prices SET euros = %s WHERE item = %s", [euros, item])


def all_of_one_kind(connection: Any, rows: list[tuple[int, int]]) -> None:
    """As if all items were new, or none."""
    known = {item for (item,) in connection.execute("SELECT item FROM prices")}
    change = "UPDATE prices SET euros = %(euros)s WHERE item = %(item)s"
    text = change if known else "INSERT INTO prices VALUES (%(item)s, %(euros)s)"
    for item, euros in rows:
        connection.execute(text, {"item": item, "euros": euros})


def needs_rows(connection: Any, rows: list[tuple[int, int]]) -> None:
    values = ", ".join(f"({item}, {euros})" for item, euros in dict(rows).items())
    connection.execute(f"INSERT INTO prices VALUES {values} {UPDATE} EXCLUDED.euros")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (statement(UPSERT), "✓ Set by key"),
        (deletes_and_inserts, "✓ Set by key"),
        (Upserts(), "✓ Set by key"),
        (looks_first, "An item is in the table already, or comes twice"),
        (tries_first, "An item is in the table already, or comes twice"),
        (all_of_one_kind, "Item 3 must be in the table"),
        (needs_rows, "upsert(connection, []) raised SyntaxError"),
        (statement(f"{INSERT} {UPDATE} euros"), "[(1, 10), (2, 20)]) raised AmbiguousColumn"),
        (lambda database, rows: statement(UPSERT)(database, rows[:2]), "Wanted {1: 12"),
        (statement(f"{UPSERT} WHERE prices.euros < EXCLUDED.euros"), "even a lower one"),
        (lambda connection, rows: None, "Two new items must be in the table"),
        (statement(INSERT), "in `rows`: INSERT … ON CONFLICT (item) DO UPDATE"),
        (statement(f"{INSERT} {UPDATE} prices.euros + EXCLUDED.euros"), "set it, do not add"),
        (statement(f"{INSERT} ON CONFLICT DO NOTHING"), "DO UPDATE, not DO NOTHING"),
        (counts_repeats, "A repeat must change nothing"),
        (in_a_transaction, "The end of `with connection.transaction()` commits, too"),
        (tries_in_a_transaction, "It must not commit"),
        (lambda database, rows: statement(UPSERT)(database, [*{*rows}]), "its last row there"),
        (
            lambda database, rows: statement(UPSERT)(database, [row for row in rows if row[1]]),
            "A price of 0 is a price, too",
        ),
        (deletes_first, "Item 1 is gone: do not empty the table"),
        (statement(f"{INSERT} {UPDATE} GREATEST(prices.euros, EXCLUDED.euros)"), "even a lower"),
        (lambda database, rows: statement(UPSERT)(database, sorted(rows)), "its last row there"),
        (closes, "It closed the connection (`with` does"),
        (first_wins, "has the price of its last row"),
        (in_one_statement, "One INSERT cannot set an item twice"),
        (commits, "It must not commit"),
    ],
)
def test_10_1(uri: str, answer: Any, expected: str) -> None:
    look(check_10_1(answer, uri), expected)


def test_10_1_with_a_connection_of_one_s_own(uri: str) -> None:
    def upsert(connection: Any, rows: list[tuple[int, int]]) -> None:
        with psycopg.connect(uri) as own:
            statement(UPSERT)(own, rows)

    look(check_10_1(upsert, uri), "Only `connection` sees the check's table: write with that one")


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


def nothing_to_do(context: Any, handles: list[str]) -> None:
    if handles:
        in_steps()(context, handles)


def swallows(context: Any, handles: list[str]) -> None:
    try:
        in_steps()(context, handles)
    except psycopg.Error:
        return


def raises_its_own(context: Any, handles: list[str]) -> None:
    try:
        in_steps()(context, handles)
    except psycopg.Error as error:
        raise RuntimeError(f"batch {context.batch} failed") from error


def clears_a_repeat_by_handle(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    with psycopg.connect(context.options.uri) as database:
        if database.execute(NOTE, names).rowcount:
            database.execute(SHOW, names)
            database.execute(CLEAR, names)
        else:
            database.execute("DELETE FROM staged WHERE handle = ANY(%(handles)s)", names)


def returns_early(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    with psycopg.connect(context.options.uri) as database:
        if database.execute(NOTE, names).rowcount:
            database.execute(SHOW, names)
            database.execute(CLEAR, names)


def does_not_commit(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    database = psycopg.connect(context.options.uri)
    for text in (NOTE, SHOW, CLEAR):
        database.execute(text, names)
    database.close()


def notes_afterwards(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch, "handles": handles}
    with psycopg.connect(context.options.uri) as database:
        seen = "SELECT 1 FROM done WHERE query = %(query)s AND batch = %(batch)s"
        if not database.execute(seen, names).fetchone():
            database.execute(SHOW, names)
        database.execute(CLEAR, names)
    with psycopg.connect(context.options.uri) as database:
        database.execute(NOTE, names)


def clearing(condition: str) -> Any:
    return in_steps(clear=f"DELETE FROM staged WHERE {condition}")


def forgetful(condition: str) -> Any:
    """It clears away notes, too."""

    def commit(context: Any, handles: list[str]) -> None:
        names = {"query": context.query, "batch": context.batch, "handles": handles}
        with psycopg.connect(context.options.uri) as database:
            if database.execute(NOTE, names).rowcount:
                database.execute(SHOW, names)
            database.execute(CLEAR, names)
            database.execute(f"DELETE FROM done WHERE {condition}", names)

    return commit


def takes_what_it_deletes(context: Any, handles: list[str]) -> None:
    names = {"query": context.query, "batch": context.batch}
    with psycopg.connect(context.options.uri) as database:
        new = database.execute(NOTE, names).rowcount
        rows = database.execute(f"{CLEAR} RETURNING handle, item, euros", names).fetchall()
        counted = [row[1:] for row in rows if new and row[0] in handles]
        database.cursor().executemany("INSERT INTO orders VALUES (%s, %s)", counted)


def by_the_newest_note(condition: str) -> Any:
    def commit(context: Any, handles: list[str]) -> None:
        names = {"query": context.query, "batch": context.batch, "handles": handles}
        with psycopg.connect(context.options.uri) as database:
            text = f"SELECT coalesce(max(batch), -1) FROM done WHERE {condition}"
            (newest,) = database.execute(text, names).fetchone()
            if context.batch > newest:
                database.execute(SHOW, names)
                database.execute(NOTE, names)
            database.execute(CLEAR, names)

    return commit


ALL_ROWS = "INSERT INTO orders SELECT item, euros FROM staged WHERE batch = 0"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (in_steps(), "✓ Published once"),
        (takes_what_it_deletes, "✓ Published once"),
        (by_the_newest_note("query = %(query)s"), "✓ Published once"),
        (by_the_newest_note("true"), "compare `query` in `done`"),
        (forgetful("batch < %(batch)s AND query = %(query)s"), "✓ Published once"),
        (forgetful("batch < %(batch)s"), "Batch 1 of another query came again, and is there twice"),
        (
            in_steps(show=SHOW.replace("= ANY(%(handles)s)", "= (%(handles)s::text[])[1]")),
            "found [1]: rows",
        ),
        (
            in_steps(show=f"{SHOW} AND item NOT IN (SELECT item FROM orders)"),
            "the items 1, 3 and 3",
        ),
        (clearing("query = %(query)s AND batch < %(batch)s"), "Rows of batch 0 are still staged"),
        (does_not_commit, "Nothing is in `orders`"),
        (lambda context, handles: None, "`orders` of the database context.options.uri"),
        (in_steps(show=CLEAR), "insert before you delete"),
        (in_steps(show=ALL_ROWS), "count if their handle is in `handles`"),
        (clearing("handle = ANY(%(handles)s)"), "Rows of batch 0 are still staged"),
        (
            in_steps(note=NOTE.removesuffix(" ON CONFLICT DO NOTHING")),
            "Batch 0 came again, and its note is in `done` already",
        ),
        (in_steps(note=""), "The same batch came again"),
        (returns_early, "A batch that comes again was staged again"),
        (clears_a_repeat_by_handle, "A batch that comes again was staged again"),
        (raises_its_own, "✓ Published once"),
        (clearing("true"), "rows that another query has staged"),
        (clearing("batch <= %(batch)s"), "compare `query`"),
        (clearing("query = %(query)s AND batch = %(batch)s"), "clear all batches up to this"),
        (
            clearing("(query, batch) IN (SELECT query, batch FROM done)"),
            "rows that another query has staged",
        ),
        (
            clearing("query IN (SELECT query FROM done) AND batch <= %(batch)s"),
            "rows that another query has staged",
        ),
        (clearing("query = %(query)s OR batch <= %(batch)s"), "rows that another query has staged"),
        (clearing("query = %(query)s"), "It deleted rows of a later batch"),
        (in_steps(autocommit=True), "use one transaction"),
        (notes_afterwards, "The note failed, but the rows are in `orders`"),
        (in_steps(show=SHOW.replace("SELECT", "SELECT DISTINCT")), "with the items 1, 3 and 3"),
        (swallows, "it was swallowed: let it pass"),
        (nothing_to_do, "Batch 5 has no handles"),
        (lambda context, handles: context.nothing, "raised AttributeError"),
    ],
)
def test_10_2(uri: str, answer: Any, expected: str) -> None:
    look(check_10_2(answer, uri), expected)


def test_the_check_leaves_no_database_behind(uri: str) -> None:
    check_10_2(swallows, uri)
    with psycopg.connect(uri) as database:
        names = [name for (name,) in database.execute("SELECT datname FROM pg_database")]
    assert not [name for name in names if name.startswith("check_")]
