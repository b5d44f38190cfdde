"""Parquet files: to be read, and growing batch by batch, in row groups that readers like."""

from __future__ import annotations

from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet

__all__ = ["RowGroups", "parquet_file"]

GROUP_BYTES = 16 << 20  # in memory, for each file that is open
# A column of numbers that are all different gives its dictionary up sooner: with 1 MB, which is
# Arrow's, to encode takes half as long again, and files are larger by 40%.
DICTIONARY_BYTES = 128 << 10


def parquet_file(source: Any) -> pa.parquet.ParquetFile:
    """A file to be read; where its writer has left checksums, what was damaged is an error."""
    return pa.parquet.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)


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
