"""A table as a batch, and its versions as a stream: of appended rows, or of changes.

A stream's position is the next version to read. A negative position is the table as a whole: -8
stands for all rows of version 7, and version 8 follows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from tutorial_pkg.builder import OptionValues, RowPacker, SourceBuilder, Split, SplitContext
from tutorial_pkg.connectors.arrow_columns import fit_batch
from tutorial_pkg.connectors.delta.options import FORMAT, READ
from tutorial_pkg.connectors.delta.table import (
    TableFile,
    files_of,
    open_table,
    read_version,
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
    options, (task, tasks) = context.options, map(int, split.split("/")[1:])
    table = open_table(options, -start - 1 if start < 0 else None)
    _check_identity(table, options, split)
    store, schema = Store(options, options.path), RowPacker(context.schema).arrow_schema
    if start < 0:
        inserted = {"_change_type": "insert", "_commit_version": table.version()}
        for file in files_of(table, context.filters)[task::tasks]:
            more = inserted if options.changes else {}
            yield from file.read(store, schema, context.filters, **more)
    for version in range(abs(start), end):
        added = _added_files(context, store, version)
        for file in added[(task - version) % tasks :: tasks]:  # so that each task has some
            yield from file.read(store, schema, ())
    if options.changes and abs(start) < end:
        yield from _changes(options, abs(start), end, schema)


def _added_files(context: SplitContext, store: Store, version: int) -> list[TableFile]:
    """Return the files that a version has added; none with `changes`. Compaction adds no rows.

    Raises `RuntimeError` for a version that changes rows, and for one with columns that are newer
    than the query: its rows would lack them.
    """
    options, actions = context.options, read_version(store, version)
    schemas = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    columns = {field["name"] for text in schemas for field in json.loads(text)["fields"]}
    new = sorted(columns - set(context.schema.names))
    if new and version:
        raise RuntimeError(
            f"version {version} of {options.path} has columns that the query does not know "
            f"({', '.join(new)}). Nothing is lost: create the DataFrame again, and start it from "
            "the same checkpoint"
        )
    if options.changes:
        return []
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
    is_rewritten = any(add.get("deletionVector") for add in added) or any(
        action.get("remove", {}).get("dataChange") for action in actions
    )
    if is_rewritten and options.rewritten == "refuse":
        raise RuntimeError(
            f"version {version} of {options.path} deletes or updates rows, which a stream of "
            "appended rows cannot express. Option `changes` reads them from the table's change "
            "feed; `rewritten=skip` leaves such versions out"
        )
    files = [
        TableFile(unquote(add["path"]), add["size"], add.get("partitionValues") or {})
        for add in added
    ]
    return [] if is_rewritten else files


def _changes(
    options: OptionValues, first: int, end: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the change feed, and add the zone to the commits' times, which are in UTC."""
    try:
        for batch in pa.RecordBatchReader.from_stream(open_table(options).load_cdf(first, end - 1)):
            place = batch.schema.get_field_index("_commit_timestamp")
            times = batch.column(place).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
            yield fit_batch(batch.set_column(place, "_commit_timestamp", times), schema)
    except DeltaError as error:
        raise ValueError(f"the change feed of {options.path}: {short_text(error)}") from None


source = (
    SourceBuilder.replayable(FORMAT, schema_of, look=look, read=read)
    .retry(seconds=0)  # both clients repeat single requests for `waitSeconds`
    .bound(bound)
    .limit("maxVersionsPerTrigger", "versions in a batch; all rows of the table count as one")
    .options(*READ)
    .build()
)
