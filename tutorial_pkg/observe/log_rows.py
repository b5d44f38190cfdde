"""Format `log_rows`: a sink that only logs, to see what a query would write."""

from __future__ import annotations

import sys

import pyarrow as pa

from tutorial_pkg.builder import SinkBuilder, SinkContext, integer


class _Log:
    """Logs a task's first rows as they come, and their number at the end."""

    def __init__(self, context: SinkContext) -> None:
        self._remaining = context.options.rows
        self._rows = 0
        self._task = f"log_rows {context.query[:8]}, batch {context.batch}, task {context.index}"

    def receive(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        for row in batch.slice(0, self._remaining).to_pylist():
            # In one piece, since other tasks write to Spark's log, too.
            sys.stderr.write(f"{self._task}: {row}\n")
        self._remaining = max(0, self._remaining - batch.num_rows)

    def report(self) -> None:
        sys.stderr.write(f"{self._task}: {self._rows:,} rows\n")


LogRowsSink = (
    SinkBuilder.stream("log_rows", create=_Log)
    .receive_batch(_Log.receive)
    .flush(_Log.report)
    .option("rows", integer(0), 10, "rows that each task logs per batch; all are counted")
    .build()
)
