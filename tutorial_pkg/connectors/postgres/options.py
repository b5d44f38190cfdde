"""The options of format `postgres`. This module doesn't need the database's client."""

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
NAME = r'"((?:[^"]|"")+)"|([^".]+)'


@dataclass(frozen=True)
class Table:
    """A table's name, with or without its schema; without one, the search path finds it.

    `str(table)` is the text of the option. Case matters: `Orders` is the table that SQL calls
    `"Orders"`.
    """

    text: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def sql(self) -> Any:
        from psycopg.sql import Identifier

        return Identifier(*self.parts)

    @property
    def quoted(self) -> str:
        return str(self.sql.as_string())

    def beside(self, name: str) -> Table:
        """Return the table `name` in the same schema."""
        return Table(name, (*self.parts[:-1], name))


@accepts('`name`, `schema.name` or `"name with . or blanks"`')
def table(text: str) -> Table:
    if not re.fullmatch(rf"(?:{NAME})(?:\.(?:{NAME}))?", text):
        raise ValueError
    parts = [quoted.replace('""', '"') or plain for quoted, plain in re.findall(NAME, text)]
    return Table(text, tuple(parts))


@accepts("a-z, 0-9 and `_`, up to 48")
def slot_name(text: str) -> str:
    """Parse a slot's name, leaving room for a prefix."""
    if not re.fullmatch(r"[a-z0-9_]{1,48}", text):
        raise ValueError
    return text


URL = "`postgresql://user@host:5432/database?sslmode=verify-full`, or `host=… dbname=… sslmode=…`"
KEY = (
    "batch: the column for parallel ranges; stream of inserted rows: the growing column of whole "
    "numbers; upsert and merge: the columns of a unique index"
)
WAIT = "how long to wait for a database that is away, full or starting, and for a lock on a table"
MODE = "append rows; replace those with the same `key`; or merge into them"
MERGE = (
    "merge: the SET of an UPDATE, where `old` is the row in the table and `excluded` the new one: "
    "`total = old.total + excluded.total`"
)
SHARED = (
    Option("url", secret, None, URL),
    Option("service", not_empty, None, "an entry of `pg_service.conf`, instead of `url`"),
    Option("user", not_empty, None, "the role, unless `url` names it"),
    Option("password", secret, None, "the password, unescaped; `~/.pgpass` works, too"),
    Option("waitSeconds", integer(0), 60, WAIT),
    Option("table", table, None, "the table"),
)
READ = (
    *SHARED,
    Option("query", not_empty, None, "batch: a SELECT statement, instead of `table`"),
    Option("key", not_empty, None, KEY),
    Option("parallelism", integer(1), None, "batch: the number of ranges; default: one per core"),
    Option("awaitWriters", boolean, False, "stream of inserted rows: wait for open transactions"),
    Option("slot", slot_name, None, "stream of changes: the replication slot, made if missing"),
    Option("snapshot", boolean, False, "stream of changes: read the existing rows first"),
    FAIL_ON_DATA_LOSS,
)
WRITE = (
    *SHARED,
    Option("mode", choice("append", "upsert", "merge"), "append", MODE),
    Option("key", names, None, KEY),
    Option("merge", not_empty, None, MERGE),
)
