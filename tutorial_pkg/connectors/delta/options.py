"""The options of format `delta_py`. Nothing here needs a client."""

from __future__ import annotations

from tutorial_pkg.builder import Option, boolean, choice, integer, names
from tutorial_pkg.connectors.store_options import STORE

FORMAT = "delta_py"

READ = (
    *STORE,
    Option("version", integer(0), None, "batch: the table as it was in this version"),
    Option(
        "startingVersion",
        integer(0),
        None,
        "stream: begin with what this version has changed, instead of with all rows of the table",
    ),
    Option(
        "changes",
        boolean,
        False,
        "stream: inserted, updated and deleted rows, from the table's change feed",
    ),
    Option(
        "rewritten",
        choice("refuse", "skip"),
        "refuse",
        "stream of appended rows: what to do with a version that deletes or updates rows: end the "
        "query, or leave that version out",
    ),
    Option("parallelism", integer(1), 4, "how many tasks read; a stream keeps this number"),
)
WRITE = (
    *STORE,
    Option(
        "mode",
        choice("append", "upsert"),
        "append",
        "add rows, or replace those with the same `key`",
    ),
    Option("key", names, (), "upsert: the columns that name a row"),
    Option("evolve", boolean, False, "add columns that the rows have and the table lacks"),
    Option("partitionBy", names, (), "for a new table: its partition columns"),
)
