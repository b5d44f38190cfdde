"""Names of tables and columns, quoted: none of them can be anything but a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from tutorial_pkg.connectors.postgres.options import FORMAT

PART = r'"((?:[^"]|"")+)"|([^".]+)'


@dataclass(frozen=True)
class Table:
    """A table, perhaps with its schema; else it is in the first one of the role's search path."""

    schema: str | None
    name: str

    @property
    def sql(self) -> sql.Identifier:
        """Quoted, for a statement."""
        return sql.Identifier(*filter(None, (self.schema, self.name)))

    def beside(self, name: str) -> Table:
        """A table of ours, in the same schema."""
        return Table(self.schema, name)


def table_of(text: str) -> Table:
    """`name`, `schema.name` or `"odd name"`, as the option says it. Raises `ValueError`.

    Letters stay as they are: `Orders` is the table that SQL calls `"Orders"`.
    """
    if not re.fullmatch(rf"(?:{PART})(?:\.(?:{PART}))?", text):
        raise ValueError(
            f"format `{FORMAT}`: option `table` must be `name`, `schema.name` or "
            f'`"name with . or blanks"`, got {text!r}'
        )
    parts = [quoted.replace('""', '"') or plain for quoted, plain in re.findall(PART, text)]
    return Table(parts[0] if len(parts) == 2 else None, parts[-1])


def columns(names: Iterable[str]) -> sql.Composed:
    """A list for SELECT or INSERT."""
    return sql.SQL(", ").join(map(sql.Identifier, names))
