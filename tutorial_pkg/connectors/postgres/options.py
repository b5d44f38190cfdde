"""The options of format `postgres`. Nothing here needs the database's client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tutorial_pkg.builder import (
    FAIL_ON_DATA_LOSS,
    Option,
    accepts,
    boolean,
    choice,
    integer,
    names,
    not_empty,
    secret,
)

FORMAT = "postgres"


PART = r'"((?:[^"]|"")+)"|([^".]+)'


@dataclass(frozen=True)
class Table:
    """A table, perhaps with its schema; else it is in the first one of the role's search path.

    As a text it is what the option says. Letters stay as they are: `Orders` is the table that SQL
    calls `"Orders"`.
    """

    text: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def sql(self) -> Any:
        """For a statement: none of the parts can be anything but a name."""
        from psycopg.sql import Identifier

        return Identifier(*self.parts)

    @property
    def quoted(self) -> str:
        """The same as a text."""
        return str(self.sql.as_string())

    def beside(self, name: str) -> Table:
        """A table of ours, in the same schema."""
        return Table(name, (*self.parts[:-1], name))


@accepts('`name`, `schema.name` or `"name with . or blanks"`')
def table(text: str) -> Table:
    """A parser for a table's name."""
    if not re.fullmatch(rf"(?:{PART})(?:\.(?:{PART}))?", text):
        raise ValueError
    found = re.findall(PART, text)
    return Table(text, tuple(quoted.replace('""', '"') or plain for quoted, plain in found))


@accepts("a-z, 0-9 and `_`, up to 48")
def slot_name(text: str) -> str:
    """A parser for what PostgreSQL takes as a slot's name, with room for a prefix."""
    if not re.fullmatch(r"[a-z0-9_]{1,48}", text):
        raise ValueError
    return text


URL = (
    "where the database is: `postgresql://user@host:5432/database?sslmode=verify-full`, or "
    "`host=… dbname=… sslmode=…`, with whatever parameters libpq takes"
)
KEY = (
    "batch: the column whose ranges are read in parallel; stream of inserted rows: the column that "
    "grows, of whole numbers; upsert and merge: the columns of a unique index"
)
SHARED = (
    Option("url", secret, None, URL),
    Option("service", not_empty, None, "an entry of `pg_service.conf`, instead of `url`"),
    Option("user", not_empty, None, "the role, unless `url` names it"),
    Option("password", secret, None, "as it is, without escapes; `~/.pgpass` works, too"),
    Option(
        "waitSeconds",
        integer(0),
        60,
        "how long to wait for a database that is away, full or starting, or for a lock on a "
        "table, before that is an error",
    ),
    Option("table", table, None, "the table"),
)
READ = (
    *SHARED,
    Option("query", not_empty, None, "batch: a SELECT statement, instead of `table`"),
    Option("key", not_empty, None, KEY),
    Option("parallelism", integer(1), None, "batch: how many ranges; otherwise one for each core"),
    Option(
        "awaitWriters",
        boolean,
        False,
        "stream of inserted rows: wait for transactions that were writing when it looked",
    ),
    Option("slot", slot_name, None, "stream of changes: the replication slot, made if missing"),
    Option("snapshot", boolean, False, "stream of changes: first the existing rows"),
    FAIL_ON_DATA_LOSS,
)
WRITE = (
    *SHARED,
    Option(
        "mode",
        choice("append", "upsert", "merge"),
        "append",
        "add rows; or replace those with the same `key`; or merge into them",
    ),
    Option("key", names, None, KEY),
    Option(
        "merge",
        not_empty,
        None,
        "merge: the SET of an UPDATE, where `old` is the row in the table and `excluded` the new "
        "one: `total = old.total + excluded.total`",
    ),
)
