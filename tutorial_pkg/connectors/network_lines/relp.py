"""RELP, the protocol of rsyslog's `omrelp`, as the receiver sees it.

A frame is `number command length data`, ended by a newline. The sender opens a session, sends
`syslog` frames, and keeps each message until it is answered; here it is answered when the message
is on disk. It resends over its next connection what was not answered, even if that is in the log
already: RELP is at least once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import Block, Connection, RefusedError
from tutorial_pkg.connectors.network_lines.names import Names
from tutorial_pkg.connectors.network_lines.notes import about, with_note
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.connectors.network_lines.whole_lines import PortLimits
from tutorial_pkg.durable_log.segments import SegmentWriter

_HEADER = re.compile(rb"(\d{1,9}) ([A-Za-z]{1,32}) (\d{1,9})([ \n])")
_MOST_HEADER_BYTES = 64
_OFFER = b"200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog"


class RelpDialogue:
    """One session of a sender. Raises `RefusedError` for anything that is not RELP."""

    def __init__(
        self,
        connection: Connection,
        names: Names,
        log: SegmentWriter,
        limits: PortLimits,
        status: PortStatus,
    ) -> None:
        self._connection, self._names, self._log = connection, names, log
        self._limits, self._status = limits, status
        self._inbox = bytearray()
        self._skipping: tuple[int, int] | None = None  # its number, bytes that are still to come
        self._messages: list[bytes] = []
        self._size = 0
        self._answers = b""

    def take(self, data: memoryview) -> Iterator[Block]:
        self._inbox += data
        while frame := self._frame():
            self._connection.last_line = time.monotonic()
            if self._is_full(frame[2]):
                yield self._block()
            self._answer(*frame)
        if self._answers:
            yield self._block()

    def append(self, block: Block) -> None:
        if block.rows:
            note = about(self._connection.client, self._names.all_for(self._log), **block.note)
            self._log.append(with_note(block.lines, note), block.rows, time.time_ns() // 1000)

    def refusal(self, why: RefusedError) -> bytes:
        return b"0 serverclose 0\n"

    def close(self) -> None:
        """Nothing is kept for a session that is gone."""

    def _answer(self, number: int, command: bytes, data: bytes | None) -> None:
        if command == b"syslog":
            if data is None:
                self._status.dropped["too_long"] += 1
            else:
                self._messages.append(data)
                self._size += len(data) + 1
            self._answers += b"%d rsp 6 200 OK\n" % number
        elif command == b"open":
            self._answers += b"%d rsp %d %s\n" % (number, len(_OFFER), _OFFER)
        elif command == b"close":
            self._answers += b"%d rsp 0\n0 serverclose 0\n" % number
        else:
            text = b"500 unknown command"
            self._answers += b"%d rsp %d %s\n" % (number, len(text), text)

    def _frame(self) -> tuple[int, bytes, bytes | None] | None:
        """The next whole frame: its number, command and data, None for a message too long."""
        if self._skipping is None:
            header = _HEADER.match(self._inbox)
            if not header:
                if len(self._inbox) > _MOST_HEADER_BYTES:
                    raise RefusedError("relp", f"not RELP: {bytes(self._inbox[:40])!r}")
                return None
            number, command, start = int(header[1]), header[2], header.end()
            # Without data, the newline is where the blank before the data would be.
            end = start if header[4] == b"\n" else start + int(header[3]) + 1
            if end - start <= self._limits.line_bytes + 1:
                return self._whole(number, command, start, end)
            self._skipping = number, end
        return self._skip()

    def _whole(
        self, number: int, command: bytes, start: int, end: int
    ) -> tuple[int, bytes, bytes | None] | None:
        if len(self._inbox) < end:
            return None
        data = bytes(self._inbox[start : max(start, end - 1)])
        del self._inbox[:end]
        return number, command, data

    def _skip(self) -> tuple[int, bytes, bytes | None] | None:
        """A message that is too long passes by as it comes: it needs no memory."""
        assert self._skipping
        number, left = self._skipping
        passed = min(left, len(self._inbox))
        del self._inbox[:passed]
        self._skipping = (number, left - passed) if passed < left else None
        return (number, b"syslog", None) if self._skipping is None else None

    def _is_full(self, data: bytes | None) -> bool:
        """Whether one more message would be too much for a frame of the log."""
        rows, size = len(self._messages) + 1, self._size + len(data or b"")
        too_much = rows > self._limits.frame_rows or size > self._limits.frame_bytes
        return bool(self._messages) and too_much

    def _block(self) -> Block:
        """The messages so far; those that hold newlines need their lengths to be told apart."""
        messages, answers = self._messages, self._answers
        self._messages, self._size, self._answers = [], 0, b""
        lines = b"".join(message + b"\n" for message in messages)
        note: Mapping[str, Any] = {}
        if lines.count(b"\n") > len(messages) or b"\r\n" in lines:
            note = {"lengths": [len(message) for message in messages]}
        return Block(lines, len(messages), answers, note=note)
