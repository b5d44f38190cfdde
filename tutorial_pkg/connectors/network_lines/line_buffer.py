"""From pieces of bytes to whole lines, of several connections side by side.

A plain line is dropped, and counted by its reason, in two cases only:

- `too_long`: it has more than `maxLineBytes` bytes, whether its newline has arrived or not.
- `unterminated`: the connection ended before the line's newline arrived. With `unterminated=keep`,
  the last line of a sender that closes in good order is kept and counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.first_bytes import HEAD_BYTES, check_lines, is_named
from tutorial_pkg.connectors.network_lines.payload import FORGET_SECONDS
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.connectors.network_lines.wire import GREETING
from tutorial_pkg.core.lines import count_newlines

FRAME_BYTES = 1024 * 1024
RECEIVE_BYTES = 256 * 1024
UNLIMITED = 2**31

_NEWLINE = b"\n"


@dataclass(frozen=True)
class PortLimits:
    """What one port accepts, from its options."""

    line_bytes: int
    connections: int
    idle_seconds: float
    frame_rows: int = UNLIMITED
    frame_bytes: int = UNLIMITED
    keep_unterminated: bool = False
    forget_seconds: float = FORGET_SECONDS
    certified_names: bool = True
    relp: bool = False


class LineBuffer:
    """The lines that a port has received and not yet written.

    Connections read straight into it. `filled` bytes at its start are whole lines. The next bytes
    that arrive go behind them, leaving room for the start of their line (the connection's tail).
    """

    def __init__(self, limits: PortLimits, status: PortStatus) -> None:
        self._limits, self._status = limits, status
        # Reading no more than a line at once means that only the first line can be too long.
        self._chunk = min(RECEIVE_BYTES, limits.line_bytes)
        self._bytes = bytearray(FRAME_BYTES + limits.line_bytes + self._chunk)
        self._view = memoryview(self._bytes)
        self._first_at = 0.0
        self.filled = 0

    def age(self) -> float:
        """Return for how many seconds the oldest line has been waiting."""
        return time.monotonic() - self._first_at if self.filled else 0.0

    def room(self, connection: Connection) -> memoryview:
        """Return where to put the next bytes of a connection."""
        start = self.filled + len(connection.tail)
        return self._view[start : start + self._chunk]

    def take(self, connection: Connection, count: int) -> bytes:
        """Take the lines among `count` bytes in the connection's room.

        Returns what has arrived of a sender that begins with a greeting, once its line is complete.
        Raises `RefusedError` for a client that speaks another protocol.
        """
        start = self.filled + len(connection.tail)
        end = start + count
        if connection.fresh and len(connection.tail) < HEAD_BYTES:
            head = bytes(connection.tail) + bytes(self._view[start : min(end, start + HEAD_BYTES)])
            connection.named = is_named(head)
            check_lines(head)
        last_newline = self._bytes.rfind(_NEWLINE, start, end)
        if last_newline < 0:
            self._keep_tail(connection, self._view[start:end])
            return b""
        greeting = self._take_lines(connection, start, last_newline + 1)
        rest = bytearray(self._view[last_newline + 1 : end])
        connection.tail = bytearray() if greeting else rest
        return greeting + rest if greeting else b""

    def end(self, connection: Connection) -> None:
        """Take the last line of a connection that was closed in good order.

        The system also closes the connection of a killed sender in good order, and nothing tells
        a whole `amount=10` from the start of `amount=1000`. So it is dropped by default.
        """
        if connection.tail and self._limits.keep_unterminated and not connection.named:
            self._status.kept_unterminated += 1
            self._add(connection.tail + _NEWLINE)
            connection.tail = bytearray()
        self.drop_tail(connection)

    def drop_tail(self, connection: Connection) -> None:
        """Drop an unfinished line, after the last byte of its connection."""
        if connection.tail:
            self._drop(connection, "unterminated")
            connection.tail = bytearray()

    def frames(self) -> Iterator[tuple[memoryview, int]]:
        """Return the lines, with their number, in as few frames as the limits allow."""
        return self._cut(0, self.filled) if self.filled else iter(())

    def _keep_tail(self, connection: Connection, data: memoryview) -> None:
        if connection.skipping:
            return
        connection.tail += data
        if len(connection.tail) > self._limits.line_bytes:
            self._drop(connection, "too_long")
            connection.tail, connection.skipping, connection.fresh = bytearray(), True, False

    def _take_lines(self, connection: Connection, start: int, end: int) -> bytes:
        """Put the tail before the lines received behind it, or drop both if that is too long."""
        connection.active_at = time.monotonic()
        fresh, connection.fresh = connection.fresh, False
        first_newline = self._bytes.find(_NEWLINE, start, end)
        too_long = first_newline - self.filled > self._limits.line_bytes
        if too_long or connection.skipping:
            if not connection.skipping:  # else it was counted when skipping began
                self._drop(connection, "too_long")
            connection.skipping = False
            self._add(self._view[first_newline + 1 : end])
            return b""
        self._view[self.filled : start] = connection.tail
        if fresh and self._bytes.startswith(GREETING, self.filled, first_newline):
            return bytes(self._view[self.filled : end])
        self._fill(end)
        return b""

    def _drop(self, connection: Connection, reason: str) -> None:
        self._status.dropped[reason] += 1
        connection.dropped[reason] += 1

    def _add(self, lines: bytearray | memoryview) -> None:
        end = self.filled + len(lines)
        self._view[self.filled : end] = lines
        self._fill(end)

    def _fill(self, end: int) -> None:
        if not self.filled:
            self._first_at = time.monotonic()
        self.filled = end

    def _cut(self, start: int, end: int) -> Iterator[tuple[memoryview, int]]:
        """Yield one frame if it is within the limits, else its two halves, cut in the same way."""
        rows = count_newlines(self._view[start:end])
        fits = rows <= self._limits.frame_rows and end - start <= self._limits.frame_bytes
        if fits or rows == 1:
            yield self._view[start:end], rows
            return
        middle = self._bytes.rfind(_NEWLINE, start, (start + end) // 2) + 1
        if middle == 0:
            middle = self._bytes.find(_NEWLINE, start, end) + 1
        yield from self._cut(start, middle)
        yield from self._cut(middle, end)
