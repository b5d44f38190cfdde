"""Rows into a table: tasks write Parquet files, and one commit of the table's log adds them.

The commit says which batch of which query it is: Delta's application transactions. So a batch that
comes again is known, also if two drivers commit it at the same moment.
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
    RowPacker,
    SinkBuilder,
    SinkContext,
    TargetContext,
)
from tutorial_pkg.connectors.arrow_columns import by_values, has_required, in_utc, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT, WRITE
from tutorial_pkg.connectors.delta.table import (
    NoTableError,
    arrow_schema_of,
    check_columns,
    create_table,
    open_table,
    schema_of_table,
)
from tutorial_pkg.connectors.row_groups import RowGroups, parquet_file
from tutorial_pkg.connectors.store import Found, ObjectFile, Store
from tutorial_pkg.core.pauses import patiently

STAGED = "_staged"  # in the table's folder; what begins with `_` is no data
# A writer whose rules these are would check them; this one does not know them.
RULES = ("delta.constraints.", "delta.invariants", "delta.generationExpression", "delta.identity.")

# ---- In the tasks --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """A file that a task has written: how many rows it has, and how many nulls by column."""

    key: str
    size: int
    rows: int
    values: dict[str, str | None]
    nulls: dict[str, int]
    columns: StructType


class Draft:
    """A file that grows on the task's disk."""

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


class Upload:
    """One task's rows: a file for each part of the table."""

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        self._drafts: dict[tuple[str | None, ...], Draft] = {}
        self._files = ExitStack()
        self._columns: Sequence[str] | None = None

    def receive_batch(self, batch: pa.RecordBatch) -> None:
        columns = self._partitioned_by()
        for values, rows in by_values(in_utc(batch), columns):
            rows, texts = rows.drop_columns(list(columns)), tuple(map(_text, values))
            if texts not in self._drafts:
                self._drafts[texts] = Draft(rows.schema)
                self._files.callback(self._drafts[texts].file.close)
            self._drafts[texts].add(rows)

    def flush(self) -> list[Written]:
        options, context = self._context.options, self._context
        folder = f"{STAGED}/{context.query}/" if options.mode == "upsert" else ""
        store = Store(options, options.path)
        return [
            draft.upload(
                store,
                f"{folder}{self._name()}",
                dict(zip(self._columns or (), texts, strict=True)),
            )
            for texts, draft in self._drafts.items()
            if draft.rows
        ]

    def close(self) -> None:
        self._files.close()

    def _name(self) -> str:
        return f"part-{self._context.batch:020}-{self._context.index}-{uuid.uuid4().hex}.parquet"

    def _partitioned_by(self) -> Sequence[str]:
        if self._columns is None:
            options = self._context.options
            table = None if options.mode == "upsert" else open_table(options)
            self._columns = table.metadata().partition_columns if table else ()
        return self._columns


def _text(value: Any) -> str | None:
    """Delta has no empty text there: it is null."""
    if value is None or value == "":
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- In the driver, once for a batch -------------------------------------------------------------


def publish(context: BatchContext, handles: Sequence[list[Written]]) -> None:
    """Commit the batch, unless it is in the table. Another writer's commit is no obstacle."""
    files = [file for each in handles for file in each]
    patiently(lambda: _publish(context, files), _came_second, context.options.waitSeconds)
    _sweep(context)


def _came_second(error: Exception) -> bool:
    """Behind another writer's commit, or behind our own, of which no answer came back."""
    final = any(text in str(error) for text in ("Unsupported", "append-only"))
    return isinstance(error, CommitFailedError) and not final


def _publish(context: BatchContext, files: list[Written]) -> None:
    options = context.options
    table = open_table(options)
    store = Store(options, options.path)
    if files and not _is_in(table, context):
        _check_table(table, options, files)
        _check_nulls(table, files)
        done = CommitProperties(app_transactions=[Transaction(context.query, context.batch)])
        work = _append if options.mode == "append" else _upsert
        work(table, options, store, files, done)


def _is_in(table: DeltaTable, context: BatchContext) -> bool:
    """Whether the table has this batch. Raises `RuntimeError` if it has a later one."""
    last = table.transaction_version(context.query)
    if last is not None and last > context.batch:
        raise RuntimeError(
            f"the table at {context.options.path} has batch {last} of this query, and now comes "
            f"batch {context.batch}: its checkpoint was set back. Written again, rows might be "
            "there twice; left out, some might be missing. Compare, then start with a new "
            "checkpoint"
        )
    return last == context.batch


def _check_table(table: DeltaTable, options: OptionValues, files: list[Written]) -> None:
    """Somebody may have altered the table since the query started, or since its files were written.

    Raises `ValueError` or `RuntimeError`.
    """
    check_columns(table)
    _check_rules(table)
    cut = set(table.metadata().partition_columns) if options.mode == "append" else set()
    new = _check_columns(table, files[0].columns, options)
    if new or any(set(file.values) != cut for file in files):
        raise RuntimeError(
            f"the table at {options.path} has other columns now than when this batch was written, "
            "or is cut by others: start the query again, and the batch is repeated"
        )


def _check_nulls(table: DeltaTable, files: list[Written]) -> None:
    required = [field.name for field in table.schema().fields if not field.nullable]
    for name in required:
        if any(_nulls(file, name) for file in files):
            raise ValueError(f"column `{name}` of the table must not be null, and some rows are")


