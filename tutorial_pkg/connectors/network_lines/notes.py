"""What a frame of the log holds: whole lines and, behind them, perhaps a *note* about them.

Lines end with a newline; a note is JSON, its length (four bytes, little-endian) and a NUL byte.
So the last byte of a payload tells whether there is a note, and logs of versions that knew none
are read as they are. A note may have:

- `client`: who sent the lines, as its certificate says.
- `senders`: by name, what is known of senders that have one (`names`).
- `lengths`: of each row, where newlines do not tell them apart (`relp`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

FORGET_SECONDS = 30 * 24 * 3600  # since a sender was heard of

_END = struct.Struct("<IB")  # the note's length, and a byte that ends no line
_NUL = 0


def about(client: str | None, senders: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A note of what there is to say."""
    return {
        **more,
        **({"client": client} if client else {}),
        **({"senders": senders} if senders else {}),
    }


def with_note(lines: bytes | memoryview, note: Mapping[str, Any]) -> bytes | memoryview:
    """A payload; without a note the lines are one themselves."""
    if not note:
        return lines
    text = json.dumps(note, separators=(",", ":")).encode()
    return b"".join((lines, text, _END.pack(len(text), _NUL)))


def split(payload: memoryview) -> tuple[memoryview, dict[str, Any]]:
    """The lines, and the note."""
    if not payload or payload[-1] != _NUL:
        return payload, {}
    end = len(payload) - _END.size
    start = end - _END.unpack_from(payload, end)[0]
    note: dict[str, Any] = json.loads(bytes(payload[start:end]))
    return payload[:start], note
