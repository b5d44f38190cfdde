"""Tables and publications may be re-created under their names: their oids show it."""

from __future__ import annotations

from tutorial_pkg.builder import Position, SplitContext
from tutorial_pkg.connectors.postgres.connection import Connection
from tutorial_pkg.connectors.postgres.options import Table


def identified(connection: Connection, table: Table) -> tuple[int, str]:
    """The oid of the table that has this name now, and its name with its schema.

    Raises the client's `UndefinedTable`.
    """
    look = """SELECT pg_class.oid, quote_ident(nspname) || '.' || quote_ident(relname)
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE pg_class.oid = %s::regclass"""
    oid, name = next(connection.execute(look, [table.quoted]))
    return oid, name


def going_on(
    context: SplitContext, name: str, oid: int, first: int, changed: str
) -> dict[str, Position]:
    """The split `name@oid`, and where it begins: `first`, or where the query stands.

    Earlier versions' checkpoints have names without oids. Raises `LookupError` with `changed` for
    another oid, or warns, as `failOnDataLoss` says.
    """
    offset = context.offset or {}
    known = {split.rpartition("@")[2]: split for split in offset if oid_in(split)}
    if known and str(oid) not in known:
        context.lost(changed)
    return {known.get(str(oid), f"{name}@{oid}"): max(offset.values(), default=first)}


def oid_in(split: str) -> int | None:
    """That of the split's name, if it has one."""
    name, _, oid = split.rpartition("@")
    return int(oid) if name and oid.isdigit() else None
