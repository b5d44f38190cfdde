"""A table: opening it, its schema as Spark's, its files, and its log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import MAXYEAR, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructType

from tutorial_pkg.builder import Comparison, OptionValues
from tutorial_pkg.connectors.arrow_columns import fit_batch, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT
from tutorial_pkg.connectors.parquet_files import batches_of_file, parquet_file
from tutorial_pkg.connectors.store import (
    ObjectFile,
    ObjectInfo,
    Store,
    local_folder,
    short_text,
    storage_settings,
    sync_folders,
)

LOG, CHECKPOINT = "_delta_log", ".checkpoint"
COMMIT = re.compile(r"\d{20}\.json")
MILLISECOND = timedelta(milliseconds=1)

Actions = list[dict[str, Any]]  # of one version


def open_table(options: OptionValues, version: int | None = None) -> DeltaTable:
    """Open the table, in this version or in its newest.

    Raises `ConnectionError`, `ValueError` for a table that is missing or not supported, and
    `RuntimeError` for a damaged log.
    """
    _check_log(options)
    try:
        table = DeltaTable(_uri(options.path), version=version, storage_options=_settings(options))
    except TableNotFoundError:
        raise ValueError(f"format `{FORMAT}`: there is no Delta table at {options.path}") from None
    except DeltaError as error:
        which = f" in version {version}" if version is not None else ""
        raise ValueError(f"{options.path} cannot be read{which}: {short_text(error)}") from None
    except OSError as error:
        raise ConnectionError(f"{options.path} fails: {short_text(error)}") from None
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise ValueError(
            f"{options.path} stores its columns under different names "
            f"(delta.columnMapping.mode={mode}), which {FORMAT} does not support"
        )
    return table


def create_table(options: OptionValues, schema: pa.Schema) -> None:
    """Create a table for rows of this schema, unless there is one."""
    _check_log(options)
    DeltaTable.create(
        _uri(options.path),
        Schema.from_arrow(schema),
        mode="ignore",
        partition_by=list(options.partitionBy),
        configuration={"delta.checkpointInterval": "10"},  # readers read all commits after one
        storage_options=_settings(options),
    )


def _settings(options: OptionValues) -> dict[str, str]:
    """Return settings for delta-rs. By default, it would give up within seconds."""
    retries = {"max_retries": "1000", "retry_timeout": f"{options.waitSeconds}s"}
    return {**storage_settings(options), **retries, "backoff_config.max_backoff": "2s"}


def _uri(path: str) -> str:
    return path.removeprefix("file://")


def schema_of_table(table: DeltaTable) -> StructType:
    return spark_schema(pa.schema(table.schema().to_arrow()))


# ---- Its files -----------------------------------------------------------------------------------


class TableFile(NamedTuple):
    """A Parquet file of a table, and the partition values that all of its rows have."""

    path: str
    size: int
    values: dict[str, Any]

    def read(
        self, store: Store, schema: pa.Schema, filters: Sequence[Comparison], **more: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows with the columns of `schema`; columns that it lacks are null.

        Columns in `more` have the same value in all rows, as partition columns do. Row groups
        without rows that all `filters` want are left out.
        """
        file = parquet_file(ObjectFile(store, ObjectInfo(self.path, "", self.size)))
        values = {name: v for name, v in {**self.values, **more}.items() if name in schema.names}
        names = [name for name in schema.names if name not in values]
        for batch in batches_of_file(file, names, filters):
            for name, value in values.items():
                column = _repeated(value, schema.field(name).type, batch.num_rows)
                batch = batch.append_column(name, column)
            yield fit_batch(batch, schema)


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """Return a partition value as a column.

    The log has text for every value; empty text is null, and times without a zone are in UTC.
    """
    if value is None or value == "":
        return pa.nulls(count, kind)
    text = str(value)
    if getattr(kind, "tz", None) and not re.search(r"(Z|[+-]\d\d:?\d\d)$", text):
        text += "Z"
    return pa.repeat(pa.scalar(text).cast(kind), count)


