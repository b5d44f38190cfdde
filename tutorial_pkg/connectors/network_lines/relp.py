"""RELP, the protocol of rsyslog's `omrelp`, as the receiver sees it.

A frame is `number command length data` and a newline. The sender opens a session, sends `syslog`
frames, and keeps each message until the reply to it, which comes when the message is on disk. Over
its next connection it resends the messages without a reply, even if they are in the log already:
RELP is at least once.

A message of more than `maxLineBytes` is cut and marked: an error code would make rsyslog drop it,
or send it again and again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.port_log import Block, PortLog
from tutorial_pkg.connectors.network_lines.protocol import (
    HEAD_BYTES,
    RefusedError,
    is_named,
    named_refusal,
    not_relp,
)

_HEADER = re.compile(rb"(\d{1,9}) ([A-Za-z]{1,32}) (\d{1,9})([ \n])")
_HEADER_START = re.compile(rb"\d{1,9}(?: (?:[A-Za-z]{1,32}(?: \d{0,9})?)?)?")
_OFFER = b"200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog"
_MOST_COMMAND_BYTES = 4096  # of any command but `syslog`


@dataclass
class _Frame:
    """A frame with the data that is kept; `rest` bytes more are still due."""

    number: int
    command: bytes
    data: bytes
    size: int
    rest: int


class RelpSession:
    """The dialogue with one sender. Raises `RefusedError` for anything that is not RELP."""

    def __init__(self, port: PortLog, connection: Connection) -> None:
        self._port, self._connection = port, connection
        self._inbox = bytearray()
        self._frame: _Frame | None = None
        self._messages: list[bytes] = []
        self._size = 0
        self._replies = b""

    def blocks(self, data: bytes) -> Iterator[Block]:
        """Yield the messages that `data` completes, in blocks for the log, and their replies."""
        self._inbox += data
        refused = None
        try:
            while frame := self._next_frame():
                self._connection.active_at = time.monotonic()
                self._connection.refusal = lambda _: b"0 serverclose 0\n"
                if frame.command == b"syslog" and self._is_full(frame.data):
                    yield self._block()
                self._reply_to(frame)
        except RefusedError as error:
            refused = error
        if self._replies:  # messages before a broken frame are stored
            yield self._block()
        if refused:
            raise refused

    def end(self) -> None:
        """Refuse part of a frame."""
        if self._inbox or self._frame:
            raise RefusedError("relp", "the connection ended in the middle of a frame")

    def _reply_to(self, frame: _Frame) -> None:
        if frame.command == b"close":
            self._replies += b"%d rsp 0\n0 serverclose 0\n" % frame.number
            return
        if frame.command == b"syslog":
            self._messages.append(frame.data)
            self._size += len(frame.data) + 1
        known = {b"syslog": b"200 OK", b"open": _OFFER}
        text = known.get(frame.command, b"500 unknown command")
        self._replies += b"%d rsp %d %s\n" % (frame.number, len(text), text)

    def _next_frame(self) -> _Frame | None:
        """Return the next frame, once all of it has arrived."""
        self._frame = frame = self._frame or self._begin_frame()
        if not frame:
            return None
        skipped = min(frame.rest, len(self._inbox))
        del self._inbox[:skipped]
        frame.rest -= skipped
        if frame.rest or not self._inbox:
            return None
        if self._inbox[0] != ord("\n"):
            raise RefusedError("relp", f"frame {frame.number} does not end with a newline")
        del self._inbox[:1]
        self._frame = None
        if len(frame.data) < frame.size:
            self._port.count(truncated=1)
            frame.data += b" [cut, had %d bytes]" % frame.size
        return frame

    def _begin_frame(self) -> _Frame | None:
        """Take a frame's header and data from the inbox, of a long message only its start."""
        header = _HEADER.match(self._inbox)
        if not header:
            if self._inbox and not _HEADER_START.fullmatch(self._inbox):
                head = bytes(self._inbox[:HEAD_BYTES])
                if is_named(head):
                    self._connection.refusal = named_refusal
                raise not_relp(head)
            return None
        number, command, size = int(header[1]), header[2], int(header[3])
        if size and header[4] == b"\n":
            raise RefusedError("relp", f"frame {number} has no data, and its length is {size}")
        if command != b"syslog" and size > _MOST_COMMAND_BYTES:
            raise RefusedError("relp", f"the command {command.decode()} has {size} bytes")
        kept = min(size, self._port.options.maxLineBytes) if command == b"syslog" else size
        # Without data, the newline is where the blank before the data would be.
        start = header.end() - (header[4] == b"\n")
        if len(self._inbox) < start + kept:
            return None
        data = bytes(self._inbox[start : start + kept])
        del self._inbox[: start + kept]
        return _Frame(number, command, data, size, size - kept)

    def _is_full(self, data: bytes) -> bool:
        """Return whether one more message would be too much for a frame of the log."""
        is_enough = len(self._messages) >= self._port.frame_rows
        too_much = is_enough or self._size + len(data) > self._port.frame_bytes
        return bool(self._messages) and too_much

    def _block(self) -> Block:
        """Return the messages so far, with their lengths if newlines cannot separate them."""
        messages, replies = self._messages, self._replies
        self._messages, self._size, self._replies = [], 0, b""
        lines = b"".join(message + b"\n" for message in messages)
        is_ambiguous = lines.count(b"\n") > len(messages) or b"\r\n" in lines
        lengths = [len(message) for message in messages] if is_ambiguous else None
        return Block(lines, len(messages), replies, lengths=lengths)
