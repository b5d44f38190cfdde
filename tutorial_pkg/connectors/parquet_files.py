"""Parquet files: reading them, and writing them batch by batch in row groups of a good size."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

from tutorial_pkg.builder import Comparison
from tutorial_pkg.connectors.arrow_columns import map_type
from tutorial_pkg.core.arrow_casts import check_names

GROUP_BYTES = 16 << 20  # in memory, for each open file
# A column of distinct numbers gives up its dictionary sooner. With Arrow's default of 1 MB,
# encoding takes half as long again, and files are 40% larger.
DICTIONARY_BYTES = 128 << 10
TIMESTAMP = pa.timestamp("us", "UTC")


def parquet_file(source: Any) -> pa.parquet.ParquetFile:
    """Open a file for reading. Where its writer stored checksums, damage is an error.

    INT96, Spark's own form of timestamps, is read in microseconds: Arrow's nanoseconds end in the
    year 2262.
    """
    return pa.parquet.ParquetFile(
        source,
        pre_buffer=True,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def schema_of_file(file: pa.parquet.ParquetFile) -> pa.Schema:
    """Return the schema, with a time zone for INT96: Arrow omits it, though they are in UTC."""
    kinds = [file.schema.column(leaf).physical_type for leaf in range(len(file.schema))]
    if "INT96" not in kinds:
        return file.schema_arrow
    leaves = iter(kinds)

    def with_zone(kind: pa.DataType) -> pa.DataType:
        return TIMESTAMP if next(leaves) == "INT96" else kind

    schema = file.schema_arrow
    return pa.schema(field.with_type(map_type(field.type, with_zone)) for field in schema)


def batches_of_file(
    file: pa.parquet.ParquetFile,
    names: Iterable[str],
    filters: Sequence[Comparison] = (),
    start: int = 0,
    end: int = sys.maxsize,
) -> Iterator[pa.RecordBatch]:
    """Yield rows with those of the columns that the file has.

    They are those of the row groups that begin in these bytes, and whose statistics allow rows that
    all `filters` want.
    """
    schema = schema_of_file(file)
    check_names(names, schema.names)
    schema = pa.schema([schema.field(name) for name in names if name in schema.names])
    groups = [
        number
        for number, group in enumerate(map(file.metadata.row_group, range(file.num_row_groups)))
        if start <= _first_byte(group) < end and _may_match(group, filters)
    ]
    for batch in file.iter_batches(row_groups=groups, columns=schema.names):
        yield batch.select(schema.names).cast(schema) if schema.names else batch


def _first_byte(group: Any) -> int:
    column = group.column(0)
    return int(column.dictionary_page_offset or column.data_page_offset)


def _may_match(group: Any, filters: Sequence[Comparison]) -> bool:
    columns = [group.column(index) for index in range(group.num_columns if filters else 0)]
    known = {
        column.path_in_schema: (column.statistics.min, column.statistics.max)
        for column in columns
        if column.statistics is not None and column.statistics.has_min_max
    }
    return all(each.may_hold(*known.get(each.column, (None, None))) for each in filters)


class RowGroups:
    """Collects Spark's batches of 10,000 rows, as one row group for each would be slow to read."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._writer = pa.parquet.ParquetWriter(
            file,
            schema,
            compression="zstd",  # half the size of snappy
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_checksum=True,
        )
        self.file, self.rows = file, 0
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        if self._waiting:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._bytes = [], 0