def files_of(table: DeltaTable, filters: Sequence[Comparison] = ()) -> list[TableFile]:
    """Return the files of this version that may have rows that all `filters` want.

    They are always in the same order.
    """
    features = table.protocol().reader_features or []
    if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
        raise ValueError(f"{table.table_uri} has deletion vectors, which {FORMAT} cannot read")
    schema = pa.schema(table.schema().to_arrow())
    return sorted(
        TableFile(unquote(row["path"]), row["size_bytes"], row.get("partition") or {})
        for row in pa.table(table.get_add_actions()).to_pylist()
        if all(_may_match(row, schema, each) for each in filters)
    )


def _may_match(action: dict[str, Any], schema: pa.Schema, wanted: Comparison) -> bool:
    """Return whether a file may have such rows, by its partition values and statistics."""
    column, kind = wanted.column, schema.field(wanted.column).type
    values = action.get("partition") or {}
    if column in values:
        value = _repeated(values[column], kind, 1)[0].as_py()
        return wanted.may_hold(value, value)
    least, largest = ((action.get(name) or {}).get(column) for name in ("min", "max"))
    if pa.types.is_decimal(kind):  # the log has them as floats
        return True
    if isinstance(largest, datetime):  # some writers cut them to milliseconds
        largest = largest + MILLISECOND if largest.year < MAXYEAR else None
    return wanted.may_hold(least, largest)


# ---- Its log -------------------------------------------------------------------------------------


def read_version(store: Store, version: int) -> Actions:
    """Return what one version has changed. Raises `RuntimeError` if it is missing or damaged."""
    name = f"{LOG}/{version:020}.json"
    try:
        return _actions(store.read(name), f"{store.url}/{name}")
    except FileNotFoundError:
        raise RuntimeError(
            f"{store.url}: version {version} is no longer in the table's log, and the query has "
            "not read it. Start with a new checkpoint"
        ) from None


def _actions(text: bytes, file: object) -> Actions:
    """Raises `RuntimeError` for a commit that a power failure has left empty or torn."""
    try:
        actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError:
        actions = []
    if not actions:
        raise RuntimeError(
            f"{file} is empty or damaged, as files may be after a power failure, and delta-rs may "
            "skip it. Restore it from a backup. Without one: if it is the newest version, delete "
            "it, and its batch is written again; else the rows of this version are lost"
        )
    return actions


# ---- Tables in local folders ---------------------------------------------------------------------


def _log_files(options: OptionValues) -> list[Path]:
    """Return the files of the log, the newest version first; none for a table in a store."""
    folder = local_folder(options.path)
    files = (folder / LOG).glob("*") if folder else ()
    return sorted(files, key=lambda file: file.name, reverse=True)  # paths compare slowly


def _check_log(options: OptionValues) -> None:
    """Raise `RuntimeError` for a damaged commit: to delta-rs, an empty one has no changes.

    Stores have no such objects.
    """
    for file in _log_files(options):
        if COMMIT.fullmatch(file.name):
            _actions(file.read_bytes(), file)
        elif CHECKPOINT in file.name:  # delta-rs starts from it
            break


def sync_commits(options: OptionValues, query: str | None = None, batch: int = 0) -> None:
    """Make the newest commits survive a power failure, back to that of a batch, or only the newest.

    delta-rs syncs nothing in a local folder. First come the files that a commit adds, then itself.
    """
    root, files = local_folder(options.path), _log_files(options)
    if root is None:
        return
    for commit in (file for file in files if COMMIT.fullmatch(file.name)):
        actions = _actions(commit.read_bytes(), commit)
        added = [action[kind] for action in actions for kind in {"add", "cdc"} & action.keys()]
        for file in added:
            _sync_file(root, root / unquote(file["path"]))
        _sync_file(root, commit)
        done = [action["txn"] for action in actions if "txn" in action]
        if query is None or any((t["appId"], t["version"]) == (query, batch) for t in done):
            break
    checkpoints = [file for file in files if CHECKPOINT in file.name][:1]
    for file in (*checkpoints, root / LOG / "_last_checkpoint"):
        _sync_file(root, file)


def _sync_file(root: Path, file: Path) -> None:
    if file.is_file():  # VACUUM may have removed it
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        sync_folders(root, file)
