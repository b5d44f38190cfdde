"""A sender with a name, as the receiver sees it: greeting, welcome, blocks.

`docs/formats/network_lines.md` has the protocol, and `forward` the other side.
"""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.positions import Entries
from tutorial_pkg.connectors.network_lines.protocol import (
    GREETING,
    MOST_HEADER_BYTES,
    SAME_RELEASE,
    VERSION,
    RefusedError,
    json_line,
    parse_object,
)

BLOCK_BYTES = 256 * 1024  # of one frame, unless a line is longer
MOST_ENTRY_BYTES = 4096
MOST_LEVELS = 100  # lists and objects in an entry
_NAME = re.compile(r"[\w.:/@ -]{1,200}")


def greets(connection: Connection) -> bool:
    """Return whether the first bytes are the greeting of a sender with a name."""
    while len(connection.inbox) < len(GREETING) and GREETING.startswith(bytes(connection.inbox)):
        if not connection.fill():
            break
    return connection.inbox.startswith(GREETING)


def serve_named(connection: Connection) -> None:
    """Store the blocks of a sender with a name.

    A killed sender may leave part of a block, which is not stored. Raises `RefusedError` for an
    invalid greeting, and for a block that breaks the limits in the welcome.
    """
    try:
        name = _parse_greeting(connection.read_line(MOST_HEADER_BYTES))
        _check_certificate(name, connection.certified)
        with connection.port.positions.used(name) as entries:
            _exchange(connection, name, {key: json.loads(text) for key, text in entries.items()})
    except EOFError:
        return
    except RefusedError as why:
        why.reply = json_line(refused=str(why), in_use=why.reason == "in_use")
        raise


def _exchange(connection: Connection, name: str, position: dict[str, Any]) -> None:
    port, options, stored = connection.port, connection.port.options, 0
    block_bytes = min(BLOCK_BYTES, port.frame_bytes)
    welcome = json_line(
        position=position,
        block_bytes=block_bytes,
        block_rows=port.frame_rows,
        line_bytes=options.maxLineBytes,
        idle_seconds=options.idleTimeout,
        header_bytes=MOST_HEADER_BYTES,
    )
    connection.say(welcome)
    while True:
        header = connection.read_line(MOST_HEADER_BYTES)
        size, changes = _parse_header(header, block_bytes + options.maxLineBytes)
        lines = connection.read(size)
        connection.active_at = time.monotonic()
        rows = _count_rows(lines, port.frame_rows, options.maxLineBytes)
        if changes is not None:
            port.append(connection.client, lines, rows, {name: changes})
            stored += 1
        connection.confirm_later(json_line(stored=stored), rows)


def _parse_greeting(line: bytes) -> str:
    """Return the name."""
    fields = _parse(line.removeprefix(GREETING), "a greeting")
    version, name = fields.get("version"), fields.get("name")
    if version != VERSION:
        raise _refused(
            f"the sender speaks version {version!r:.40}, the receiver {VERSION}; {SAME_RELEASE}"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refused(f"a name has 1 to 200 letters, digits, blanks or ._:/@-, got {name!r:.40}")
    return name


def _check_certificate(name: str, certified: list[str]) -> None:
    """With certificates, a sender may use the names in its own, and names below them."""
    if certified and not any(name == own or name.startswith(f"{own}/") for own in certified):
        raise _refused(
            f"the certificate is for {', '.join(certified)}, and the name is {name!r}; use "
            f"{certified[0]!r} or a name below it such as '{certified[0]}/app'"
        )


def _parse_header(line: bytes, most: int) -> tuple[int, Entries | None]:
    """Return the size of a block, and the changes of the position; none for a sign of life."""
    header = _parse(line, "the header of a block")
    size, position = header.get("bytes"), header.get("position")
    if type(size) is not int or not 0 <= size <= most:
        raise _refused(f"a block has 0 to {most} bytes, got {size!r:.40}")
    if not isinstance(position, dict):
        if size:
            raise _refused("a block needs the position behind it, a JSON object")
        return 0, None
    changes = {
        key: None if value is None else json.dumps(value, separators=(",", ":"))
        for key, value in position.items()
    }
    for key, text in changes.items():
        size_of_entry = len(json.dumps(key)) + len(text or "")
        levels = (text or "").count("[") + (text or "").count("{")
        if size_of_entry > MOST_ENTRY_BYTES or levels > MOST_LEVELS:
            raise _refused(
                f"an entry of a position has at most {MOST_ENTRY_BYTES} bytes, and {MOST_LEVELS} "
                "lists or objects"
            )
    return size, changes


def _count_rows(lines: bytes, most_rows: int, most_bytes: int) -> int:
    rows = lines.count(b"\n")
    if (lines and not lines.endswith(b"\n")) or rows > most_rows:
        raise _refused(f"a block is whole lines, at most {most_rows} of them")
    longest = max(map(len, lines.split(b"\n"))) if len(lines) > most_bytes else 0
    if longest > most_bytes:
        raise _refused(f"a line has {longest} bytes, and maxLineBytes is {most_bytes}")
    return rows


def _parse(text: bytes, what: str) -> dict[str, Any]:
    try:
        return parse_object(text)
    except ValueError:
        raise _refused(f"not {what}: {text[:80]!r}") from None


def _refused(text: str) -> RefusedError:
    return RefusedError("sender", text)
