"""Rows into a table: tasks write Parquet files, and one commit of the table's log adds them.

The commit names the batch and its query, as Delta's application transactions do. So a repeated
batch is recognized, even if two drivers commit it at the same time.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql.types import StructType

from tutorial_pkg.builder import (
    BatchContext,
    OptionValues,
    Retries,
    RowPacker,
    SinkBuilder,
    SinkContext,
    TargetContext,
)
from tutorial_pkg.connectors.arrow_columns import by_values, in_utc, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT, WRITE
from tutorial_pkg.connectors.delta.table import (
    NoTableError,
    arrow_schema_of,
    check_columns,
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


@dataclass(frozen=True)
class Written:
    """A file that a task has written: its number of rows, and of nulls by column."""

    key: str
    size: int
    rows: int
    values: dict[str, str | None]
    nulls: dict[str, int]
    columns: StructType


class FileDraft:
    """A file that is being written on the task's disk."""

    def __init__(self, schema: pa.Schema) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()
        self._groups, self._columns = RowGroups(self.file, schema), spark_schema(schema)
        self.rows, self.nulls = 0, Counter[str]()

    def add(self, batch: pa.RecordBatch) -> None:
        self._groups.write(batch)
        self.rows += batch.num_rows
        self.nulls.update({name: batch.column(name).null_count for name in batch.schema.names})

    def upload(self, store: Store, key: str, values: dict[str, str | None]) -> Written:
        self._groups.close()
        size = store.write(key, self.file).size
        return Written(key, size, self.rows, values, dict(self.nulls), self._columns)


class TableUpload:
    """One task's rows: a file for each partition of the table."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._drafts: dict[tuple[str | None, ...], FileDraft] = {}
        self._files = ExitStack()
        self._columns: Sequence[str] | None = None

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        columns = self._partition_columns()
        for values, rows in by_values(in_utc(batch), columns):
            rows, texts = rows.drop_columns(list(columns)), tuple(map(_text, values))
            if texts not in self._drafts:
                self._drafts[texts] = FileDraft(rows.schema)
                self._files.callback(self._drafts[texts].file.close)
            self._drafts[texts].add(rows)

    def flush(self) -> list[Written]:
        options, context = self._context.options, self._context
        folder = f"{STAGED}/{context.query}/" if options.mode == "upsert" else ""
        store = Store(options, options.path)
        return [
            draft.upload(
                store,
                f"{folder}part-{context.batch:020}-{context.index}-{uuid.uuid4().hex}.parquet",
                dict(zip(self._columns or (), texts, strict=True)),
            )
            for texts, draft in self._drafts.items()
            if draft.rows
        ]

    def close(self) -> None:
        self._files.close()

    def _partition_columns(self) -> Sequence[str]:
        if self._columns is None:
            options = self._context.options
            table = None if options.mode == "upsert" else open_table(options)
            self._columns = table.metadata().partition_columns if table else ()
        return self._columns


def _text(value: Any) -> str | None:
    """Return a partition value as the table's log has it, where empty text is null."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, handles: Sequence[list[Written]]) -> None:
    """Commit the batch, unless the table has it already."""
    files = [file for handle in handles for file in handle]
    if files:
        _publish(context, files)
        sync_commits(context.options, lambda actions: _has_batch(actions, context))
    if context.options.mode == "upsert":
        _remove_staged(context)


def _publish(context: BatchContext, files: list[Written]) -> None:
    options, table = context.options, open_table(context.options)
    last = table.transaction_version(context.query)
    if is_repeated(f"the table at {options.path}", context.batch, last):
        return
    _check_schema(table, files[0].columns, options)
    _check_nulls(table, files)
    batch = CommitProperties(app_transactions=[Transaction(context.query, context.batch)])
    if options.mode == "append":
        _append(table, files, batch)
    else:
        _upsert(table, options, files, batch)


def _is_conflict(error: BaseException) -> bool:
    """Return whether another commit was faster: another writer's, or ours with a lost response."""
    final = any(text in str(error) for text in ("Unsupported", "append-only"))
    return isinstance(error, CommitFailedError) and not final


