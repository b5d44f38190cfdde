"""Rows into a table: tasks write Parquet files, and one commit of the table's log adds them.

The commit names the batch and its query, as Delta's application transactions do. So a repeated
batch is recognized, even if two drivers commit it at the same time.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql.types import BinaryType, StructType

from tutorial_pkg.builder import (
    BatchContext,
    OptionValues,
    Retries,
    RowPacker,
    SinkBuilder,
    SinkContext,
    TargetContext,
)
from tutorial_pkg.connectors.arrow_columns import by_partition, in_utc, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT, WRITE
from tutorial_pkg.connectors.delta.table import (
    create_table,
    open_table,
    schema_of_table,
    sync_commits,
)
from tutorial_pkg.connectors.parquet_files import RowGroups, parquet_file
from tutorial_pkg.connectors.store import ObjectFile, ObjectInfo, Store
from tutorial_pkg.core.batch_order import is_repeated

STAGED = "_staged"  # in the table's folder; names that begin with `_` are not data
# Other writers check these rules of a table; this one does not support them.
RULES = ("delta.constraints.", "delta.invariants", "delta.generationExpression", "delta.identity.")

# ---- In the tasks --------------------------------------------------------------------------------


class TableUpload:
    """One task's rows: a file for each partition of the table."""

    def __init__(self, context: SinkContext) -> None:
        self._context, self._drafts = context, dict[tuple[str | None, ...], RowGroups]()
        self._partitions: list[str] | None = None

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        batch = in_utc(batch)
        if self._partitions is None:
            self._partitions = self._check_table(spark_schema(batch.schema))
        for name in {*self._partitions} - {*batch.schema.names}:  # null, like other columns
            batch = batch.append_column(name, pa.nulls(batch.num_rows, pa.string()))
        for texts, rows in by_partition(batch, self._partitions):
            rows = rows.drop_columns(self._partitions)
            nulls = {name for name in rows.schema.names if rows.column(name).null_count}
            nulls |= {name for name, text in zip(self._partitions, texts, strict=True) if not text}
            for name in nulls & self._required:
                raise ValueError(f"column `{name}` of the table must not be null, and a row is")
            if texts not in self._drafts:
                self._drafts[texts] = RowGroups(tempfile.TemporaryFile(), rows.schema)
            self._drafts[texts].write(rows)

    def flush(self) -> list[AddAction]:
        """Write the files, and return what the table's log will say about them."""
        options, context = self._context.options, self._context
        folder = f"{STAGED}/{context.query}/" if options.mode == "upsert" else ""
        store, files = Store(options, options.path), []
        for texts, draft in self._drafts.items():
            draft.close()
            name = f"part-{context.batch:020}-{context.index}-{uuid.uuid4().hex}.parquet"
            size = store.write(folder + name, draft.file).size
            values = dict(zip(self._partitions or (), texts, strict=True))
            now, statistics = int(time.time() * 1000), json.dumps({"numRecords": draft.rows})
            files.append(AddAction(folder + name, size, values, now, True, statistics))
        return files

    def close(self) -> None:
        for draft in self._drafts.values():
            draft.file.close()

    def _check_table(self, schema: StructType) -> list[str]:
        """Check that the rows still fit, and return the columns that separate files."""
        options = self._context.options
        table = open_table(options)
        check_schema(table, schema, options)
        self._required = {field.name for field in table.schema().fields if not field.nullable}
        return table.metadata().partition_columns if options.mode == "append" else []


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, handles: Sequence[list[AddAction]]) -> None:
    """Commit the batch, unless the table has it already. VACUUM removes files of failed tasks."""
    options, files = context.options, list[Any](chain(*handles))
    if files:
        table = open_table(options)
        last = table.transaction_version(context.query)
        if not is_repeated(f"the table at {options.path}", context.batch, last):
            batch = CommitProperties(app_transactions=[Transaction(context.query, context.batch)])
            if options.mode == "append":
                columns = table.metadata().partition_columns
                table.create_write_transaction(
                    files, "append", table.schema(), columns, commit_properties=batch
                )
            else:
                _upsert(table, options, files, batch)
        sync_commits(options, context.query, context.batch)
    if options.mode == "upsert":
        _remove_staged(context)


def _is_conflict(error: BaseException) -> bool:
    """Return whether another commit was faster: another writer's, or ours with a lost response."""
    final = any(text in str(error) for text in ("Unsupported", "append-only"))
    return isinstance(error, CommitFailedError) and not final


def _upsert(
    table: DeltaTable, options: OptionValues, files: list[AddAction], batch: CommitProperties
) -> None:
    """Merge in the driver: the batch has to fit into its memory."""
    store = Store(options, options.path)
    staged = [ObjectFile(store, ObjectInfo(file.path, "", file.size)) for file in files]
    rows = pa.concat_tables([parquet_file(file).read() for file in staged])
    _check_keys(rows, options.key)
    same = " AND ".join(f"target.{_quoted(name)} = source.{_quoted(name)}" for name in options.key)
    columns = {_quoted(name): f"source.{_quoted(name)}" for name in rows.column_names}
    merge = table.merge(rows, same, "source", "target", commit_properties=batch)
    merge.when_matched_update(columns).when_not_matched_insert(columns).execute()


