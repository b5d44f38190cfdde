"""Each wrong line here must be refused by a type checker; see `test_types`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from tutorial_pkg.builder import (
    BatchContext,
    Buffer,
    SinkBuilder,
    SinkContext,
    SourceBuilder,
    SourceContext,
    SplitContext,
    TargetContext,
)


class Counter:
    def __init__(self, context: SourceContext) -> None:
        self.next = context.index

    def fill(self, buffer: Buffer) -> None:
        buffer.add(self.next)

    def go_to(self, snapshots: list[int]) -> None:
        self.next = max(snapshots)

    def close(self) -> None:
        pass


class Other(Counter):
    def other(self, buffer: Buffer) -> None:
        pass


class Table:
    def __init__(self, context: SinkContext) -> None:
        self.rows: list[Any] = []

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()

    def flush(self) -> int:
        return len(self.rows)


# ---- Sources -------------------------------------------------------------------------------------

stream = SourceBuilder.stream("counter", "n LONG", create=Counter).fill(Counter.fill)
stream.snapshot(lambda counter: counter.next).restore(Counter.go_to).destroy(Counter.close)
stream.acknowledge(lambda counter, tokens: tokens.sort())
stream.distributed(2).build()

stream.fill(Other.other)  # type: ignore[arg-type]
stream.fill(Table.add)  # type: ignore[arg-type]
stream.snapshot(lambda counter: counter.last)  # type: ignore[attr-defined]
stream.restore(Table.add)  # type: ignore[arg-type]
stream.acknowledge(Counter.close)  # type: ignore[arg-type]
stream.destroy(Table.flush)  # type: ignore[arg-type]
SourceBuilder.stream("counter", "n LONG", create=Table)  # type: ignore[arg-type]

batch = SourceBuilder.batch("counter", lambda options: "n LONG", create=Counter)
batch.fill(Counter.fill).build()
batch.fill(Table.flush)  # type: ignore[arg-type]
SourceBuilder.batch("counter", lambda options: 7, create=Counter)  # type: ignore[arg-type, return-value]


def look(context: SplitContext) -> dict[str, tuple[int, int]]:
    return {context.options.table: (0, 9)}


def bound(context: SplitContext, split: str, start: int, end: int, rows: int | None) -> int:
    return start


def read(context: SplitContext, split: str, start: int, end: int) -> list[int]:
    return list(range(start, end))


pages = SourceBuilder.replayable("pages", "n LONG", look=look, read=read)
pages.commit(lambda context, positions: context.connection.done(positions)).build()
pages.commit(read)  # type: ignore[arg-type]
pages.bound(read)  # type: ignore[arg-type]
pages.bound(bound)

# ---- Sinks ---------------------------------------------------------------------------------------

sink = SinkBuilder.stream("table", create=Table).receive(Table.add).flush(Table.flush)
sink.receive_batch(Table.add_batch).destroy(lambda table: table.rows.clear())


def commit(context: BatchContext, handles: list[int]) -> None:
    pass


def check(context: TargetContext) -> None:
    pass


sink.commit(commit).check(check).also_batch().build()

sink.receive(Counter.fill)  # type: ignore[arg-type]
sink.receive_batch(Table.flush)  # type: ignore[arg-type]
sink.flush(Counter.close)  # type: ignore[arg-type]
sink.destroy(lambda table: table.close())  # type: ignore[attr-defined]
sink.commit(check)  # type: ignore[arg-type]
sink.check(commit)  # type: ignore[arg-type]
SinkBuilder.stream("table", create=Counter)  # type: ignore[arg-type]
