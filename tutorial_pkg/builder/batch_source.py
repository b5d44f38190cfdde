"""`SourceBuilder.batch`: the functions of a stream in tasks, until each has closed its buffer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tutorial_pkg.builder.buffer import Buffer
from tutorial_pkg.builder.context import OptionValues, SourceContext, option_values
from tutorial_pkg.builder.declaration import Declaration, data_source, schema_text
from tutorial_pkg.builder.functions import Function, Functions
from tutorial_pkg.builder.rows import RowPacker
from tutorial_pkg.core.options import Option, Options, integer
from tutorial_pkg.core.worker import settle

PAUSE_SECONDS = 0.01  # after a `fill` that added nothing

# ---- What is built -------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchParts:
    """What the builder was given."""

    functions: Functions
    schema: str | StructType
    options: Options


class BuiltBatchSource(DataSource):
    """The base of the classes that `SourceBuilder.batch` makes."""

    parts: ClassVar[BatchParts]

    @classmethod
    def name(cls) -> str:
        return cls.parts.functions.format

    def schema(self) -> str | StructType:
        option_values(self.parts.options, self.options)
        return self.parts.schema

    def reader(self, schema: StructType) -> BuiltBatchReader:
        options = option_values(self.parts.options, self.options)
        return BuiltBatchReader(self.parts.functions, schema, options)


@dataclass
class InstancePartition(InputPartition):
    """One task's work: one instance, from `create` to `destroy`."""

    index: int


class BuiltBatchReader(DataSourceReader):
    """A task for each instance."""

    def __init__(self, functions: Functions, schema: StructType, options: OptionValues) -> None:
        self._functions, self._schema, self._options = functions, schema, options

    def partitions(self) -> list[InstancePartition]:
        return [InstancePartition(index) for index in range(self._options.parallelism)]

    def read(self, partition: InstancePartition) -> Iterator[pa.RecordBatch]:
        settle()
        who = f"instance {partition.index}"
        context = SourceContext(partition.index, self._options.parallelism, self._options)
        state = self._functions.call("create", who, context)
        try:
            yield from self._filled(state, who)
        finally:
            if "destroy" in self._functions:
                self._functions.call("destroy", who, state)

    def _filled(self, state: object, who: str) -> Iterator[pa.RecordBatch]:
        """What one `fill` added is on its way before the next one begins: memory stays flat."""
        buffer = Buffer(RowPacker(self._schema))
        while not buffer.closed:
            self._functions.call("fill", who, state, buffer)
            with self._functions.blamed("fill", who):
                batches, _ = buffer.take()
            yield from batches
            if not batches and not buffer.closed:
                time.sleep(PAUSE_SECONDS)


# ---- The builder ---------------------------------------------------------------------------------


class BatchSourceBuilder(Declaration):
    """Functions, until `build()` makes a `DataSource` of them; see `SourceBuilder.batch`."""

    def __init__(self, name: str, schema: str | StructType, create: Function) -> None:
        super().__init__(name)
        self._schema = schema
        self._count = 1
        self._set("create", create, "context")

    def fill(self, function: Function) -> Self:
        """`fill(state, buffer)` adds some rows; it is called until it calls `buffer.close()`."""
        return self._set("fill", function, "state", "buffer")

    def destroy(self, function: Function) -> Self:
        """`destroy(state)` closes what `create` opened: once, also after an error."""
        return self._set("destroy", function, "state")

    def distributed(self, count: int) -> Self:
        """So many instances, a task each, unless the option `parallelism` says otherwise."""
        if not isinstance(count, int) or count < 1:
            raise ValueError(f"format `{self._name}`: `distributed` takes 1 or more, got {count!r}")
        self._count = count
        return self

    def build(self) -> type[DataSource]:
        """The class for `spark.dataSource.register`.

        Raises `ValueError` for functions that are missing, or cannot travel to other processes.
        """
        self._require("fill")
        parallelism = Option(
            "parallelism", integer(1), self._count, "1 or more", "how many instances, a task each"
        )
        parts = BatchParts(self._functions(), self._schema, self._all_options(parallelism))
        doc = _DOCUMENTATION.format(options=parts.options.table(), schema=schema_text(self._schema))
        return data_source(BuiltBatchSource, self._name, doc, parts=parts)


_DOCUMENTATION = """Rows that functions add until they are done: made by `SourceBuilder.batch`.

Parallelism: `parallelism` instances, a task each.
Guarantee: what a task that Spark repeats adds the second time counts.

Options:
{options}

Schema: {schema}
"""
