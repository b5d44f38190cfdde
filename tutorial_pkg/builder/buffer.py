"""The buffer that a `fill` adds rows to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tutorial_pkg.builder.rows import RowPacker

_PACK_ROWS = 65_536  # so that a long `fill` needs little memory
_IMMUTABLE = (tuple, str, int, float, bytes)  # other rows may change before they are packed


class Buffer:
    """Takes the rows of one `fill`."""

    def __init__(self, packer: RowPacker) -> None:
        self._packer = packer
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._tokens: list[Any] = []
        self._error: Exception | None = None
        self.closed = False
        self._keeps_place = False

    def add(self, row: Any, token: Any = None) -> None:
        """Add a row: a tuple, a `Row`, a dict, a dataclass; with one column also its value.

        Values with names are matched to columns by name, those of a named tuple only if one of its
        names is a column's. With a single column, None adds a null. A dict is always a row, so put
        a map that is the only column into a tuple. You may reuse a dict for the next row, but don't
        change lists, dicts and bytearrays inside a row until `fill` has returned.

        Values must have the column's type: an `int` for LONG or DOUBLE, a `str` for STRING, a
        `datetime` for TIMESTAMP (without a time zone, in this process's local time). Nothing is
        parsed, guessed or cut, but for the nanoseconds of pandas' timestamps.

        Call it in the thread of `fill` only. A callback of a client should put its messages into a
        `queue.Queue`, which `fill` empties.

        Args:
            token: What your source needs to confirm the row. `acknowledge` gets it when the row is
                on disk.

        Raises:
            ValueError: A row does not fit the schema. The error may come some rows later, or after
                `fill`, so that row cannot be skipped: check doubtful values before you add them.
        """
        if self._error:
            self._raise_error()
        if type(row) not in _IMMUTABLE:
            with self._remembering():
                row = self._packer.values(row)
        self._rows.append(row)
        if token is not None:
            self._tokens.append(token)
        if len(self._rows) >= _PACK_ROWS:
            self._pack()

    def add_batch(self, batch: pa.RecordBatch, token: Any = None) -> None:
        """Add all rows of a `pyarrow.RecordBatch`: many times faster than row by row.

        Columns may have another width than the schema's (int32 for LONG), but not another type. A
        TIMESTAMP column needs times with a zone (`pyarrow.compute.assume_timezone` adds one), a
        TIMESTAMP_NTZ column times without.

        Raises:
            ValueError: The batch does not fit the schema. It cannot be skipped either.
        """
        self._pack()
        with self._remembering():
            batch = self._packer.fit(batch)
        if batch.num_rows:
            self._batches.append(batch)
        if token is not None:
            self._tokens.append(token)

    def close(self) -> None:
        """End the source: `fill` is not called again until the query is restarted.

        A stream without a `snapshot` then starts over, and its rows are duplicated.
        """
        self.closed = True

    def keep_place(self) -> None:
        """Log the snapshot even if this `fill` adds no row.

        Use it for a position that could not be found again after a restart, such as the start of a
        partition that has no rows yet.
        """
        self._keeps_place = True

    def check_returned(self, returned: Any) -> None:
        """Raise `TypeError` if a `fill` returned its rows instead of adding them."""
        are_rows = isinstance(returned, pa.RecordBatch) or hasattr(returned, "columns")
        if isinstance(returned, list):  # not the Nones of `[buffer.add(row) for row in rows]`
            are_rows = any(item is not None for item in returned)
        if are_rows and not self.rows:
            kind = type(returned).__name__
            raise TypeError(f"it returned a {kind} and added no row; use `buffer.add(row)`")

    @property
    def rows(self) -> int:
        """The number of rows since the last `take`."""
        return int(len(self._rows) + sum(batch.num_rows for batch in self._batches))

    def take(self) -> tuple[list[pa.RecordBatch], list[Any]]:
        """Return the new rows and tokens. Raise `ValueError` for a row that does not fit."""
        self._pack()
        tokens, self._tokens = self._tokens, []
        return self.packed(), tokens

    def place(self) -> list[pa.RecordBatch]:
        """Return an empty record batch if `keep_place` was called since the last time."""
        keeps_place, self._keeps_place = self._keeps_place, False
        return [pa.RecordBatch.from_pylist([], self._packer.arrow_schema)] if keeps_place else []

    def packed(self) -> list[pa.RecordBatch]:
        """Return the new rows that are already packed into record batches."""
        batches, self._batches = self._batches, []
        return batches

    def _pack(self) -> None:
        self._raise_error()
        rows, self._rows = self._rows, []
        if rows:
            with self._remembering():
                self._batches.append(self._packer.pack(rows))

    @contextmanager
    def _remembering(self) -> Iterator[None]:
        """Remember an error: a `fill` that catches it would lose the rows packed with it."""
        try:
            yield
        except Exception as error:
            self._error = error
            raise

    def _raise_error(self) -> None:
        if self._error:
            raise self._error.with_traceback(None)  # the traceback would grow each time