def _quoted(column: str) -> str:
    doubled = column.replace('"', '""')
    return f'"{doubled}"'


def _check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """Raise `ValueError` for null keys, and for several rows with the same key."""
    if any(rows.column(name).null_count for name in key):
        raise ValueError(f"a row's key ({', '.join(key)}) must not be null")
    if rows.group_by(list(key)).aggregate([]).num_rows < rows.num_rows:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(key)}), and their order is "
            "unknown; keep one for each key: aggregate, or dropDuplicates"
        )


def _remove_staged(context: BatchContext) -> None:
    """Remove the staged rows of this batch and earlier ones, also those of failed tasks."""
    store = Store(context.options, context.options.path)
    staged = store.listing(f"{STAGED}/{context.query}")
    store.delete(
        [file.key for file in staged if int(file.key.split("part-")[1][:20]) <= context.batch]
    )


# ---- Before the query runs -----------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Create the table if it does not exist. Raises `ValueError` for rows that do not fit."""
    options = context.options
    if (options.mode == "upsert") != bool(options.key):
        raise ValueError("option `key` is for mode=upsert, which needs it")
    if context.overwrite and not (context.streaming and options.mode == "upsert"):
        raise ValueError(
            f"format `{FORMAT}` adds rows; the output mode `complete` is for mode=upsert, which "
            "replaces rows by their `key`, and a batch takes `mode('append')` only"
        )
    rows = RowPacker(context.schema).arrow_schema
    missing = {*options.key, *options.partitionBy} - set(rows.names)
    if missing:
        raise ValueError(f"the rows have no column {sorted(missing)}, got {rows.names}")
    _check_partitions(options.partitionBy, context)
    Store(options, options.path, make=True).check_conditional_writes(STAGED)
    retries = Retries((), options.waitSeconds, transient=_is_conflict)
    retries.patiently(lambda: _prepare(context, rows))
    sync_commits(options)


def _prepare(context: TargetContext, rows: pa.Schema) -> None:
    create_table(context.options, rows)
    table = open_table(context.options)
    _check_rules(table)
    _check_partitions(table.metadata().partition_columns, context)
    new = check_schema(table, context.schema, context.options)
    if new:
        fields = Schema.from_arrow(pa.schema([rows.field(name) for name in new])).fields
        table.alter.add_columns([Field(field.name, field.type, nullable=True) for field in fields])


def _check_rules(table: DeltaTable) -> None:
    text = json.dumps([table.metadata().configuration, json.loads(table.schema().to_json())])
    rule = next((rule for rule in RULES if rule in text), None)
    if rule:
        raise ValueError(
            f"format `{FORMAT}` cannot write to a table with rules for its rows ({rule}…), as it "
            "would not check them"
        )


def _check_partitions(columns: Collection[str], context: TargetContext) -> None:
    for field in context.schema:
        if field.name in columns and field.dataType == BinaryType():
            raise ValueError(f"column `{field.name}` is BINARY, and cannot partition a table")
    if context.options.mode == "append" and not {*context.schema.names} - {*columns}:
        raise ValueError("all columns partition the table, so its files would have none; add one")


def check_schema(table: DeltaTable, schema: StructType, options: OptionValues) -> list[str]:
    """Return the columns that the table lacks. Raises `ValueError` for columns that do not fit."""
    present = {field.name: field.dataType.simpleString() for field in schema_of_table(table)}
    for field in schema:
        kind = field.dataType.simpleString()
        if present.get(field.name, kind) != kind:
            raise ValueError(
                f"column `{field.name}` is {kind}, and in the table {present[field.name]}: cast "
                "it with `selectExpr`"
            )
    missing = {field.name for field in table.schema().fields if not field.nullable}
    if options.mode == "append" and (missing := missing - set(schema.names)):
        raise ValueError(f"the rows have no column {sorted(missing)}, which must not be null")
    new = [name for name in schema.names if name not in present]
    if new and not options.evolve:
        raise ValueError(
            f"the table at {options.path} has no column `{new[0]}`; choose columns with "
            "`selectExpr`, or set `evolve` to true to add it"
        )
    return new


sink = (
    SinkBuilder.stream(FORMAT, create=TableUpload)
    .retry(transient=_is_conflict, option="waitSeconds")
    .receive_batch(TableUpload.receive_batch)
    .flush(TableUpload.flush)
    .destroy(TableUpload.close)
    .commit(publish)
    .check(check)
    .also_batch()
    .also_overwrite()
    .options(*WRITE)
    .build()
)
