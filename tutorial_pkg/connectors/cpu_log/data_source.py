"""Format `cpu_log`: its options, and how its files are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tutorial_pkg.builder import Format, Options, OptionValues, documented
from tutorial_pkg.connectors.cpu_log.line_format import parse_lines
from tutorial_pkg.connectors.cpu_log.record import DATA_FILES
from tutorial_pkg.connectors.cpu_log.sink import PATH, WRITE_OPTIONS, sink
from tutorial_pkg.connectors.file_lines import (
    FILE_OPTIONS,
    FileLinesReader,
    FileLinesStreamReader,
    local_path,
)
from tutorial_pkg.core.spark_versions import stream_reader

SCHEMA = "timestamp TIMESTAMP_LTZ, cpu_usage DOUBLE, item STRING"
READ_OPTIONS = Options("cpu_log", (PATH, *FILE_OPTIONS[1:]))  # FILE_OPTIONS[0] is their own path
ALL_OPTIONS = Options("cpu_log", (*WRITE_OPTIONS, *FILE_OPTIONS[1:]))


@documented(ALL_OPTIONS)
class CpuLogDataSource(Format):
    r"""Lines `epoch_millis,cpu_usage,item`, written batch by batch and read back as columns.

    Parallelism: partition *i* of the DataFrame appends to `data.<i>.csv`; `repartition(2)` makes 2.
    Replay: a repeated batch is recognized by its query, its number and Spark's plan for it.
    Guarantee: exactly once. Tasks stage their lines, the commit records and then publishes them.
    No published line is ever taken back. This holds through `kill -9` and a power failure.

    Options:
    {options}

    Write: a single column is the item, several become `Row(name=value, ...)`. `\n`, `\r`, `\\` and
    `\N` stand for newlines, backslashes and nulls. `df.write` needs `.mode("append")`.
    Read: `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`. A line of another format is in
    `item`, and the other two columns are null.

    Errors: `ValueError` for a wrong option or column; `RuntimeError` for a checkpoint that was set
    back, a second query that writes to the directory, or a file that was changed or damaged;
    `OSError` for a full disk. `awaitTermination()` raises the errors of a streaming query.

    More: `docs/formats/cpu_log.md`.
    """

    format = "cpu_log"

    def sink(self) -> type[DataSource]:
        return sink

    def schema(self) -> str:
        _read_options(self.options)  # checks them
        return SCHEMA

    def reader(self, schema: StructType) -> FileLinesReader:
        return FileLinesReader(_read_options(self.options), parse_lines, whole_lines=True)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return stream_reader(FileLinesStreamReader(_read_options(self.options), parse_lines))


def _read_options(given: Mapping[str, str]) -> OptionValues:
    options = READ_OPTIONS.parse(given)
    options.path = local_path(str(Path(options.path) / DATA_FILES))
    return options


def parse_cpu_log(df: DataFrame) -> DataFrame:
    """Parse the lines in column `value` into `timestamp TIMESTAMP, cpu_usage DOUBLE, item STRING`.

    This works on any DataFrame of lines, streaming or not, in Python tasks: on a cluster, workers
    need this package. A line of another format, or with a time after the year 9999, is kept whole
    in `item`, and its other two columns are null.
    """
    return df.selectExpr("CAST(value AS STRING)").mapInArrow(_parse_batches, SCHEMA)


def _parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield parse_lines(batch.column(0).cast(pa.string()))
