"""The buffer that a `fill` adds rows to."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tutorial_pkg.builder.rows import RowPacker

# Rows are packed into Arrow now and then, so that a long `fill` needs little memory.
_PACK_ROWS = 65_536


class Buffer:
    """Takes the rows of one `fill`."""

    def __init__(self, packer: RowPacker) -> None:
        self._packer = packer
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._tokens: list[Any] = []
        self.closed = False

    def add(self, row: Any, token: Any = None) -> None:
        """Add a row: a tuple, a `Row`, a dict, a dataclass; or the value, if there is one column.

        Values are what the column holds, nothing is guessed: an `int` for LONG or DOUBLE, a `str`
        for STRING, a `datetime` for TIMESTAMP (without a zone it counts as this process's local
        time). Texts are not parsed, and numbers are not taken for times.

        `token` is handed to `acknowledge` when the row is on disk: what the source needs to
        confirm it. Raises `ValueError` for a row that does not fit the schema, perhaps only when
        `fill` has returned.
        """
        self._rows.append(row)
        if token is not None:
            self._tokens.append(token)
        if len(self._rows) >= _PACK_ROWS:
            self._pack()

    def add_batch(self, batch: pa.RecordBatch, token: Any = None) -> None:
        """Add all rows of a `pyarrow.RecordBatch`: many times as fast as row by row.

        Raises `ValueError` for one that does not fit the schema.
        """
        self._pack()
        fitting = self._packer.fit(batch)
        if fitting.num_rows:
            self._batches.append(fitting)
        if token is not None:
            self._tokens.append(token)

    def close(self) -> None:
        """The source has ended: `fill` is not called again."""
        self.closed = True

    def take(self) -> tuple[list[pa.RecordBatch], list[Any]]:
        """What was added since the last time: rows and tokens. Raises `ValueError`."""
        self._pack()
        tokens, self._tokens = self._tokens, []
        return self.packed(), tokens

    def packed(self) -> list[pa.RecordBatch]:
        """Those of the rows that are in record batches already, since the last time."""
        batches, self._batches = self._batches, []
        return batches

    def _pack(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._batches.append(self._packer.pack(rows))
