"""A sender with a name, as the receiver sees it; `sender.py` has the other side.

The package's docstring has the protocol: greeting, welcome, blocks and acknowledgements.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import Block, Connection, RefusedError
from tutorial_pkg.connectors.network_lines.names import MOST_POSITION_BYTES, Names
from tutorial_pkg.connectors.network_lines.notes import about, with_note
from tutorial_pkg.connectors.network_lines.whole_lines import GREETING, PortLimits
from tutorial_pkg.core.lines import count_newlines
from tutorial_pkg.durable_log.segments import SegmentWriter

VERSION = 1
BLOCK_BYTES = 256 * 1024  # what one frame of a sender holds, unless a line is longer
MOST_LEVELS = 16  # of lists and objects inside each other, in what a sender says
_NAME = re.compile(r"[\w.:/@ -]{1,200}")


class NamedDialogue:
    """One connection of a sender that has a name.

    Raises `RefusedError` for an invalid greeting, for a name that this client cannot have, and
    later for blocks that break the limits in the welcome.
    """

    def __init__(
        self, connection: Connection, names: Names, log: SegmentWriter, limits: PortLimits
    ) -> None:
        self._connection, self._names, self._log, self._limits = connection, names, log, limits
        self._inbox = bytearray()
        self._header: Mapping[str, Any] | None = None
        self._stored = 0
        self._name = _greeted((connection.greeting or b"") + connection.tail)
        known = names.begin(self._name, connection.client)
        self._block_bytes = min(BLOCK_BYTES, limits.frame_bytes)
        self.welcome = _line(
            position=json.loads(known.position),
            block_bytes=self._block_bytes,
            block_rows=limits.frame_rows,
            line_bytes=limits.line_bytes,
            idle_seconds=limits.idle_seconds,
        )

    def take(self, data: memoryview) -> Iterator[Block]:
        self._inbox += data
        while self._has_header() and (block := self._block()):
            self._connection.last_line = time.monotonic()
            yield block

    def append(self, block: Block) -> None:
        """Lines and position in one frame, or only a sign of life."""
        client, position = self._connection.client, block.position
        if position is None and self._names.is_getting_old(self._name):
            position = self._names.position(self._name)
        if position is None:
            return

        def write(senders: Mapping[str, Any]) -> None:
            payload = with_note(block.lines, about(client, senders))
            self._log.append(payload, block.rows, time.time_ns() // 1000)

        self._names.append(self._log, self._name, client, position, write)

    def refusal(self, why: RefusedError) -> bytes:
        return named_refusal(why)

    def close(self) -> None:
        self._names.end(self._name)

    def _has_header(self) -> bool:
        """Whether the next block's header has arrived; blocks and headers have size limits."""
        if self._header is None:
            end = self._inbox.find(b"\n", 0, MOST_POSITION_BYTES + 1)
            if end >= 0:
                self._header = self._parsed(bytes(self._inbox[:end]))
                del self._inbox[: end + 1]
            elif len(self._inbox) > MOST_POSITION_BYTES:
                raise RefusedError("sender", f"a header of more than {MOST_POSITION_BYTES} bytes")
        return self._header is not None

    def _parsed(self, text: bytes) -> Mapping[str, Any]:
        most = self._block_bytes + self._limits.line_bytes
        header = _json_object(text, "the header of a block")
        size = header.get("bytes")
        if not isinstance(size, int) or not 0 <= size <= most:
            raise RefusedError("sender", f"a block has {most} bytes at most, got {size!r:.40}")
        if size and "position" not in header:
            raise RefusedError("sender", "a block needs the position behind it")
        return dict(header)

    def _block(self) -> Block | None:
        """The next block, if all of it is there."""
        assert self._header is not None
        size = self._header["bytes"]
        if len(self._inbox) < size:
            return None
        lines = bytes(memoryview(self._inbox)[:size])
        del self._inbox[:size]
        position = self._header.get("position")
        self._header = None
        if not lines:
            return Block(lines, 0, _line(stored=self._stored))
        self._stored += 1
        text = json.dumps(position, separators=(",", ":"))
        return Block(lines, self._rows(lines), _line(stored=self._stored), text)

    def _rows(self, lines: bytes) -> int:
        rows = count_newlines(lines)
        if not lines.endswith(b"\n") or rows > self._limits.frame_rows:
            raise RefusedError(
                "sender", f"a block is whole lines, at most {self._limits.frame_rows} of them"
            )
        if len(lines) <= self._limits.line_bytes:
            return rows
        longest = max(map(len, lines.split(b"\n")))
        if longest > self._limits.line_bytes:
            raise RefusedError(
                "sender",
                f"a line has {longest} bytes, and maxLineBytes is {self._limits.line_bytes}",
            )
        return rows


def greeting_of(name: str) -> bytes:
    """The first line of a sender with this name."""
    return GREETING + _line(version=VERSION, name=name)


def named_refusal(why: RefusedError) -> bytes:
    """The answer to a greeting, or to a block, that ends the connection."""
    return _line(refused=str(why), in_use=why.reason == "in_use")


def _greeted(greeting: bytes) -> str:
    """Return the name in a greeting."""
    said = _json_object(greeting.removeprefix(GREETING), "a greeting")
    version, name = said.get("version"), said.get("name")
    if version != VERSION:
        raise RefusedError(
            "sender", f"the sender speaks version {version!r:.40}, and the receiver {VERSION}"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RefusedError(
            "sender", f"a name has 1 to 200 letters, digits, blanks or ._:/@-, got {name!r:.40}"
        )
    return name


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    """Parse what a sender said. Raises `RefusedError` for anything but a flat enough object."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or _is_deeper(said, MOST_LEVELS):
        raise RefusedError("sender", f"not {what}: {text[:80]!r}")
    return said


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return any(isinstance(inner, dict | list) for inner in level)


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
