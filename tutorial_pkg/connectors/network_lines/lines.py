"""Plain lines: from pieces of bytes to whole lines in frames.

A line is dropped and counted in two cases only: `too_long` and, if the connection ends before its
newline, `unterminated`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.protocol import HEAD_BYTES, check_lines
from tutorial_pkg.core.lines import count_newlines

SMALL_BYTES = 4096
SMALL_SECONDS = 0.005  # between two frames of a sender that writes single lines


class LineReader:
    """The dialogue with one sender of lines."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._port = connection, connection.port
        self._tail = bytearray()  # the start of an unfinished line
        self._is_first, self._is_skipping = True, False

    def run(self) -> None:
        """Store lines until the client ends its side.

        Raises `RefusedError` for a client that speaks another protocol.
        """
        try:
            for data in self._pieces():
                self._store(self._take(data))
            if self._tail and self._port.options.unterminated == "keep":
                self._store(bytes(self._tail) + b"\n")
                self._port.count(kept_unterminated=1)
                self._tail.clear()
        finally:
            if self._tail:
                self._connection.drop("unterminated")

    def _pieces(self) -> Iterator[bytes]:
        """Yield what arrives; wait a moment for a sender that writes single lines."""
        data, most = bytes(self._connection.inbox), self._port.options.maxLineBytes
        self._connection.inbox.clear()
        yield from (data[start : start + most] for start in range(0, len(data), most))
        while data:
            more = self._connection.receive(waits=False)
            if more is None:
                if len(data) < SMALL_BYTES:
                    time.sleep(SMALL_SECONDS)
                more = self._connection.receive()
            data = more or b""
            yield data

    def _take(self, data: bytes) -> bytes:
        """Return the whole lines that `data` completes; it is no longer than a line may be."""
        if self._is_first and len(self._tail) < HEAD_BYTES:
            check_lines(bytes(self._tail) + data[:HEAD_BYTES])
        first, last = data.find(b"\n"), data.rfind(b"\n")
        size = len(self._tail) + (first if first >= 0 else len(data))
        if size > self._port.options.maxLineBytes and not self._is_skipping:
            self._connection.drop("too_long")
            self._tail, self._is_skipping, self._is_first = bytearray(), True, False
        if first < 0:
            self._tail += b"" if self._is_skipping else data
            return b""
        start = first + 1 if self._is_skipping else 0
        lines = b"".join((self._tail, memoryview(data)[start : last + 1]))
        self._tail, self._is_skipping, self._is_first = bytearray(data[last + 1 :]), False, False
        self._connection.active_at = time.monotonic()
        return lines

    def _store(self, lines: bytes) -> None:
        for part, rows in self._cut(lines) if lines else ():
            self._port.append(self._connection.owner, part, rows)

    def _cut(self, lines: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield one frame if it is within the limits, else its two halves, cut in the same way."""
        rows, size, port = count_newlines(lines), len(lines), self._port
        if rows == 1 or (rows <= port.frame_rows and size <= port.frame_bytes):
            yield lines, rows
            return
        middle = lines.rfind(b"\n", 0, size // 2) + 1 or lines.find(b"\n") + 1
        yield from self._cut(lines[:middle])
        yield from self._cut(lines[middle:])
