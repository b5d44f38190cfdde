"""Whole lines out of pieces of bytes: what is a line, which are dropped, and what a frame holds.

A line is dropped, and counted by its reason, in two cases only:

- `too_long`: it has more than `maxLineBytes` bytes, whether its newline has come or not.
- `unterminated`: no newline has ended it when the connection ended, in whatever way. With
  `unterminated=keep`, what a sender leaves when it closes in good order is a line instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutorial_pkg.connectors.network_lines.notes import FORGET_SECONDS
from tutorial_pkg.core.lines import count_newlines

if TYPE_CHECKING:
    from tutorial_pkg.connectors.network_lines.connection import Connection
    from tutorial_pkg.connectors.network_lines.status import PortStatus

FRAME_BYTES = 1024 * 1024
RECEIVE_BYTES = 256 * 1024
UNLIMITED = 2**31
GREETING = b"\0network_lines "  # begins the first line of a sender that has a name

_NEWLINE = b"\n"


@dataclass(frozen=True)
class PortLimits:
    """What one port accepts; a frame has at most `frame_rows` rows, `frame_bytes` bytes."""

    line_bytes: int
    connections: int
    idle_seconds: float
    frame_rows: int = UNLIMITED
    frame_bytes: int = UNLIMITED
    keep_unterminated: bool = False
    forget_seconds: float = FORGET_SECONDS
    relp: bool = False


class LineBuffer:
    """Whole lines of several connections, side by side, on their way into frames."""

    def __init__(self, limits: PortLimits, status: PortStatus) -> None:
        self._limits = limits
        self._status = status
        # No more than a line at once: so only the first of the lines received can be too long.
        self._chunk = min(RECEIVE_BYTES, limits.line_bytes)
        self._bytes = bytearray(FRAME_BYTES + limits.line_bytes + self._chunk)
        self._view = memoryview(self._bytes)
        self._first_at = 0.0
        self.filled = 0

    def age(self) -> float:
        """Seconds since the oldest line in the buffer came."""
        return time.monotonic() - self._first_at if self.filled else 0.0

    def receive(self, connection: Connection) -> int:
        """Read `connection` once; the number of bytes, 0 at its end. Raises `OSError`."""
        start = self.filled + len(connection.tail)  # the tail's place, should the line end here
        count = connection.socket.recv_into(self._view[start : start + self._chunk])
        end = start + count
        last_newline = self._bytes.rfind(_NEWLINE, start, end)
        if last_newline < 0:
            self._keep(connection, self._view[start:end])
        else:
            self._take_lines(connection, start, last_newline + 1)
            connection.tail = bytearray(self._view[last_newline + 1 : end])
        return count

    def end(self, connection: Connection) -> None:
        """A sender closed in good order, perhaps behind the beginning of a line.

        So does the system for a sender that was killed: nothing tells `amount=10` of a whole line
        from that of `amount=1000`.
        """
        keeps = self._limits.keep_unterminated and not _begins_to_greet(connection)
        if connection.tail and keeps:
            self._status.kept_unterminated += 1
            self._add(connection.tail + _NEWLINE)
            connection.tail = bytearray()
        self.give_up(connection)

    def give_up(self, connection: Connection) -> None:
        """No more comes: the beginning of a line that is left is dropped."""
        if connection.tail:
            self._drop(connection, "unterminated")
            connection.tail = bytearray()

    def frames(self) -> Iterator[tuple[memoryview, int]]:
        """The buffer's lines, with their number, in as few frames as the limits allow."""
        return self._cut(0, self.filled) if self.filled else iter(())

    def _keep(self, connection: Connection, data: memoryview) -> None:
        """No newline: the line goes on, unless it is too long already."""
        if connection.skipping:
            return
        connection.tail += data
        if len(connection.tail) > self._limits.line_bytes:
            self._drop(connection, "too_long")
            connection.tail, connection.skipping = bytearray(), True

    def _take_lines(self, connection: Connection, start: int, end: int) -> None:
        """Put the tail before the lines received behind it, or drop both if that is too long."""
        connection.last_line = time.monotonic()
        first_newline = self._bytes.find(_NEWLINE, start, end)
        too_long = first_newline - self.filled > self._limits.line_bytes
        if too_long or connection.skipping:
            if not connection.skipping:  # it is counted when it began to be skipped
                self._drop(connection, "too_long")
            connection.skipping = connection.fresh = False
            self._add(self._view[first_newline + 1 : end])
        else:
            self._view[self.filled : start] = connection.tail
            if not (connection.fresh and self._greets(connection, first_newline, end)):
                self._fill(end)

    def _greets(self, connection: Connection, first_newline: int, end: int) -> bool:
        """Whether a connection's first line is a greeting: then it is no line for the log."""
        connection.fresh = False
        if not self._bytes.startswith(GREETING, self.filled, first_newline):
            return False
        connection.greeting = bytes(self._view[self.filled : end])
        return True

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
        """One frame if it is within the limits; else two halves, cut again if need be."""
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


def _begins_to_greet(connection: Connection) -> bool:
    """Whether half of a first line is half of a greeting, whose sender was killed meanwhile."""
    tail = bytes(connection.tail[: len(GREETING)])
    return connection.fresh and GREETING.startswith(tail)