def _has_batch(actions: list[dict[str, Any]], context: BatchContext) -> bool:
    done = [action["txn"] for action in actions if "txn" in action]
    return any((txn["appId"], txn["version"]) == (context.query, context.batch) for txn in done)


def _check_nulls(table: DeltaTable, files: list[Written]) -> None:
    required = [field.name for field in table.schema().fields if not field.nullable]
    for name in required:
        if any(_count_nulls(file, name) for file in files):
            raise ValueError(f"column `{name}` of the table must not be null, and some rows are")


def _count_nulls(file: Written, name: str) -> int:
    if name in file.values:  # a partition column has one value in a file
        return file.rows if file.values[name] is None else 0
    return file.nulls.get(name, file.rows)


def _append(table: DeltaTable, files: list[Written], batch: CommitProperties) -> None:
    """Add the files of the tasks that count. VACUUM removes the others."""
    now = int(time.time() * 1000)
    actions: list[Any] = [
        AddAction(f.key, f.size, f.values, now, True, json.dumps({"numRecords": f.rows}))
        for f in files
    ]
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=batch,
    )


def _upsert(
    table: DeltaTable, options: OptionValues, files: list[Written], batch: CommitProperties
) -> None:
    """Merge in the driver: the batch has to fit into its memory."""
    store = Store(options, options.path)
    staged = [ObjectFile(store, ObjectInfo(file.key, "", file.size)) for file in files]
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
    keys = {name: rows.column(name) for name in key}
    for name, column in keys.items():
        if pa.types.is_floating(column.type):  # to Arrow, -0.0 and 0.0 differ
            keys[name] = pc.add(column, pa.scalar(0, column.type))
    counts = pa.table(keys).group_by(list(key)).aggregate([([], "count_all")])
    if rows.num_rows and pc.max(counts.column("count_all")).as_py() > 1:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(key)}), and their order is "
            "unknown; keep one for each key: aggregate, or dropDuplicates"
        )


def _remove_staged(context: BatchContext) -> None:
    """Remove the staged rows of this batch and earlier ones, also those of failed tasks."""
    store = Store(context.options, context.options.path)
    staged = store.listing(f"{STAGED}/{context.query}")
    old = [file.key for file in staged if int(file.key.split("part-")[1][:20]) <= context.batch]
    store.delete(old)


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
    Store(options, options.path, make=True).check_conditional_writes(STAGED)
    retries = Retries((), options.waitSeconds, transient=_is_conflict)
    retries.patiently(lambda: _prepare(context, rows))
    sync_commits(options, lambda actions: True)


def _prepare(context: TargetContext, rows: pa.Schema) -> None:
    try:
        table = open_table(context.options)
    except NoTableError:
        table = create_table(context.options, rows)
    check_columns(table)
    _check_rules(table)
    new = _check_schema(table, context.schema, context.options)
    if new:
        fields = Schema.from_arrow(pa.schema([rows.field(name) for name in new])).fields
        table.alter.add_columns([Field(each.name, each.type, nullable=True) for each in fields])


def _check_rules(table: DeltaTable) -> None:
    text = json.dumps([table.metadata().configuration, json.loads(table.schema().to_json())])
    rule = next((rule for rule in RULES if rule in text), None)
    if rule:
        raise ValueError(
            f"format `{FORMAT}` cannot write to a table with rules for its rows ({rule}…), as it "
            "would not check them"
        )
    for field in arrow_schema_of(table):
        if field.name in table.metadata().partition_columns and pa.types.is_binary(field.type):
            raise ValueError(f"column `{field.name}` is BINARY, and cannot partition a table")


def _check_schema(table: DeltaTable, schema: StructType, options: OptionValues) -> list[str]:
    """Return the columns that the table lacks. Raises `ValueError` for columns that do not fit."""
    present = {field.name: field.dataType for field in schema_of_table(table)}
    for field in schema:
        kind = present.get(field.name)
        if kind is not None and kind.simpleString() != field.dataType.simpleString():
            raise ValueError(
                f"column `{field.name}` is {field.dataType.simpleString()}, and in the table "
                f"{kind.simpleString()}: cast it with `selectExpr`"
            )
    new = [field.name for field in schema if field.name not in present]
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
