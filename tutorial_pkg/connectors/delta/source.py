"""A table as a batch, and its versions as a stream: of appended rows, or of changes.

A position of a stream is the next version to be read. What is below zero is the table as a whole:
-8 is all rows of version 7, and then comes version 8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from tutorial_pkg.builder import OptionValues, Position, RowPacker, SourceBuilder, SplitContext
from tutorial_pkg.connectors.arrow_columns import fitted
from tutorial_pkg.connectors.delta.options import FORMAT, READ
from tutorial_pkg.connectors.delta.table import (
    Commit,
    File,
    check_columns,
    commit_of,
    files_of,
    open_table,
    schema_of_table,
)
from tutorial_pkg.connectors.store import Store, told

CHANGE = StructType()
CHANGE.add("_change_type", StringType()).add("_commit_version", LongType())
CHANGE.add("_commit_timestamp", TimestampType())
INSERT = "insert"
FEED = "delta.enableChangeDataFeed"


class Round:
    """The connection: in the driver, what all splits hear that ask for the newest version.

    A table may grow from one split's question to the next; a batch has versions as a whole.
    """

    def __init__(self, options: OptionValues) -> None:
        self._options, self._end = options, 0
        self._told: set[str] = set()

    def end(self, split: str) -> int:
        """Behind the newest version; a split that asks again begins the next round."""
        if not self._told or split in self._told:
            self._told.clear()
            self._end = open_table(self._options).version() + 1
        self._told.add(split)
        return self._end


# ---- The functions of the source -----------------------------------------------------------------


def schema_of(options: OptionValues) -> StructType:
    """That of the table; with `changes`, what happened to a row, and when, behind it."""
    schema = schema_of_table(open_table(options, options.version))
    return StructType([*schema, *CHANGE]) if options.changes else schema


def splits(context: SplitContext) -> dict[str, Position]:
    """`IDENTITY/SHARE/OF`: so a re-created table is noticed."""
    options = context.options
    _check(context)
    table = open_table(options, options.version)
    check_columns(table)
    if context.offset:
        for split in context.offset:
            _check_identity(table, options, split)
        return dict.fromkeys(context.offset, 0)
    first = -(table.version() + 1) if options.startingVersion is None else options.startingVersion
    return {f"{table.metadata().id}/{n}": first for n in _shares(options)}


def _check_identity(table: DeltaTable, options: OptionValues, split: str) -> None:
    identity = str(table.metadata().id)
    if split.partition("/")[0] != identity:
        raise RuntimeError(
            f"the table at {options.path} was dropped and made again: its identity is "
            f"{identity} now. Start with a new checkpoint, to read it from its beginning"
        )


def _shares(options: OptionValues) -> list[str]:
    count = 1 if options.changes else options.parallelism
    return [f"{share}/{count}" for share in range(count)]


def _check(context: SplitContext) -> None:
    options = context.options
    if context.batch and (options.changes or options.startingVersion is not None):
        raise ValueError("options `changes` and `startingVersion` are for streams")
    if not context.batch and options.version is not None:
        raise ValueError("option `version` is for `spark.read`; for a stream: `startingVersion`")
    if options.changes and open_table(options).metadata().configuration.get(FEED) != "true":
        raise ValueError(f"the table at {options.path} has no change feed; set `{FEED}` = true")


def latest(context: SplitContext, split: str, start: int) -> int:
    if context.batch:
        return 0
    end: int = context.connection.end(split)
    if end < abs(start):
        raise RuntimeError(
            f"the table at {context.options.path} ends with version {end - 1}, and the query has "
            f"read version {abs(start) - 1}: it was set back to an older copy. Start with a new "
            "checkpoint"
        )
    return end


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    """All splits go on side by side, so that a batch has versions as a whole."""
    most = context.options.maxVersionsPerTrigger
    if context.batch or rows is None or most is None:
        return end
    return min(end, -start if start < 0 else start + int(most))


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """A batch that is repeated may find another table."""
    _, share, count = split.split("/")
    table = open_table(context.options, -start - 1 if start < 0 else None)
    _check_identity(table, context.options, split)
    if context.options.changes:
        yield from _changes(context, table, start, end)
        return
    store = Store(context.options, context.options.path)
    wanted = RowPacker(context.schema).arrow_schema
    for number, file in _files(context, store, table, start, end):
        if number % int(count) == int(share):
            yield from file.read(store, wanted)


def _files(
    context: SplitContext, store: Store, table: DeltaTable, start: int, end: int
) -> Iterator[tuple[int, File]]:
    """Each with a number that says whose it is, which does not depend on `start`."""
    options = context.options
    if start < 0:
        yield from enumerate(files_of(table))
    for commit in _commits(context, store, start, end):
        if commit.rewrites and options.rewritten == "refuse":
            raise RuntimeError(
                f"version {commit.version} of {options.path} deletes or updates rows, which a "
                "stream of appended rows cannot express. Option `changes` reads them from the "
                "table's change feed; `rewritten=skip` leaves such versions out"
            )
        if not commit.rewrites:
            yield from enumerate(commit.added, commit.version)


def _commits(context: SplitContext, store: Store, start: int, end: int) -> Iterator[Commit]:
    """Raises `RuntimeError` for columns that came after the query's start: rows would lack them."""
    for version in range(abs(start), end):
        commit = commit_of(store, version)
        new = sorted(set(commit.columns) - set(context.schema.names))
        if new:
            raise RuntimeError(
                f"version {version} of {context.options.path} has columns that the query does not "
                f"know ({', '.join(new)}). Nothing is lost: make the DataFrame anew, and start it "
                "from the same checkpoint"
            )
        yield commit


# ---- Changes -------------------------------------------------------------------------------------


def _changes(
    context: SplitContext, table: DeltaTable, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    wanted = RowPacker(context.schema).arrow_schema
    if start < 0:
        yield from _as_inserted(context.options, wanted, table)
    if abs(start) < end:
        try:
            list(_commits(context, Store(context.options, context.options.path), start, end))
            newest = open_table(context.options)
            found = newest.load_cdf(starting_version=abs(start), ending_version=end - 1)
            yield from _typed(pa.RecordBatchReader.from_stream(found), wanted)
        except DeltaError as error:
            raise ValueError(f"the change feed of {context.options.path}: {told(error)}") from None


def _typed(batches: Iterable[pa.RecordBatch], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The time of a commit comes without its zone, which is UTC."""
    for batch in batches:
        place = batch.schema.get_field_index("_commit_timestamp")
        times = batch.column(place).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        yield fitted(batch.set_column(place, "_commit_timestamp", times), wanted)


def _as_inserted(
    options: OptionValues, wanted: pa.Schema, table: DeltaTable
) -> Iterator[pa.RecordBatch]:
    """All rows of a version, as if they had been inserted by it."""
    store = Store(options, options.path)
    known = {"_change_type": INSERT, "_commit_version": table.version()}
    for file in files_of(table):
        for batch in file.read(store, wanted):
            for name, value in known.items():
                place, kind = wanted.get_field_index(name), wanted.field(name).type
                column = pa.repeat(pa.scalar(value, kind), batch.num_rows)
                batch = batch.set_column(place, wanted.field(name), column)
            yield batch


# ---- The source ----------------------------------------------------------------------------------

source = (
    SourceBuilder.replayable(FORMAT, schema_of, splits, latest, read)
    .retry(seconds=0)  # it waits by itself
    .connect(Round)
    .bound(bound)
    .limit("maxVersionsPerTrigger", "versions in a batch; all rows of the table count as one")
    .options(*READ)
    .build()
)
