"""A sender with a name, as the receiver sees it: greeting, welcome, blocks.

`docs/formats/network_lines.md` has the protocol, and `forward` the other side.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import Block, Connection
from tutorial_pkg.connectors.network_lines.line_buffer import PortLimits
from tutorial_pkg.connectors.network_lines.positions import Positions
from tutorial_pkg.connectors.network_lines.wire import (
    GREETING,
    MOST_HEADER_BYTES,
    VERSION,
    RefusedError,
    json_line,
    named_refusal,
    parse_object,
)
from tutorial_pkg.core.lines import count_newlines
from tutorial_pkg.durable_log.segments import SegmentWriter

BLOCK_BYTES = 256 * 1024  # of one frame, unless a line is longer
MOST_ENTRY_BYTES = 4096
_NAME = re.compile(r"[\w.:/@ -]{1,200}")
_INSTANCE = re.compile(r"[!-~]{1,200}")


class NamedSender:
    """The dialogue with one sender that has a name.

    Raises `RefusedError` for an invalid greeting, for a name that this client cannot have, and
    later for blocks that break the limits in the welcome.
    """

    def __init__(
        self,
        greeting: bytes,
        connection: Connection,
        positions: Positions,
        log: SegmentWriter,
        limits: PortLimits,
    ) -> None:
        self._connection, self._positions = connection, positions
        self._log, self._limits = log, limits
        self._inbox = bytearray()
        self._header: Mapping[str, Any] | None = None
        self._stored = 0
        self._version, self._name, self._instance = _parse_greeting(greeting)
        self._block_bytes = min(BLOCK_BYTES, limits.frame_bytes)
        self._entries = positions.begin(self._name, connection, self._instance)

    def welcome(self) -> bytes:
        """Return the reply to the greeting."""
        position = {key: json.loads(text) for key, text in self._entries.items()}
        return json_line(
            position=position or ({} if self._version > 1 else None),
            block_bytes=self._block_bytes,
            block_rows=self._limits.frame_rows,
            line_bytes=self._limits.line_bytes,
            idle_seconds=self._limits.idle_seconds,
            header_bytes=MOST_HEADER_BYTES,
        )

    def take(self, data: memoryview) -> Iterator[Block]:
        self._inbox += data
        while self._has_header() and (block := self._block()):
            self._connection.active_at = time.monotonic()
            yield block

    def append(self, block: Block) -> None:
        """Write a block with a position, or now and then a sign of life."""
        if block.position is not None or self._positions.is_getting_old(self._name):
            replace = self._version == 1 and block.position is not None
            parts = self._log, self._name, self._connection, block, self._instance, replace
            self._positions.append(*parts)

    def end(self) -> None:
        """A killed sender may leave part of a block, which is not stored."""

    def refusal(self, why: RefusedError) -> bytes:
        return named_refusal(why)

    def close(self) -> None:
        self._positions.end(self._name)

    def _has_header(self) -> bool:
        """Return whether the next block's header is there; take it out of the inbox."""
        if self._header is None:
            end = self._inbox.find(b"\n", 0, MOST_HEADER_BYTES)
            if end >= 0:
                self._header = self._parse_header(bytes(self._inbox[:end]))
                del self._inbox[: end + 1]
            elif len(self._inbox) >= MOST_HEADER_BYTES:
                raise RefusedError("sender", f"a header has at most {MOST_HEADER_BYTES} bytes")
        return self._header is not None

    def _parse_header(self, text: bytes) -> Mapping[str, Any]:
        most = self._block_bytes + self._limits.line_bytes
        header = _parse(text, "the header of a block")
        size = header.get("bytes")
        if type(size) is not int or not 0 <= size <= most:
            raise RefusedError("sender", f"a block has 0 to {most} bytes, got {size!r:.40}")
        if size and not isinstance(header.get("position"), dict):
            raise RefusedError("sender", "a block needs the position behind it, a JSON object")
        return header

    def _block(self) -> Block | None:
        """Return the next block, if all of it is there."""
        assert self._header is not None
        size = self._header["bytes"]
        if len(self._inbox) < size:
            return None
        lines = bytes(memoryview(self._inbox)[:size])
        del self._inbox[:size]
        position = self._header.get("position")
        self._header = None
        if not isinstance(position, dict):
            return Block(b"", 0, json_line(stored=self._stored))
        self._stored += 1
        changes = self._changes(position)
        return Block(lines, self._rows(lines), json_line(stored=self._stored), changes)

    def _changes(self, position: dict[str, Any]) -> Mapping[str, str | None]:
        changes = {
            key: None if value is None else json.dumps(value, separators=(",", ":"))
            for key, value in position.items()
        }
        for key, text in changes.items():
            if len(json.dumps(key)) + len(text or "") > MOST_ENTRY_BYTES:
                raise RefusedError(
                    "sender", f"an entry of a position has at most {MOST_ENTRY_BYTES} bytes"
                )
        self._positions.check(self._name, changes, replace=self._version == 1)
        return changes

    def _rows(self, lines: bytes) -> int:
        rows, most = count_newlines(lines), self._limits.line_bytes
        if (lines and not lines.endswith(b"\n")) or rows > self._limits.frame_rows:
            raise RefusedError(
                "sender", f"a block is whole lines, at most {self._limits.frame_rows} of them"
            )
        longest = max(map(len, lines.split(b"\n"))) if len(lines) > most else 0
        if longest > most:
            raise RefusedError("sender", f"a line has {longest} bytes, and maxLineBytes is {most}")
        return rows


def _parse_greeting(greeting: bytes) -> tuple[int, str, str | None]:
    """Return the version, the name and the instance."""
    fields = _parse(greeting.removeprefix(GREETING), "a greeting")
    version, name, instance = (fields.get(key) for key in ("version", "name", "instance"))
    if version not in (1, VERSION) or type(version) is not int:
        raise RefusedError(
            "sender", f"the sender speaks version {version!r:.40}, and the receiver {VERSION}"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError(
            "sender", f"a name has 1 to 200 letters, digits, blanks or ._:/@-, got {name!r:.40}"
        )
    if instance is not None and not (isinstance(instance, str) and _INSTANCE.fullmatch(instance)):
        raise RefusedError(
            "sender", f"an instance has 1 to 200 printable ASCII characters, got {instance!r:.40}"
        )
    return version, name, instance


def _parse(text: bytes, what: str) -> dict[str, Any]:
    try:
        return parse_object(text)
    except ValueError:
        raise RefusedError("sender", f"not {what}: {text[:80]!r}") from None
