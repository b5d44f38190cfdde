"""The payload of a frame in the log: whole lines, and perhaps a *note* about them.

Lines end with a newline. A note is JSON, followed by its length (four bytes, little-endian) and a
NUL byte. So a payload's last byte tells whether there is a note, and the logs of versions without
notes are read as they are. A note may have:

- `client`: the name of the lines' sender, from its certificate.
- `positions`: how far senders with a name have come (`positions`); `senders` in older logs.
- `lengths`: the length of each row, where newlines do not separate them (`relp`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

FORGET_SECONDS = 30 * 24 * 3600

_END = struct.Struct("<IB")  # the note's length, and a byte that ends no line
_NUL = 0


def with_note(lines: bytes | memoryview, **note: Any) -> bytes | memoryview:
    """Return a payload; empty parts of the note are left out."""
    parts = {name: value for name, value in note.items() if value}
    if not parts:
        return lines
    text = json.dumps(parts, separators=(",", ":")).encode()
    return b"".join((lines, text, _END.pack(len(text), _NUL)))


def split(payload: memoryview) -> tuple[memoryview, Mapping[str, Any]]:
    """Return a payload's lines and its note."""
    if not payload or payload[-1] != _NUL:
        return payload, {}
    end = len(payload) - _END.size
    start = end - _END.unpack_from(payload, end)[0]
    note: dict[str, Any] = json.loads(bytes(payload[start:end]))
    return payload[:start], note
