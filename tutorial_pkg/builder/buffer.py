"""The buffer that a `fill` adds rows to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tutorial_pkg.builder.rows import RowPacker

# Rows are packed into Arrow now and then, so that a long `fill` needs little memory.
_PACK_ROWS = 65_536
_LASTING = (tuple, str, int, float, bytes)  # others may be another row when they are packed


class Buffer:
    """Takes the rows of one `fill`."""

    def __init__(self, packer: RowPacker) -> None:
        self._packer = packer
        self._rows: list[Any] = []
        self._batches: list[pa.RecordBatch] = []
        self._tokens: list[Any] = []
        self._wrong: Exception | None = None
        self.closed = False
        self.keeps_place = False

    def add(self, row: Any, token: Any = None) -> None:
        """Add a row: a tuple, a `Row`, a dict, a dataclass; or the value, if there is one column.

        Values that have names are matched to columns by name. So are those of a named tuple, if any
        of its names is a column's; otherwise they are taken in order, as those of a plain tuple. A
        `Row` with two equal names, as after a join, is an error. With one column None is a null, so
        add what a client has returned only if it has returned something. A dict is always a row: a
        map that is the only column stands in a tuple. A dict may be used again for the next row;
        lists, dicts and bytearrays in a row must stay as they are until `fill` returns, and so must
        the memory of a record batch.

        Values must be what the column holds; nothing is guessed: an `int` for LONG or DOUBLE, a
        `str` for STRING, a `datetime` for TIMESTAMP (without a zone it counts as this process's
        local time). Texts are not parsed, numbers are not taken for times, bytes not for texts.
        Nothing is cut: no `datetime` in a DATE, no zone in a TIMESTAMP_NTZ, no 1e300 in a FLOAT.

        Call it only in `fill`, in its thread: a callback that runs in a client's own thread should
        put what it gets into a `queue.Queue`, which `fill` empties.

        `token` is what the source needs to confirm the row; `acknowledge` gets it when the row is
        on disk. Raises `ValueError` for a row that does not fit the schema, perhaps some rows
        later, or when `fill` has returned. So that row cannot be skipped, and a `fill` that catches
        the error ends the query all the same. Check what may be wrong before you add it.
        """
        if self._wrong:
            self._raise_again()
        if type(row) not in _LASTING:
            with self._remembered():
                row = self._packer.values(row)
        self._rows.append(row)
        if token is not None:
            self._tokens.append(token)
        if len(self._rows) >= _PACK_ROWS:
            self._pack()

    def add_batch(self, batch: pa.RecordBatch, token: Any = None) -> None:
        """Add all rows of a `pyarrow.RecordBatch`: many times as fast as row by row.

        Its columns may be of other widths than the schema's (int32 for LONG), not of other kinds:
        texts are not parsed, and numbers are not taken for times. A TIMESTAMP column needs times
        with a zone: `pyarrow.compute.assume_timezone` gives them one; TIMESTAMP_NTZ needs none.

        Raises `ValueError` for a batch that does not fit the schema; it cannot be skipped either.
        """
        self._pack()
        with self._remembered():
            fitting = self._packer.fit(batch)
        if fitting.num_rows:
            self._batches.append(fitting)
        if token is not None:
            self._tokens.append(token)

    def close(self) -> None:
        """The source has ended: `fill` is not called again, until the query is started again.

        Then a stream without a `snapshot` begins anew, and what it adds comes once more.
        """
        self.closed = True

    def keep_place(self) -> None:
        """Have the snapshot written down, even if this `fill` adds no row.

        For a place that nobody could find again after a restart: where a source begins, say, that
        has just appeared and has no rows yet.
        """
        self.keeps_place = True

    def check_returned(self, returned: Any) -> None:
        """Rows that a `fill` returns, and has not added, would be nowhere. Raises `TypeError`."""
        are_rows = isinstance(returned, pa.RecordBatch) or hasattr(returned, "columns")
        if isinstance(returned, list):  # of Nones, as `[buffer.add(row) for row in found]`
            are_rows = any(each is not None for each in returned)
        if are_rows and not self.rows:
            kind = type(returned).__name__
            raise TypeError(f"it returned a {kind}, and added no row: say `buffer.add(row)`")

    @property
    def rows(self) -> int:
        """How many were added since the last `take`."""
        return int(len(self._rows) + sum(batch.num_rows for batch in self._batches))

    def take(self) -> tuple[list[pa.RecordBatch], list[Any]]:
        """What was added since the last time: rows and tokens. Raises `ValueError`."""
        self._pack()
        tokens, self._tokens = self._tokens, []
        return self.packed(), tokens

    def place(self) -> list[pa.RecordBatch]:
        """A record batch without rows, if the place is to be kept since the last time."""
        kept, self.keeps_place = self.keeps_place, False
        return [pa.RecordBatch.from_pylist([], self._packer.arrow_schema)] if kept else []

    def packed(self) -> list[pa.RecordBatch]:
        """Those of the rows that are in record batches already, since the last time."""
        batches, self._batches = self._batches, []
        return batches

    def _pack(self) -> None:
        if self._wrong:
            self._raise_again()
        rows, self._rows = self._rows, []
        if rows:
            with self._remembered():
                self._batches.append(self._packer.pack(rows))

    @contextmanager
    def _remembered(self) -> Iterator[None]:
        """A wrong row stands among good ones: a `fill` that caught its error would lose them."""
        try:
            yield
        except Exception as error:
            self._wrong = error
            raise

    def _raise_again(self) -> None:
        assert self._wrong is not None
        raise self._wrong.with_traceback(None)  # else each time makes it longer
