"""RELP, the protocol of rsyslog's `omrelp`, as the receiver sees it.

A frame is `number command length data` and a newline. docs/formats/network_lines.md has the rest.
"""

from __future__ import annotations

import re
import time

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.protocol import HEAD_BYTES, RefusedError, not_relp

_HEADER = re.compile(rb"(\d{1,9}) ([A-Za-z]{1,32}) (\d{1,9})([ \n])")
_HEADER_START = re.compile(rb"\d{1,9}(?: (?:[A-Za-z]{1,32}(?: \d{0,9})?)?)?")
_OFFER = b"200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog"
_REPLIES = {b"syslog": b"200 OK", b"open": _OFFER}
_MOST_COMMAND_BYTES = 4096  # of any command but `syslog`
_SKIPPED_AT_ONCE = 64 * 1024
_STORED_BYTES = 256 * 1024  # of one frame, unless a message is longer


class RelpSession:
    """The dialogue with one sender."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._port = connection, connection.port
        self._messages: list[bytes] = []  # complete, not in the log yet
        self._size, self._replies = 0, b""
        self._most_bytes = min(_STORED_BYTES, self._port.frame_bytes)

    def run(self) -> None:
        """Store messages until the client ends its side.

        Raises `RefusedError` for anything that is not RELP; messages before it are stored.
        """
        try:
            while header := self._next_header():
                self._reply_to(int(header[1]), header[2], self._data(header))
        except EOFError:
            raise _refused("the connection ended in the middle of a frame") from None
        finally:
            self._store()

    def _next_header(self) -> re.Match[bytes] | None:
        """Return the next frame's header, which stays in the inbox, or None at a good end."""
        connection = self._connection
        while not (header := _HEADER.match(connection.inbox)):
            if connection.inbox and not _HEADER_START.fullmatch(connection.inbox):
                raise not_relp(bytes(connection.inbox[:HEAD_BYTES]))
            self._store()
            if not connection.fill():
                if connection.inbox:
                    raise EOFError
                return None
        return header

    def _data(self, header: re.Match[bytes]) -> bytes:
        """Return the frame's data, of a long message the start and a mark."""
        number, command, size = header[1].decode(), header[2], int(header[3])
        if size and header[4] == b"\n":
            raise _refused(f"frame {number} has no data, and its length is {size}")
        if command != b"syslog" and size > _MOST_COMMAND_BYTES:
            raise _refused(f"the command {command.decode()} has {size} bytes")
        # Without data, the newline is where the blank before the data would be.
        self._connection.read(header.end() - (header[4] == b"\n"))
        data = self._connection.read(min(size, self._port.options.maxLineBytes))
        rest = size - len(data)
        if rest and command == b"syslog":
            data += b" [cut, had %d bytes]" % size
            self._port.count(truncated=1)
        while rest:
            rest -= len(self._connection.read(min(rest, _SKIPPED_AT_ONCE)))
        if self._connection.read(1) != b"\n":
            raise _refused(f"frame {number} does not end with a newline")
        self._connection.active_at = time.monotonic()
        return data

    def _reply_to(self, number: int, command: bytes, data: bytes) -> None:
        if command == b"close":
            self._replies += b"%d rsp 0\n0 serverclose 0\n" % number
            return
        if command == b"syslog":
            is_enough = len(self._messages) >= self._port.frame_rows
            if is_enough or self._size + len(data) > self._most_bytes:
                self._store()
            self._messages.append(data)
            self._size += len(data) + 1
        text = _REPLIES.get(command, b"500 unknown command")
        self._replies += b"%d rsp %d %s\n" % (number, len(text), text)

    def _store(self) -> None:
        """Store the messages so far, with their lengths if newlines cannot separate them."""
        messages, replies = self._messages, self._replies
        self._messages, self._size, self._replies = [], 0, b""
        lines = b"".join(message + b"\n" for message in messages)
        is_ambiguous = lines.count(b"\n") > len(messages) or b"\r\n" in lines
        lengths = [len(message) for message in messages] if is_ambiguous else None
        if messages:
            self._port.append(self._connection.client, lines, len(messages), lengths=lengths)
        if replies:
            self._connection.confirm_later(replies, len(messages))


def _refused(text: str) -> RefusedError:
    return RefusedError("relp", text, b"0 serverclose 0\n")
