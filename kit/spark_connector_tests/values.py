"""When two values are the same: in type and content, whatever objects they are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def comparable(value: Any) -> Any:
    """A value that is equal to another one of the same type and content, and can be counted."""
    if isinstance(value, datetime):
        return "datetime", value.astimezone(UTC).isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return "bytes", bytes(value)
    if isinstance(value, Mapping):
        return frozenset((comparable(key), comparable(part)) for key, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(comparable, value))
    return type(value).__name__, repr(value) if isinstance(value, float) else value
