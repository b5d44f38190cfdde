"""Plain lines: what a client sends becomes whole lines in frames."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.protocol import HEAD_BYTES, check_lines

SMALL_BYTES = 4096
SMALL_SECONDS = 0.005  # between two frames of a sender that writes single lines


def serve_lines(connection: Connection) -> None:
    """Store lines until the client ends its side.

    Raises `RefusedError` for a client that speaks another protocol.
    """
    port, unfinished = connection.port, connection.inbox
    is_first, is_skipping, is_small, searched, is_open = True, False, False, 0, True
    try:
        while is_open:
            if is_first and searched < HEAD_BYTES:
                check_lines(bytes(unfinished[:HEAD_BYTES]))
            end = unfinished.find(b"\n", searched)
            # `fill` adds no more than a line may have, so only the first line can be too long.
            size = end if end >= 0 else len(unfinished)
            if size > port.options.maxLineBytes and not is_skipping:
                connection.drop("too_long")
                is_skipping = True
            if is_skipping:
                del unfinished[: size + 1]
                is_skipping = end < 0
            if end >= 0:
                is_first, connection.active_at = False, time.monotonic()
                lines = connection.read(unfinished.rfind(b"\n") + 1)
                _store(connection, lines)
                is_small = len(lines) < SMALL_BYTES
            searched = len(unfinished)
            is_open = connection.fill()
            if is_open and is_small:
                time.sleep(max(0.0, connection.active_at + SMALL_SECONDS - time.monotonic()))
        if unfinished and port.options.unterminated == "keep":
            _store(connection, bytes(unfinished) + b"\n")
            port.count(kept_unterminated=1)
            unfinished.clear()
    finally:
        if unfinished:
            connection.drop("unterminated")


def _store(connection: Connection, lines: bytes) -> None:
    for part, rows in _cut(lines, connection.port.frame_rows, connection.port.frame_bytes):
        connection.port.append(connection.client, part, rows)


def _cut(lines: bytes, most_rows: int, most_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Yield one frame if it is within the limits, else its two halves, cut in the same way."""
    rows = lines.count(b"\n")
    if rows == 1 or (rows <= most_rows and len(lines) <= most_bytes):
        yield lines, rows
    elif rows:
        middle = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n") + 1
        yield from _cut(lines[:middle], most_rows, most_bytes)
        yield from _cut(lines[middle:], most_rows, most_bytes)
