"""A table: opening it, its schema as Spark has it, what its log says of a version."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql.types import StructType

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.arrow_columns import check_names, fitted, spark_schema
from tutorial_pkg.connectors.delta.options import FORMAT
from tutorial_pkg.connectors.row_groups import batches_of_file, parquet_file
from tutorial_pkg.connectors.store import Found, ObjectFile, Store, storage_settings, told


class NoTableError(ValueError):
    """There is no table at this address."""


def open_table(options: OptionValues, version: int | None = None) -> DeltaTable:
    """The table, as it was in a version or as it is now.

    Raises `NoTableError`, `ConnectionError`, and `ValueError` for what this client cannot read.
    """
    try:
        return DeltaTable(_uri(options.path), version=version, storage_options=_settings(options))
    except TableNotFoundError:
        raise NoTableError(
            f"format `{FORMAT}`: there is no Delta table at {options.path}"
        ) from None
    except DeltaError as error:
        which = f" in version {version}" if version is not None else ""
        raise ValueError(f"{options.path} cannot be read{which}: {told(error)}") from None
    except OSError as error:
        raise ConnectionError(f"{options.path} fails: {told(error)}") from None


def create_table(options: OptionValues, schema: pa.Schema) -> DeltaTable:
    """A table for rows of this schema; one that is there already stays as it is."""
    return DeltaTable.create(
        _uri(options.path),
        Schema.from_arrow(schema),
        mode="ignore",
        partition_by=list(options.partitionBy),
        storage_options=_settings(options),
    )


def _settings(options: OptionValues) -> dict[str, str]:
    """As for the other client; by itself this one asks ten times, and gives up within seconds."""
    patience = {"max_retries": "1000", "retry_timeout": f"{options.waitSeconds}s"}
    return {**storage_settings(options), **patience, "backoff_config.max_backoff": "2s"}


def _uri(path: str) -> str:
    return path.removeprefix("file://")


def arrow_schema_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def schema_of_table(table: DeltaTable) -> StructType:
    return spark_schema(arrow_schema_of(table))


# ---- Its files -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A Parquet file of a table, and the values that all of its rows have."""

    path: str
    size: int
    values: dict[str, Any] = field(default_factory=dict)

    def read(self, store: Store, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Its rows, with the columns that are wanted; null where it has none."""
        source = ObjectFile(store, Found(self.path, "", self.size))
        file = parquet_file(source)
        there = file.schema_arrow.names
        check_names(wanted.names, there)
        names = [name for name in wanted.names if name in there and name not in self.values]
        for batch in batches_of_file(file, names):
            for name in self.values.keys() & set(wanted.names):
                column = _repeated(self.values[name], wanted.field(name).type, batch.num_rows)
                batch = batch.append_column(name, column)
            yield fitted(batch, wanted)


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """The log has a text for every value; an empty one is null. Times without a zone are UTC's."""
    if value is None or value == "":
        return pa.nulls(count, kind)
    text = str(value)
    if getattr(kind, "tz", None) and not re.search(r"(Z|[+-]\d\d:?\d\d)$", text):
        text += "Z"
    return pa.repeat(pa.scalar(text).cast(kind), count)


def files_of(table: DeltaTable) -> list[File]:
    """All files of this version, in an order that is always the same."""
    check_columns(table)
    if any(vector for vector in _deletion_vectors(table)):
        raise ValueError(f"{table.table_uri} has deletion vectors, which {FORMAT} cannot read")
    rows = pa.table(table.get_add_actions()).to_pylist()
    files = [
        File(unquote(row["path"]), row["size_bytes"], row.get("partition") or {}) for row in rows
    ]
    return sorted(files, key=lambda each: each.path)


def _deletion_vectors(table: DeltaTable) -> Iterator[Any]:
    if "deletionVectors" in (table.protocol().reader_features or []):
        yield from pa.table(table.deletion_vectors()).to_pylist()


def check_columns(table: DeltaTable) -> None:
    """Raises `ValueError` for a table whose files have other names for its columns."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mode != "none":
        raise ValueError(
            f"{table.table_uri} has columns under other names than its files "
            f"(delta.columnMapping.mode={mode}), which {FORMAT} does not know"
        )


# ---- Its log -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Commit:
    """What one version has changed: files that were added, and whether rows went away.

    `columns` are those of the table from this version on, where it may have changed them.
    """

    version: int
    added: tuple[File, ...]
    rewrites: bool
    columns: tuple[str, ...]


def commit_of(store: Store, version: int) -> Commit:
    """Compacting changes no rows, so neither do the files that it adds.

    Raises `RuntimeError` for a version that the table's log does not have, or has not whole.
    """
    try:
        text = store.read(f"_delta_log/{version:020}.json")
    except FileNotFoundError:
        raise RuntimeError(
            f"{store.url}: version {version} is not in the table's log any more, and the query has "
            "not read it. Start with a new checkpoint"
        ) from None
    actions = [json.loads(line) for line in text.splitlines() if line.strip()]
    if not actions:
        raise RuntimeError(f"{store.url}: version {version} is empty in the table's log: repair it")
    added = [each["add"] for each in actions if each.get("add", {}).get("dataChange")]
    vectors = any(each.get("deletionVector") for each in added)
    files = [File(unquote(a["path"]), a["size"], a.get("partitionValues") or {}) for a in added]
    rewrites = vectors or any(each.get("remove", {}).get("dataChange") for each in actions)
    return Commit(version, tuple(files), rewrites, _columns(actions) if version else ())


def _columns(actions: list[dict[str, Any]]) -> tuple[str, ...]:
    schemas = [each["metaData"]["schemaString"] for each in actions if "metaData" in each]
    return tuple(field["name"] for text in schemas for field in json.loads(text)["fields"])
