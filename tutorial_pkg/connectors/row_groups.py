"""Parquet files: to be read, and growing batch by batch, in row groups that readers like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

__all__ = ["RowGroups", "batches_of_file", "parquet_file", "schema_of_file"]

GROUP_BYTES = 16 << 20  # in memory, for each file that is open
# A column of numbers that are all different gives its dictionary up sooner: with 1 MB, which is
# Arrow's, to encode takes half as long again, and files are larger by 40%.
DICTIONARY_BYTES = 128 << 10
MOMENT = pa.timestamp("us", "UTC")


def parquet_file(source: Any) -> pa.parquet.ParquetFile:
    """A file to be read; where its writer has left checksums, what was damaged is an error.

    INT96, Spark's own form of moments, in microseconds: Arrow's nanoseconds end in the year 2262.
    """
    return pa.parquet.ParquetFile(
        source,
        pre_buffer=True,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",
    )


def schema_of_file(file: pa.parquet.ParquetFile) -> pa.Schema:
    moments = _moments(file)
    return pa.schema(
        field.with_type(MOMENT) if field.name in moments else field for field in file.schema_arrow
    )


def batches_of_file(
    file: pa.parquet.ParquetFile, names: list[str], **given: Any
) -> Iterator[pa.RecordBatch]:
    """Its rows, with these columns."""
    moments = _moments(file)
    for batch in file.iter_batches(columns=names, **given):
        for place, name in enumerate(batch.schema.names):
            if name in moments:
                batch = batch.set_column(place, name, batch.column(place).cast(MOMENT))
        yield batch


def _moments(file: pa.parquet.ParquetFile) -> set[str]:
    """Columns of INT96: Arrow does not say that their times are those of UTC."""
    columns = (file.schema.column(number) for number in range(len(file.schema)))
    return {column.path for column in columns if column.physical_type == "INT96"}


class RowGroups:
    """Spark hands over batches of ten thousand rows: a row group for each would be slow to read."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        # Smaller than with snappy by half, and what is not uploaded costs nothing.
        self._writer = pa.parquet.ParquetWriter(
            file,
            schema,
            compression="zstd",
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_checksum=True,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
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
