"""The differences between Spark 4.0 and 4.3; nothing else in this package looks at versions.

PySpark is checked for names, not for version numbers, since platforms may have their own.
docs/versions.md explains the differences to users.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyspark.sql import GroupedData, datasource, types
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema

from tutorial_pkg.core.worker import outlive_ctrl_c

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # from Spark 4.2 on
HAS_ARROW_STREAMS = hasattr(datasource, "DataSourceStreamArrowWriter")  # from Spark 4.1 on
HAS_STATE = hasattr(GroupedData, "transformWithState")  # from Spark 4.1 on

# ---- Limits of a batch -----------------------------------------------------------------------

if TYPE_CHECKING:
    import pyarrow as pa

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxBytes as ReadMaxBytes
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """How much a batch may take."""

    class ReadAllAvailable(ReadLimit):
        """All there is."""

    class ReadMaxRows(ReadLimit):
        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class ReadMaxBytes(ReadLimit):
        def __init__(self, max_bytes: int) -> None:
            self.max_bytes = max_bytes

    class SupportsTriggerAvailableNow:
        """Spark does not ask for it yet."""


def stream_reader(reader: Any) -> DataSourceStreamReader:
    """Adapt a reader with `latestOffset(start, limit)` to this Spark, and its process to Ctrl-C."""
    outlive_ctrl_c()
    return reader if HAS_LIMITS else _SelfLimiting(reader)


class _SelfLimiting(DataSourceStreamReader):
    """Knows where a batch starts and what its limit is, which Spark before 4.2 does not pass.

    A batch starts where the last planned one ended. When a query is restarted, Spark first plans an
    empty batch at the checkpoint's last offset. A new query's first `latestOffset` comes before its
    `initialOffset`.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._initial: Any = None
        self._start: Any = None

    def initialOffset(self) -> Any:
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def latestOffset(self, *arguments: Any) -> Any:
        """Spark passes no arguments; tests pass a start and a limit."""
        if self._start is None:
            self._start = self.initialOffset()
        missing = self._start, self._reader.getDefaultReadLimit()
        return self._reader.latestOffset(*(arguments or missing))

    def partitions(self, start: Any, end: Any) -> Any:
        self._start = end
        return [] if start == end else self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Any:
        return self._reader.read(partition)

    def commit(self, end: Any) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


# ---- Filters -----------------------------------------------------------------------------------


def passes_filters() -> bool:
    """Return whether this is Spark's process for filters: elsewhere it refuses such readers.

    It exists from Spark 4.1 on, while `FILTERS` is set.
    """
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules


FILTERS = "spark.sql.python.filterPushdown.enabled"

# ---- Record batches for a streaming sink -------------------------------------------------------

if TYPE_CHECKING or HAS_ARROW_STREAMS:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """Spark 4.0 passes record batches to any `DataSourceArrowWriter`."""


# ---- Names that came or went -------------------------------------------------------------------


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """With timestamps of UTC; before Spark 4.2 there are no others."""
    zone: Any = {"timezone": "UTC"} if HAS_LIMITS else {}
    return to_arrow_schema(schema, **zone)


# Spark 4.0 has no TIME columns.
TimeType: type[types.DataType] = getattr(types, "TimeType", types.DateType)
_STREAMING = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_FILES = (
    f"{_STREAMING}.{'checkpointing.' if HAS_ARROW_STREAMS else ''}"
    "FileSystemBasedCheckpointFileManager"
)
