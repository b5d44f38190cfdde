"""Format `log_rows`: a sink that only logs, to see what a query would write."""

from __future__ import annotations

import sys

import pyarrow as pa

from tutorial_pkg.builder import SinkBuilder, SinkContext, integer


class _Log:
    """What a task reports: its first rows as they come, and their number at the end."""

    def __init__(self, context: SinkContext) -> None:
        self._left = context.options.rows
        self._rows = 0
        self._who = f"log_rows {context.query[:8]}, batch {context.batch}, task {context.index}"

    def receive(self, batch: pa.RecordBatch) -> None:
        self._rows += batch.num_rows
        for row in batch.slice(0, self._left).to_pylist():
            self._say(str(row))
        self._left = max(0, self._left - batch.num_rows)

    def tell(self) -> None:
        self._say(f"{self._rows:,} rows")

    def _say(self, text: str) -> None:
        """What a worker prints goes to Spark's log; in one piece, as tasks beside it print, too."""
        sys.stderr.write(f"{self._who}: {text}\n")


LogRowsSink = (
    SinkBuilder.stream("log_rows", create=_Log)
    .receive_batch(_Log.receive)
    .flush(_Log.tell)
    .option("rows", integer(0), 10, "rows of each batch that each task logs; all are counted")
    .build()
)