def _nulls(file: Written, name: str) -> int:
    """In a partition column, a file has one value."""
    if name in file.values:
        return file.rows if file.values[name] is None else 0
    return file.nulls.get(name, file.rows)


def _append(
    table: DeltaTable,
    options: OptionValues,
    store: Store,
    files: list[Written],
    properties: CommitProperties,
) -> None:
    """Files that no commit names, as those of tasks that did not count, are for VACUUM."""
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
        commit_properties=properties,
    )


def _upsert(
    table: DeltaTable,
    options: OptionValues,
    store: Store,
    files: list[Written],
    properties: CommitProperties,
) -> None:
    """The driver merges: a batch has to fit into its memory."""
    found = [ObjectFile(store, Found(file.key, "", file.size)) for file in files]
    rows = pa.concat_tables([parquet_file(file).read() for file in found])
    _check_keys(rows, options.key)
    same = " AND ".join(f"target.{_named(name)} = source.{_named(name)}" for name in options.key)
    columns = {_named(name): f"source.{_named(name)}" for name in rows.column_names}
    merge = table.merge(rows, same, "source", "target", commit_properties=properties)
    merge.when_matched_update(columns).when_not_matched_insert(columns).execute()


def _named(column: str) -> str:
    quoted = column.replace('"', '""')
    return f'"{quoted}"'


def _check_keys(rows: pa.Table, key: Sequence[str]) -> None:
    """Raises `ValueError` where nothing says which row comes last, or which one is meant."""
    if any(rows.column(name).null_count for name in key):
        raise ValueError(f"a row's key ({', '.join(key)}) must not be null")
    keys = {name: rows.column(name) for name in key}
    for name, column in keys.items():
        if pa.types.is_floating(column.type):  # to Arrow -0.0 is another value than 0.0
            keys[name] = pc.add(column, pa.scalar(0, column.type))
    counts = pa.table(keys).group_by(list(key)).aggregate([([], "count_all")])
    if rows.num_rows and pc.max(counts.column("count_all")).as_py() > 1:
        raise ValueError(
            f"a batch has several rows with the same key ({', '.join(key)}), and nothing says "
            "which of them comes last; leave one for each: aggregate, or dropDuplicates"
        )


def _sweep(context: BatchContext) -> None:
    """Staged rows of this batch and those before have had their time, whoever wrote them."""
    if context.options.mode == "upsert":
        store = Store(context.options, context.options.path)
        staged = store.listed(f"{STAGED}/{context.query}")
        old = [file.key for file in staged if int(file.key.split("part-")[1][:20]) <= context.batch]
        store.delete(old)


# ---- Before the query runs -----------------------------------------------------------------------


def check(context: TargetContext) -> None:
    """Make the table if there is none; refuse rows that do not fit. Raises `ValueError`."""
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
    patiently(lambda: _prepare(context, rows), _came_second, options.waitSeconds)


def _prepare(context: TargetContext, rows: pa.Schema) -> None:
    try:
        table = open_table(context.options)
    except NoTableError:
        table = create_table(context.options, rows)
    check_columns(table)
    _check_rules(table)
    new = _check_columns(table, context.schema, context.options)
    if new:
        fields = Schema.from_arrow(pa.schema([rows.field(name) for name in new])).fields
        table.alter.add_columns([Field(each.name, each.type, nullable=True) for each in fields])


def _check_rules(table: DeltaTable) -> None:
    text = json.dumps([table.metadata().configuration, json.loads(table.schema().to_json())])
    found = [rule for rule in RULES if rule in text]
    if found:
        raise ValueError(
            f"format `{FORMAT}` cannot write to a table with rules for its rows ({found[0]}…), as "
            "it would not check them"
        )
    for field in arrow_schema_of(table):
        if has_required(field.type):
            raise ValueError(
                f"column `{field.name}` of the table has values inside that must not be null, "
                f"which {FORMAT} does not check"
            )
        if field.name in table.metadata().partition_columns and pa.types.is_binary(field.type):
            raise ValueError(f"column `{field.name}` is BINARY, and cannot cut a table")


def _check_columns(table: DeltaTable, schema: StructType, options: OptionValues) -> list[str]:
    """The columns that the table lacks."""
    there = {field.name: field.dataType for field in schema_of_table(table)}
    for field in schema:
        known = there.get(field.name)
        if known is not None and known.simpleString() != field.dataType.simpleString():
            raise ValueError(
                f"column `{field.name}` is {field.dataType.simpleString()}, and in the table "
                f"{known.simpleString()}: cast it with `selectExpr`"
            )
    new = [field.name for field in schema if field.name not in there]
    if new and not options.evolve:
        raise ValueError(
            f"the table at {options.path} has no column `{new[0]}`; choose columns with "
            "`selectExpr`, or let `evolve` true add it"
        )
    return new


sink = (
    SinkBuilder.stream(FORMAT, create=Upload)
    .retry(seconds=0)  # it waits by itself
    .receive_batch(Upload.receive_batch)
    .flush(Upload.flush)
    .destroy(Upload.close)
    .commit(publish)
    .check(check)
    .also_batch()
    .also_overwrite()
    .options(*WRITE)
    .build()
)
