"""`SourceBuilder.batch`: the functions of a stream in tasks, until each has closed its buffer."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.built import BuiltSource, SourceParts, data_source, schema_text
from tutorial_pkg.builder.context import SourceContext
from tutorial_pkg.builder.declaration import InstancesDeclaration, State
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.worker import freeze_imports

PAUSE_SECONDS = 0.01  # after a `fill` that added nothing

# ---- What is built -------------------------------------------------------------------------------


class BuiltBatchSource(BuiltSource):
    """The base of the classes that `SourceBuilder.batch` makes."""

    def reader(self, schema: StructType) -> BuiltBatchReader:
        return BuiltBatchReader(self.parts.functions, schema, self.values())


@dataclass
class InstancePartition(InputPartition):
    """One task's work: one instance, from `create` to `destroy`."""

    index: int


class BuiltBatchReader(DataSourceReader):
    """A task for each instance."""

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        self._functions, self._schema, self._options = functions, schema, options
        self._retries = functions.retries.of(options)

    def partitions(self) -> list[InstancePartition]:
        return [InstancePartition(index) for index in range(self._options.parallelism)]

    def read(self, partition: InstancePartition) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        yield from self._retries.begun(lambda: self._rows(partition))

    def _rows(self, partition: InstancePartition) -> Iterator[pa.RecordBatch]:
        who = f"instance {partition.index}"
        options = copy.deepcopy(self._options)  # which `create` may change
        context = SourceContext(partition.index, options.parallelism, options)
        state = self._functions.call("create", who, context)
        with closing_with(lambda: self._destroy(state, who)):
            yield from self._filled(state, who)

    def _filled(self, state: object, who: str) -> Iterator[pa.RecordBatch]:
        """What one `fill` added is on its way before the next one begins: memory stays flat."""
        buffer = Buffer(RowPacker(self._schema))
        while not buffer.closed:
            returned = self._functions.call("fill", who, state, buffer)
            with self._functions.blamed("fill", who):
                buffer.check_returned(returned)
                batches, _ = buffer.take()
            yield from batches
            if not batches and not buffer.closed:
                time.sleep(PAUSE_SECONDS)

    def _destroy(self, state: object, who: str) -> None:
        if "destroy" in self._functions:
            self._functions.call("destroy", who, state)


# ---- The builder ---------------------------------------------------------------------------------


class BatchSourceBuilder(InstancesDeclaration[State]):
    """What follows `SourceBuilder.batch(...)`: give functions, then `build()` the `DataSource`."""

    _MOST_INSTANCES = 10_000

    def fill(self, function: Callable[[State, Buffer], object]) -> Self:
        """`fill(state, buffer)` adds some rows; it is called until it calls `buffer.close()`."""
        return self._set("fill", function, "state", "buffer")

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that are missing, or cannot travel to other processes.
        """
        self._require("fill")
        options = self._all_options(self._parallelism("how many instances, a task each"))
        parts = SourceParts(self._functions(), options, self._schema)
        doc = _DOCUMENTATION.format(options=options.table(), schema=schema_text(self._schema))
        return data_source(BuiltBatchSource, doc, parts)


_DOCUMENTATION = """Rows that functions add until they are done: made by `SourceBuilder.batch`.

Parallelism: `parallelism` instances, a task each.
Guarantee: what a task that Spark repeats adds the second time counts.

Options:
{options}

Schema: {schema}
"""
