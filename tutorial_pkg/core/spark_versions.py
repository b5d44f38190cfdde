"""All that differs between Spark 4.0 and 4.3. Nothing else in this package looks at a version.

It checks whether PySpark has a name, not which version it says it is: a platform may have its own
numbers. docs/versions.md says what a user notices of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pyspark import accumulators
from pyspark.sql import GroupedData, datasource, types
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema

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
    """`reader`, whose `latestOffset` takes a start and a limit, as this Spark can use it."""
    made: DataSourceStreamReader = reader if HAS_LIMITS else _SelfLimiting(reader)
    return made


class _SelfLimiting(DataSourceStreamReader):
    """Before 4.2 Spark says neither where a batch starts nor what its limit is.

    It starts where the last one ended that was planned. When a query is restarted, Spark first has
    the reader plan an empty batch at the last offset in the checkpoint. A new query's first batch
    is asked for before its initial offset.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._initial: Any = None
        self._start: Any = None

    def initialOffset(self) -> Any:
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        limit: ReadLimit = self._reader.getDefaultReadLimit()
        return limit

    def latestOffset(self, *given: Any) -> Any:
        """Spark gives nothing; code that uses a reader without Spark gives a start and a limit."""
        if self._start is None:
            self._start = self.initialOffset()
        return self._reader.latestOffset(*(given or (self._start, self.getDefaultReadLimit())))

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        planned: Sequence[InputPartition] = (
            [] if start == end else self._reader.partitions(start, end)
        )
        self._start = end
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        rows: Iterator[Any] = self._reader.read(partition)
        return rows

    def commit(self, end: Any) -> None:
        self._reader.commit(end)

    def stop(self) -> None:
        self._reader.stop()


def warn_of_limits(name: str, options: SimpleNamespace, log: bool = False) -> None:
    """At `load()`: what this Spark cannot do with `availableNow`, of a limit or of a log."""
    given = vars(options)
    named = [option for option in given if option.endswith("PerTrigger") and given[option]]
    if HAS_LIMITS or not (named or log):
        return
    if log:
        told = (
            "such a query takes in new rows, too, and ends after one batch of what is in the log "
            "by then; the next run reads on: take another trigger there"
        )
    else:
        told = (
            f"with `{named[0]}` such a query ends after one batch, and the next run reads on: "
            "leave the option out there"
        )
    warnings.warn(
        f"format `{name}`: before Spark 4.2 a source does not learn of the trigger `availableNow`, "
        f"so {told}, or update Spark",
        stacklevel=2,
    )


# ---- Record batches for a streaming sink -------------------------------------------------------

if TYPE_CHECKING or HAS_ARROW_STREAMS:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):
        """What Spark 4.0 hands record batches to is an Arrow writer, of whatever kind."""


# ---- Names that came or went -------------------------------------------------------------------


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """With timestamps of UTC; before Spark 4.2 there are no others."""
    zone: Any = {"timezone": "UTC"} if HAS_LIMITS else {}
    return to_arrow_schema(schema, **zone)


# Those whose values are dates or times; Spark 4.0 has no name for all of them.
TIME_TYPES: tuple[type[types.DataType], ...] = tuple(
    getattr(types, name)
    for name in ("DateType", "TimestampType", "TimestampNTZType", "TimeType")
    if hasattr(types, name)
)
# What answers tasks in the driver: with Unix sockets, or only by TCP as before 4.1.
ACCUMULATOR_SERVERS: tuple[Any, ...] = tuple(
    getattr(accumulators, name)
    for name in ("AccumulatorServer", "AccumulatorTCPServer", "AccumulatorUnixServer")
    if hasattr(accumulators, name)
)
HAS_UNIX_SOCKETS = hasattr(accumulators, "AccumulatorUnixServer")
_STREAMING = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_FILES = (
    f"{_STREAMING}.{'checkpointing.' if HAS_ARROW_STREAMS else ''}"
    "FileSystemBasedCheckpointFileManager"
)
