"""The options of format `delta_py`. Nothing here needs a client."""

from __future__ import annotations

from tutorial_pkg.builder import Option, boolean, choice, integer, names
from tutorial_pkg.connectors.store_options import STORE

FORMAT = "delta_py"

READ = (
    *STORE,
    Option("version", integer(0), None, "batch: the table as it was in this version"),
    Option("startingVersion", integer(0), None, "stream: begin with the changes of this version"),
    Option("changes", boolean, False, "stream: read the change feed, not only appended rows"),
    Option("rewritten", choice("refuse", "skip"), "refuse", "stream: versions that change rows"),
    Option("parallelism", integer(1), 4, "how many tasks read; a stream keeps this number"),
)
WRITE = (
    *STORE,
    Option("mode", choice("append", "upsert"), "append", "add rows, or replace them by `key`"),
    Option("key", names, (), "upsert: the columns that name a row"),
    Option("evolve", boolean, False, "add columns that the rows have and the table lacks"),
    Option("partitionBy", names, (), "for a new table: its partition columns"),
)
