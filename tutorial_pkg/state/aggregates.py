"""Run an aggregate operation in Spark: rolling, and in sliding windows, with state in RocksDB.

Both are Spark's `transformWithState`, in Python. It needs Spark 4.1 or later, the package
`protobuf` (6.33.5 or later) where tasks run, and its state in RocksDB: `use_rocksdb` sets that for
a session.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, cast

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructField, StructType

from tutorial_pkg.core.imports import extra
from tutorial_pkg.core.spark_versions import HAS_STATE
from tutorial_pkg.state.operation import Accumulator, AggregateOperation

EPOCH = datetime.fromtimestamp(0, UTC)
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def use_rocksdb(spark: SparkSession) -> None:
    """Keep the state of queries that start after this in RocksDB, not on Java's heap."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)


# ---- Rolling -------------------------------------------------------------------------------------


def rolling(
    rows: DataFrame, key: str, operation: AggregateOperation, forget_after: timedelta | None = None
) -> DataFrame:
    """Return the aggregate of each key over all rows so far, one row per key and batch.

    The output mode is `update`. Without `forget_after`, the accumulator of each key is kept
    forever. With it, a key that was silent for that long, by this machine's clock, starts over.
    Such a query also runs batches without rows: with the trigger `availableNow` it does not end,
    and `processAllAvailable` keeps waiting.

    Args:
        rows: a streaming DataFrame.
        key: one of its columns.
        operation: what to compute; it is pickled.
        forget_after: time to live of a silent key's state.
    """
    _require_state()
    result = _schema(rows.schema[key], operation.result)
    return rows.groupBy(key).transformWithState(
        Rolling(operation, result.names, forget_after),
        outputStructType=result,
        outputMode="update",
        timeMode="processingTime" if forget_after else "none",
    )


class Rolling(StatefulProcessor):
    """Called by Spark for each key of a batch."""

    def __init__(
        self, operation: AggregateOperation, names: list[str], forget_after: timedelta | None
    ) -> None:
        self._operation, self._row = operation, Row(*names)
        self._forget_ms = _millis(forget_after) if forget_after else None

    def init(self, handle: StatefulProcessorHandle) -> None:
        schema = self._operation.accumulator
        self._state = handle.getValueState("accumulator", schema, self._forget_ms)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        accumulator = self._state.get() or self._operation.create()
        for row in rows:
            accumulator = self._operation.accumulate(accumulator, row)
        self._state.update(accumulator)
        yield self._row(*key, *self._operation.finish(accumulator))


# ---- Sliding windows -----------------------------------------------------------------------------


def sliding(
    rows: DataFrame,
    key: str,
    operation: AggregateOperation,
    time: str,
    window: timedelta,
    slide: timedelta,
) -> DataFrame:
    """Return the aggregate of each key in each sliding window, when the watermark has passed it.

    Rows are accumulated into *frames* as long as the slide; individual rows are not kept. When a
    frame closes, it is combined into the window, and the frame that leaves the window is deducted.
    That takes two steps per result, for any number of rows and any length of the window.

    The output mode is `append`; the column `end` is the window's end. Rows behind the watermark
    are dropped, even if their window is still open, and so are rows without a time. Rounding errors
    of floats stay in later windows; NaN and infinity do not.

    Args:
        rows: a streaming DataFrame with a watermark on `time`.
        key: one of its columns.
        operation: what to compute; it is pickled.
        time: the TIMESTAMP column.
        window, slide: the window's length is a multiple of the slide.
    """
    if not slide > timedelta(0) or window <= timedelta(0) or window % slide:
        raise ValueError(
            f"`window` must be a multiple of `slide`, both above 0, got {window} and {slide}"
        )
    if not hasattr(operation, "deduct"):
        raise ValueError("`sliding` deducts the frame that leaves a window: add `deduct`")
    _require_state()
    result = _schema(rows.schema[key], f"end TIMESTAMP_LTZ, {operation.result}")
    return (
        rows.where(F.col(time).isNotNull())
        .groupBy(key)
        .transformWithState(
            Sliding(operation, result.names, time, window, slide),
            outputStructType=result,
            outputMode="append",
            timeMode="eventTime",
        )
    )


class Sliding(StatefulProcessor):
    """Frames are named by their end, in milliseconds."""

    def __init__(
        self,
        operation: AggregateOperation,
        names: list[str],
        time: str,
        window: timedelta,
        slide: timedelta,
    ) -> None:
        self._operation, self._row, self._time = operation, Row(*names), time
        self._window, self._slide = _millis(window), _millis(slide)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        schema = self._operation.accumulator
        self._frames = handle.getMapState("frames", "end LONG", schema)
        self._sum = handle.getValueState("window", f"frames INT, {schema}")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        frames: dict[int, Accumulator] = {}
        new: list[int] = []
        for row in rows:
            since_epoch = row[self._time].astimezone(UTC) - EPOCH  # a naive time is in local time
            end = (_millis(since_epoch) // self._slide + 1) * self._slide
            before = frames.get(end) or self._frame(end)
            if before is None:
                new.append(end)
                before = self._operation.create()
            frames[end] = self._operation.accumulate(before, row)
        for end, accumulator in frames.items():
            self._frames.updateValue((end,), accumulator)
        # For the windows of a new frame, and for when it leaves the last one.
        timers = {at for end in new for at in range(end, end + self._window + 1, self._slide)}
        known = set(self._handle.listTimers()) if timers else set()
        for at in sorted(timers - known):  # Spark warns if a timer exists already
            self._handle.registerTimer(at)
        yield from ()

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Close a window: add its newest frame, and deduct the one before its oldest."""
        end = expiredTimerInfo.getExpiryTimeInMs()
        frames, *previous = self._sum.get() or (0, *self._operation.create())
        window = tuple(previous)
        if newest := self._frame(end):
            frames, window = frames + 1, self._operation.combine(window, newest)
        if oldest := self._frame(end - self._window):
            frames, window = frames - 1, self._without(oldest, window, end)
            self._frames.removeKey((end - self._window,))
        if frames:
            self._sum.update((frames, *window))
            end_time = EPOCH + timedelta(milliseconds=end)
            yield self._row(*key, end_time, *self._operation.finish(window))
        else:
            self._sum.clear()

    def _without(self, oldest: Accumulator, window: Accumulator, end: int) -> Accumulator:
        """NaN and infinity cannot be deducted: then combine the remaining frames again."""
        if all(math.isfinite(number) for number in window if isinstance(number, float)):
            return self._operation.deduct(window, oldest)
        ends = range(end - self._window + self._slide, end + 1, self._slide)
        frames = filter(None, map(self._frame, ends))
        return reduce(self._operation.combine, frames, self._operation.create())

    def _frame(self, end: int) -> Accumulator | None:
        frame: Accumulator | None = self._frames.getValue((end,))
        return frame


# ---- Used by both --------------------------------------------------------------------------------


def _require_state() -> None:
    """Raise in the driver, rather than in the log of a task."""
    if not HAS_STATE:
        raise RuntimeError(
            "`rolling` and `sliding` need Spark 4.1 or later: the transformWithState of Spark 4.0 "
            "accepts only pandas"
        )
    with extra("state"):
        importlib.import_module("google.protobuf")


def _schema(key: StructField, others: str) -> StructType:
    return StructType([key, *cast(StructType, StructType.fromDDL(others)).fields])


def _millis(length: timedelta) -> int:
    return length // timedelta(milliseconds=1)
