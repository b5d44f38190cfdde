"""Plain lines: from pieces of bytes to whole lines in frames.

A line is dropped, and counted by its reason, in two cases only:

- `too_long`: it has more than `maxLineBytes` bytes, whether its newline has arrived or not.
- `unterminated`: the connection ended before the line's newline arrived. With `unterminated=keep`,
  the last line of a sender that closes in good order is kept and counted. The system also closes
  the connection of a killed sender in good order, and nothing tells a whole `amount=10` from the
  start of `amount=1000`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.port_log import Block, PortLog
from tutorial_pkg.connectors.network_lines.protocol import (
    GREETING,
    HEAD_BYTES,
    check_lines,
    is_named,
    named_refusal,
)
from tutorial_pkg.core.lines import count_newlines

SMALL_BYTES = 4096
SMALL_SECONDS = 0.005  # between two frames of a sender that writes single lines


class LineReader:
    """The lines of one connection."""

    def __init__(self, port: PortLog, connection: Connection) -> None:
        self._port, self._connection = port, connection
        self._tail = bytearray()  # the start of an unfinished line
        self._is_fresh, self._is_skipping = True, False
        self._size, self._received_at = 0, 0.0  # of what came last

    def run(self) -> bytes:
        """Store lines until the client ends its side.

        Returns what has arrived of a sender with a name as soon as its greeting is complete.
        Raises `RefusedError` for a client that speaks another protocol.
        """
        try:
            while data := self._receive():
                could_be_greeting = self._is_fresh
                lines = self._take(data)
                if could_be_greeting and lines.startswith(GREETING):
                    rest, self._tail = bytes(self._tail), bytearray()
                    return lines + rest
                self._store(lines)
            self._keep_tail()
        finally:
            if self._tail:
                self._port.drop(self._connection, "unterminated")
        return b""

    def _receive(self) -> bytes:
        """Return what comes next; wait a moment for a sender that writes single lines."""
        data = self._connection.receive(waits=False)
        if data is None:
            is_busy = time.monotonic() - self._received_at < SMALL_SECONDS
            if is_busy and self._size < SMALL_BYTES:
                time.sleep(SMALL_SECONDS)
            data = self._connection.receive() or b""
        self._size, self._received_at = len(data), time.monotonic()
        return data

    def _take(self, data: bytes) -> bytes:
        """Return the whole lines that `data` completes; it is no longer than a line may be."""
        if self._is_fresh and len(self._tail) < HEAD_BYTES:
            head = bytes(self._tail) + data[:HEAD_BYTES]
            if is_named(head):
                self._connection.refusal = named_refusal
            check_lines(head)
        first, last = data.find(b"\n"), data.rfind(b"\n")
        size = len(self._tail) + (first if first >= 0 else len(data))
        if size > self._port.options.maxLineBytes and not self._is_skipping:
            self._port.drop(self._connection, "too_long")
            self._tail, self._is_skipping, self._is_fresh = bytearray(), True, False
        if first < 0:
            self._tail += b"" if self._is_skipping else data
            return b""
        start = first + 1 if self._is_skipping else 0
        lines = b"".join((self._tail, memoryview(data)[start : last + 1]))
        self._tail, self._is_skipping, self._is_fresh = bytearray(data[last + 1 :]), False, False
        self._connection.active_at = time.monotonic()
        return lines

    def _keep_tail(self) -> None:
        is_line = self._tail and not (self._is_fresh and is_named(bytes(self._tail)))
        if is_line and self._port.options.unterminated == "keep":
            self._store(bytes(self._tail) + b"\n")
            self._port.count(kept_unterminated=1)
            self._tail.clear()

    def _store(self, lines: bytes) -> None:
        for part, rows in self._cut(lines) if lines else ():
            self._port.append(Block(part, rows), self._connection)

    def _cut(self, lines: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield one frame if it is within the limits, else its two halves, cut in the same way."""
        rows, size, port = count_newlines(lines), len(lines), self._port
        if rows == 1 or (rows <= port.frame_rows and size <= port.frame_bytes):
            yield lines, rows
            return
        middle = lines.rfind(b"\n", 0, size // 2) + 1 or lines.find(b"\n") + 1
        yield from self._cut(lines[:middle])
        yield from self._cut(lines[middle:])
