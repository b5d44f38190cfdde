"""A table: opening it, its schema as Spark's, its files, and the versions in its log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructType

from tutorial_pkg.builder import Comparison, OptionValues
from tutorial_pkg.connectors.arrow_columns import fit_batch, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT
from tutorial_pkg.connectors.parquet_files import batches_of_file, matching_groups, parquet_file
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


def open_table(options: OptionValues, version: int | None = None) -> DeltaTable:
    """Open the table, in this version or in its newest.

    Raises `ConnectionError`, `ValueError` for a table that is missing or that this client cannot
    read, and `RuntimeError` for a damaged log.
    """
    _check_log(options)
    try:
        return DeltaTable(_uri(options.path), version=version, storage_options=_settings(options))
    except TableNotFoundError:
        raise ValueError(f"format `{FORMAT}`: there is no Delta table at {options.path}") from None
    except DeltaError as error:
        which = f" in version {version}" if version is not None else ""
        raise ValueError(f"{options.path} cannot be read{which}: {short_text(error)}") from None
    except OSError as error:
        raise ConnectionError(f"{options.path} fails: {short_text(error)}") from None


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


def check_columns(table: DeltaTable) -> None:
    """Raise `ValueError` for a table that stores its columns under different names."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise ValueError(
            f"{table.table_uri} stores its columns under different names "
            f"(delta.columnMapping.mode={mode}), which {FORMAT} does not support"
        )


# ---- Its files -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table, and the partition values that all of its rows have."""

    path: str
    size: int
    values: dict[str, Any] = field(default_factory=dict)

    def read(
        self, store: Store, schema: pa.Schema, filters: Sequence[Comparison] = (), **more: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield its rows with the columns of `schema`; columns that it lacks are null.

        Columns in `more` have the same value in all rows, as partition columns do. Row groups
        without rows that all `filters` want are left out.
        """
        file = parquet_file(ObjectFile(store, ObjectInfo(self.path, "", self.size)))
        groups = matching_groups(file, filters)
        values = {name: v for name, v in {**self.values, **more}.items() if name in schema.names}
        names = [name for name in schema.names if name not in values]
        for batch in batches_of_file(file, names, row_groups=groups):
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
    check_columns(table)
    if _has_deletion_vectors(table):
        raise ValueError(f"{table.table_uri} has deletion vectors, which {FORMAT} cannot read")
    rows = pa.table(table.get_add_actions()).to_pylist()
    schema = pa.schema(table.schema().to_arrow())
    files = [
        TableFile(unquote(row["path"]), row["size_bytes"], row.get("partition") or {})
        for row in rows
        if all(_may_match(row, schema, each) for each in filters)
    ]
    return sorted(files, key=lambda file: file.path)


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


def _has_deletion_vectors(table: DeltaTable) -> bool:
    if "deletionVectors" not in (table.protocol().reader_features or []):
        return False
    return any(pa.table(table.deletion_vectors()).to_pylist())


# ---- Its log -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableCommit:
    """What one version has changed: the files that it added, and whether rows went away.

    `columns` are those of the table from this version on, if it may have changed them.
    """

    version: int
    added: tuple[TableFile, ...]
    rewrites: bool
    columns: tuple[str, ...]


def commit_of(store: Store, version: int) -> TableCommit:
    """Read one version. Files that compaction adds don't count: they have no new rows.

    Raises `RuntimeError` for a version that is missing in the table's log, or damaged.
    """
    try:
        actions = _actions(store.read(_name(version)))
    except FileNotFoundError:
        raise RuntimeError(
            f"{store.url}: version {version} is no longer in the table's log, and the query has "
            "not read it. Start with a new checkpoint"
        ) from None
    except ValueError:
        raise RuntimeError(_DAMAGED.format(file=f"{store.url}/{_name(version)}")) from None
    added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
    vectors = any(add.get("deletionVector") for add in added)
    files = [
        TableFile(unquote(add["path"]), add["size"], add.get("partitionValues") or {})
        for add in added
    ]
    removes = any(action.get("remove", {}).get("dataChange") for action in actions)
    columns = _columns(actions) if version else ()
    return TableCommit(version, tuple(files), vectors or removes, columns)


def _name(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _actions(text: bytes) -> list[dict[str, Any]]:
    """Raises `ValueError` for a commit that is empty or torn."""
    if not text.strip():
        raise ValueError("empty")
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _columns(actions: list[dict[str, Any]]) -> tuple[str, ...]:
    schemas = [action["metaData"]["schemaString"] for action in actions if "metaData" in action]
    return tuple(column["name"] for text in schemas for column in json.loads(text)["fields"])


_DAMAGED = (
    "{file} is empty or damaged, as files may be after a power failure, and delta-rs may skip it. "
    "Restore it from a backup. Without one: if it is the newest version, delete it, and its batch "
    "is written again; else the rows of this version are lost"
)

# ---- Tables in local folders ---------------------------------------------------------------------


def _check_log(options: OptionValues) -> None:
    """Raise `RuntimeError` for a commit that a power failure has left empty or torn.

    To delta-rs, an empty one is a version without changes. Stores have no such objects.
    """
    folder = local_folder(options.path)
    if folder is None:
        return
    names = _log_files(folder)
    checkpoint = next((name[:20] for name in names if CHECKPOINT in name), "")
    for name in filter(COMMIT.fullmatch, names):
        if name < checkpoint:
            break
        try:
            _actions((folder / LOG / name).read_bytes())
        except ValueError:
            raise RuntimeError(_DAMAGED.format(file=folder / LOG / name)) from None


def _log_files(folder: Path) -> list[str]:
    """Return the names of the files in the table's log, the newest version first."""
    place = folder / LOG
    files = place.iterdir() if place.is_dir() else ()
    return sorted((file.name for file in files), reverse=True)


def sync_commits(options: OptionValues, is_last: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Make the newest commits survive a power failure, back to the one that is `is_last`.

    delta-rs syncs nothing in a local folder. First come the files that a commit adds, then itself.
    """
    folder = local_folder(options.path)
    if folder is None:
        return
    names = _log_files(folder)
    for commit in (folder / LOG / name for name in filter(COMMIT.fullmatch, names)):
        actions = _actions(commit.read_bytes())
        for action in actions:
            for kind in {"add", "cdc"} & action.keys():
                _sync_file(folder, folder / unquote(action[kind]["path"]))
        _sync_file(folder, commit)
        if is_last(actions):
            break
    checkpoints = [name for name in names if CHECKPOINT in name][:1]
    for name in (*checkpoints, "_last_checkpoint"):
        _sync_file(folder, folder / LOG / name)


def _sync_file(root: Path, file: Path) -> None:
    if file.is_file():  # VACUUM may have removed it
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        sync_folders(root, file)
