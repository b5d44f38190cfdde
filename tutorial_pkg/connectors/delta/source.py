"""A table as a batch, and its versions as a stream: of appended rows, or of changes.

A stream's position is the next version to read. A negative position is the table as a whole: -8
stands for all rows of version 7, and version 8 follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from tutorial_pkg.builder import OptionValues, RowPacker, SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.arrow_columns import fit_batch
from tutorial_pkg.connectors.delta.options import FORMAT, READ
from tutorial_pkg.connectors.delta.table import (
    TableCommit,
    TableFile,
    check_columns,
    commit_of,
    files_of,
    open_table,
    schema_of_table,
)
from tutorial_pkg.connectors.store import Store, short_text

CHANGE = StructType()
CHANGE.add("_change_type", StringType()).add("_commit_version", LongType())
CHANGE.add("_commit_timestamp", TimestampType())
FEED = "delta.enableChangeDataFeed"


def schema_of(options: OptionValues) -> StructType:
    """Return the table's schema; with `changes`, followed by what happened to a row, and when."""
    schema = schema_of_table(open_table(options, options.version))
    return StructType([*schema, *CHANGE]) if options.changes else schema


def look(context: SplitContext) -> dict[str, Split]:
    """Return a split for each task. They always advance together, so batches have whole versions.

    Their names are `IDENTITY/TASK/TASKS`, with the table's identity, as it always was.
    """
    options = context.options
    if context.batch and (options.changes or options.startingVersion is not None):
        raise ValueError("options `changes` and `startingVersion` are for streams")
    if not context.batch and options.version is not None:
        raise ValueError("option `version` is for `spark.read`; for a stream: `startingVersion`")
    table = open_table(options, options.version)
    check_columns(table)
    if options.changes and table.metadata().configuration.get(FEED) != "true":
        raise ValueError(f"the table at {options.path} has no change feed; set `{FEED}` = true")
    end, first = table.version() + 1, options.startingVersion
    split = Split(-end if first is None else first, 0 if context.batch else end)
    if context.offset is None and (first or 0) > end:
        raise ValueError(f"option `startingVersion`: the next version is {end}, got {first}")
    if context.offset:
        for name, position in context.offset.items():
            _check_identity(table, options, name)
            if end < abs(int(position)):
                raise RuntimeError(
                    f"the table at {options.path} ends with version {end - 1}, and the query has "
                    f"read version {abs(int(position)) - 1}: the table was set back to an older "
                    "copy. Start with a new checkpoint"
                )
        return dict.fromkeys(context.offset, split)
    tasks = 1 if options.changes else options.parallelism
    return {f"{table.metadata().id}/{task}/{tasks}": split for task in range(tasks)}


def _check_identity(table: DeltaTable, options: OptionValues, split: str) -> None:
    identity = str(table.metadata().id)
    if split.partition("/")[0] != identity:
        raise RuntimeError(
            f"the table at {options.path} was dropped and re-created: its identity is {identity} "
            "now. Start with a new checkpoint, to read it from its beginning"
        )


def bound(context: SplitContext, split: str, start: int, end: int, versions: int | None) -> int:
    most = context.options.maxVersionsPerTrigger
    if versions is None or most is None:
        return end
    return min(end, -start if start < 0 else start + int(most))


def read(context: SplitContext, split: str, start: int, end: int) -> Iterator[pa.RecordBatch]:
    _, task, tasks = split.split("/")
    table = open_table(context.options, -start - 1 if start < 0 else None)
    _check_identity(table, context.options, split)
    if context.options.changes:
        yield from _changes(context, table, start, end)
        return
    store = Store(context.options, context.options.path)
    schema = RowPacker(context.schema).arrow_schema
    for number, file in _files(context, store, table, start, end):
        if number % int(tasks) == int(task):
            yield from file.read(store, schema, context.filters)


def _files(
    context: SplitContext, store: Store, table: DeltaTable, start: int, end: int
) -> Iterator[tuple[int, TableFile]]:
    """Yield files, each with a number that assigns it to a task: the same number in all tasks."""
    options = context.options
    if start < 0:
        yield from enumerate(files_of(table, context.filters))
    for commit in _commits(context, store, start, end):
        if commit.rewrites and options.rewritten == "refuse":
            raise RuntimeError(
                f"version {commit.version} of {options.path} deletes or updates rows, which a "
                "stream of appended rows cannot express. Option `changes` reads them from the "
                "table's change feed; `rewritten=skip` leaves such versions out"
            )
        if not commit.rewrites:
            yield from enumerate(commit.added, commit.version)


def _commits(context: SplitContext, store: Store, start: int, end: int) -> Iterator[TableCommit]:
    """Raises `RuntimeError` for columns that are newer than the query: its rows would lack them."""
    for version in range(abs(start), end):
        commit = commit_of(store, version)
        new = sorted(set(commit.columns) - set(context.schema.names))
        if new:
            raise RuntimeError(
                f"version {version} of {context.options.path} has columns that the query does not "
                f"know ({', '.join(new)}). Nothing is lost: create the DataFrame again, and start "
                "it from the same checkpoint"
            )
        yield commit


# ---- Changes -------------------------------------------------------------------------------------


def _changes(
    context: SplitContext, table: DeltaTable, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    schema, options = RowPacker(context.schema).arrow_schema, context.options
    store = Store(options, options.path)
    if start < 0:
        inserted = {"_change_type": "insert", "_commit_version": table.version()}
        for file in files_of(table):
            yield from file.read(store, schema, (), **inserted)
    if abs(start) < end:
        try:
            list(_commits(context, store, start, end))
            newest = open_table(options)
            feed = newest.load_cdf(starting_version=abs(start), ending_version=end - 1)
            yield from _with_zone(pa.RecordBatchReader.from_stream(feed), schema)
        except DeltaError as error:
            raise ValueError(f"the change feed of {options.path}: {short_text(error)}") from None


def _with_zone(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Add the zone to the commits' times, which are in UTC."""
    for batch in batches:
        place = batch.schema.get_field_index("_commit_timestamp")
        times = batch.column(place).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
        yield fit_batch(batch.set_column(place, "_commit_timestamp", times), schema)


source = (
    SourceBuilder.replayable(FORMAT, schema_of, look=look, read=read)
    .retry(seconds=0)  # both clients repeat single requests for `waitSeconds`
    .bound(bound)
    .limit("maxVersionsPerTrigger", "versions in a batch; all rows of the table count as one")
    .options(*READ)
    .build()
)
