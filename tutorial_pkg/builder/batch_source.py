"""`SourceBuilder.batch`: the functions of a stream in tasks, until each has closed its buffer.

Each instance is a split of a replayable source, with nothing but its number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.built import BuiltSource, SourceParts, data_source, documented
from tutorial_pkg.builder.context import SourceContext, Split, SplitContext
from tutorial_pkg.builder.declaration import InstancesDeclaration, State
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.replayable_source import batch_reader
from tutorial_pkg.builder.rows import RowPacker

PAUSE_SECONDS = 0.01  # after a `fill` that added nothing

# ---- For Spark -----------------------------------------------------------------------------------


class BuiltBatchSource(BuiltSource):
    """The base of the classes that `SourceBuilder.batch` makes."""

    def reader(self, schema: StructType) -> DataSourceReader:
        rows: Any = partial(_rows, self.parts.functions)
        return batch_reader(self, _instances, rows, schema)


def _instances(context: SplitContext) -> dict[str, Split]:
    count = context.options.parallelism
    return {f"instance {index}": Split(0, 1, payload=index) for index in range(count)}


def _rows(
    functions: Functions, context: SplitContext, who: str, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """Run an instance, from `create` to `destroy`; each `fill` follows when Spark has its rows."""
    own = SourceContext(context.payload, context.options.parallelism, context.options)
    state = functions.call("create", who, own)
    buffer = Buffer(RowPacker(context.schema))
    with closing_with(lambda: "destroy" in functions and functions.call("destroy", who, state)):
        while not buffer.closed:
            returned = functions.call("fill", who, state, buffer)
            with functions.blamed("fill", who):
                buffer.check_returned(returned)
                batches, _ = buffer.take()
            yield from batches
            if not batches and not buffer.closed:
                time.sleep(PAUSE_SECONDS)


# ---- The builder ---------------------------------------------------------------------------------


class BatchSourceBuilder(InstancesDeclaration[State]):
    """What follows `SourceBuilder.batch(...)`: add functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = 10_000

    def fill(self, function: Callable[[State, Buffer], object]) -> Self:
        """Add some rows with `fill(state, buffer)`, called until it calls `buffer.close()`."""
        return self._set("fill", function, "state", "buffer")

    def build(self) -> type[DataSource]:
        """Make the class for `spark.dataSource.register`.

        Raises `ValueError` for functions that are missing, or cannot be pickled.
        """
        self._require("fill")
        options = self._all_options(self._parallelism("how many instances, a task each"))
        parts = SourceParts(self._functions(), options, self._schema)
        return data_source(BuiltBatchSource, documented(_DOCUMENTATION, parts), parts)


_DOCUMENTATION = """Rows that functions add until they are done: made by `SourceBuilder.batch`.

Parallelism: `parallelism` instances, a task each.
Guarantee: if Spark repeats a task, the rows of the second run count.
"""
