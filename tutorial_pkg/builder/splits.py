"""Calls the functions of replayable and cursor sources, which share a connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tutorial_pkg.builder.context import SplitContext
from tutorial_pkg.builder.functions import Functions, closing_with
from tutorial_pkg.builder.rows import Buffer, RowPacker
from tutorial_pkg.core.worker import freeze_imports

SOURCE = "the source"  # who fails, in errors
QUOTED = 80  # characters of a value in an error


@dataclass
class SplitPartition(InputPartition):
    """One task's work: a split's rows from `start` up to `end`."""

    split: str
    start: Any
    end: Any
    identity: str = ""
    payload: Any = None


class SplitCalls:
    """Calls functions with their context, again after transient errors. Raises `FunctionError`.

    `connect` runs before the first of them, in each process that needs it.
    """

    def __init__(self, functions: Functions, context: SplitContext) -> None:
        self.functions = functions
        self.retries = functions.retries.of(context.options)
        self.context = replace(context, retries=self.retries)
        self._is_open = False

    def ask(self, name: str, who: str, *arguments: Any, **more: Any) -> Any:
        """Call a function beside the driver. `more` goes into its context."""

        def once() -> Any:
            return self.functions.call(name, who, replace(self.open(), **more), *arguments)

        return self.retries.patiently(once, self.close)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a part's rows; start over after a transient error while Spark has none of them."""
        freeze_imports()
        if isinstance(partition, SplitPartition):  # Spark makes an empty one if there is none
            with closing_with(self.close):
                yield from self.retries.begun(lambda: self._read(partition), self.close)

    def _read(self, part: SplitPartition) -> Iterator[pa.RecordBatch]:
        context = replace(self.open(), identity=part.identity, payload=part.payload)
        with self.functions.blamed("read", split_text(part.split)):
            rows = self.functions.given["read"](context, part.split, part.start, part.end)
            yield from packed(rows, Buffer(RowPacker(context.schema)))

    def open(self) -> SplitContext:
        if not self._is_open and "connect" in self.functions:
            connection = self.functions.call("connect", SOURCE, self.context.options)
            self.context = replace(self.context, connection=connection)
        self._is_open = True
        return self.context

    def close(self) -> None:
        """Close what `connect` opened in this process."""
        connection, was_open = self.context.connection, self._is_open
        self.context, self._is_open = replace(self.context, connection=None), False
        if was_open and "close" in self.functions:
            self.functions.call("close", SOURCE, connection)


def packed(rows: Any, buffer: Buffer) -> Iterator[pa.RecordBatch]:
    """Yield what `read` returned as record batches. Raises `TypeError` for anything but rows."""
    if isinstance(rows, pa.RecordBatch):
        rows = [rows]
    if isinstance(rows, str | bytes | Mapping):  # in a loop, its letters or keys would be rows
        raise TypeError(f"expected a list of rows, got a {type(rows).__name__}")
    for row in rows:
        if isinstance(row, pa.RecordBatch):
            buffer.add_batch(row)
        else:
            buffer.add(row)
        yield from buffer.packed()
    yield from buffer.take()[0]


def by_name(splits: Any) -> dict[str, Any]:
    """Return splits by their names. Raises `TypeError`."""
    is_mapping = isinstance(splits, Mapping)
    if not is_mapping or not all(name and isinstance(name, str) for name in splits):
        raise TypeError(f"expected a dict of splits by name, got {shortened(splits)}")
    return dict(splits)


def split_text(split: str) -> str:
    return f"split `{shortened(split)}`"


def shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"
