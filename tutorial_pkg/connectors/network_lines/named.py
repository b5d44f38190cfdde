"""A sender with a name, as the receiver sees it: greeting, welcome, blocks.

`docs/formats/network_lines.md` has the protocol, and `forward` the other side.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.port_log import Block, PortLog
from tutorial_pkg.connectors.network_lines.positions import Change, Entries
from tutorial_pkg.connectors.network_lines.protocol import (
    GREETING,
    MOST_HEADER_BYTES,
    VERSION,
    RefusedError,
    json_line,
    parse_object,
)
from tutorial_pkg.core.lines import count_newlines

BLOCK_BYTES = 256 * 1024  # of one frame, unless a line is longer
MOST_ENTRY_BYTES = 4096
_NAME = re.compile(r"[\w.:/@ -]{1,200}")
_INSTANCE = re.compile(r"[!-~]{1,200}")


class NamedSender:
    """The dialogue with one sender that has a name.

    Raises `RefusedError` for an invalid greeting, and later for blocks that break the limits in
    the welcome.
    """

    def __init__(self, greeting: bytes, port: PortLog, connection: Connection) -> None:
        self._port, self._connection = port, connection
        self._inbox, self._stored = bytearray(), 0
        self._header: tuple[int, dict[str, Any] | None] | None = None
        self._block_bytes = min(BLOCK_BYTES, port.frame_bytes)
        self._version, self.name, instance = _parse_greeting(greeting)
        self.owner = connection.owner._replace(instance=instance)

    def welcome(self, entries: Entries) -> bytes:
        """Return the reply to the greeting."""
        position = {key: json.loads(text) for key, text in entries.items() if text}
        return json_line(
            position=position or ({} if self._version > 1 else None),
            block_bytes=self._block_bytes,
            block_rows=self._port.frame_rows,
            line_bytes=self._port.options.maxLineBytes,
            idle_seconds=self._port.options.idleTimeout,
            header_bytes=MOST_HEADER_BYTES,
        )

    def blocks(self, data: bytes) -> Iterator[Block]:
        """Yield the blocks that `data` completes."""
        self._inbox += data
        while block := self._next_block():
            self._connection.active_at = time.monotonic()
            yield block

    def end(self) -> None:
        """A killed sender may leave part of a block, which is not stored."""

    def _next_block(self) -> Block | None:
        self._header = self._header or self._next_header()
        if not self._header or len(self._inbox) < self._header[0]:
            return None
        (size, position), self._header = self._header, None
        lines = bytes(memoryview(self._inbox)[:size])
        del self._inbox[:size]
        return self._block(lines, position)

    def _next_header(self) -> tuple[int, dict[str, Any] | None] | None:
        """Take the next header from the inbox: the size of the lines, and the position."""
        end = self._inbox.find(b"\n", 0, MOST_HEADER_BYTES)
        if end < 0:
            if len(self._inbox) >= MOST_HEADER_BYTES:
                raise _refused(f"a header has at most {MOST_HEADER_BYTES} bytes")
            return None
        header = _parse(bytes(self._inbox[:end]), "the header of a block")
        del self._inbox[: end + 1]
        size, position = header.get("bytes"), header.get("position")
        most = self._block_bytes + self._port.options.maxLineBytes
        if type(size) is not int or not 0 <= size <= most:
            raise _refused(f"a block has 0 to {most} bytes, got {size!r:.40}")
        if size and not isinstance(position, dict):
            raise _refused("a block needs the position behind it, a JSON object")
        return size, position if isinstance(position, dict) else None

    def _block(self, lines: bytes, position: dict[str, Any] | None) -> Block:
        """Return a block with a position, or only a sign of life."""
        self._stored += position is not None
        reply = json_line(stored=self._stored)
        if position is not None or self._port.positions.is_getting_old(self.name):
            replace = self._version == 1 and position is not None
            change = Change(self.name, self.owner, _entries(position or {}), replace)
            return Block(lines, self._rows(lines), reply, change)
        return Block(b"", 0, reply)

    def _rows(self, lines: bytes) -> int:
        rows, most = count_newlines(lines), self._port.options.maxLineBytes
        if (lines and not lines.endswith(b"\n")) or rows > self._port.frame_rows:
            raise _refused(f"a block is whole lines, at most {self._port.frame_rows} of them")
        longest = max(map(len, lines.split(b"\n"))) if len(lines) > most else 0
        if longest > most:
            raise _refused(f"a line has {longest} bytes, and maxLineBytes is {most}")
        return rows


def _entries(position: dict[str, Any]) -> Entries:
    entries = {
        key: None if value is None else json.dumps(value, separators=(",", ":"))
        for key, value in position.items()
    }
    if any(
        len(json.dumps(key)) + len(text or "") > MOST_ENTRY_BYTES for key, text in entries.items()
    ):
        raise _refused(f"an entry of a position has at most {MOST_ENTRY_BYTES} bytes")
    return entries


def _parse_greeting(greeting: bytes) -> tuple[int, str, str | None]:
    """Return the version, the name and the instance."""
    fields = _parse(greeting.removeprefix(GREETING), "a greeting")
    version, name, instance = (fields.get(key) for key in ("version", "name", "instance"))
    if version not in (1, VERSION) or type(version) is not int:
        raise _refused(f"the sender speaks version {version!r:.40}, and the receiver {VERSION}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(f"a name has 1 to 200 letters, digits, blanks or ._:/@-, got {name!r:.40}")
    if instance is not None and not (isinstance(instance, str) and _INSTANCE.fullmatch(instance)):
        raise _refused(f"an instance has 1 to 200 printable ASCII characters, got {instance!r:.40}")
    return version, name, instance


def _parse(text: bytes, what: str) -> dict[str, Any]:
    try:
        return parse_object(text)
    except ValueError:
        raise _refused(f"not {what}: {text[:80]!r}") from None


def _refused(text: str) -> RefusedError:
    return RefusedError("sender", text)
