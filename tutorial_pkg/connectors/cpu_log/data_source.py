"""Format `cpu_log`: its options, and how its files are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from tutorial_pkg.builder import Format, Options, OptionValues, documented
from tutorial_pkg.connectors.cpu_log.line_format import LINE_PATTERN, parse_lines
from tutorial_pkg.connectors.cpu_log.publish import DATA_FILES
from tutorial_pkg.connectors.cpu_log.sink import PATH, WRITE_OPTIONS, sink
from tutorial_pkg.connectors.file_lines import (
    FILE_OPTIONS,
    FileLinesReader,
    FileLinesStreamReader,
    local_path,
)
from tutorial_pkg.core.lines import LAST_MILLIS
from tutorial_pkg.core.spark_versions import stream_reader

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
        return "timestamp TIMESTAMP_LTZ, cpu_usage DOUBLE, item STRING"

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

    This works on any DataFrame of lines, streaming or not. A line of another format, or with a time
    after the year 9999, is kept whole in `item`, and its other two columns are null.
    """
    value = F.col("value")
    millis, usage, item = (F.get(F.split(value, ",", 3), index) for index in range(3))
    millis = millis.try_cast("bigint")
    is_line = value.rlike(LINE_PATTERN) & (millis <= LAST_MILLIS)
    return df.select(
        F.when(is_line, F.timestamp_millis(millis)).alias("timestamp"),
        F.when(is_line, usage.cast("double")).alias("cpu_usage"),
        F.when(is_line, _unescape(item)).otherwise(value).alias("item"),
    )


def _unescape(item: Column) -> Column:
    # Split at escaped backslashes first: any other backslash then starts an escape.
    parts = F.transform(F.split(item, r"\\\\"), _unescape_line_ends)
    return F.when(item != F.lit(r"\N"), F.array_join(parts, "\\"))


def _unescape_line_ends(text: Column) -> Column:
    newlines = F.replace(text, F.lit(r"\n"), F.lit("\n"))
    return F.replace(newlines, F.lit(r"\r"), F.lit("\r"))
