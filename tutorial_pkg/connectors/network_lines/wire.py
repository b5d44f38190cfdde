"""What both sides of a connection say: greetings, refusals, and one JSON object per line.

`docs/formats/network_lines.md` describes the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

VERSION = 2
GREETING = b"\0network_lines "  # starts the first line of a sender that has a name
MOST_HEADER_BYTES = 64 * 1024
MOST_WELCOME_BYTES = 4 * 1024 * 1024
MOST_LEVELS = 16  # of lists and objects inside each other

SAYS = "network_lines "  # starts every message to a sender without a name
REFUSED = f"{SAYS}refused:"
_DROPPED = f"{SAYS}dropped:"
_DROPPED_LINE = re.compile(rf"{_DROPPED} (\d{{1,12}} \w+(?:, \d{{1,12}} \w+)*)\n")


class RefusedError(Exception):
    """A client is refused: counted under `reason`, and the text says why in one line."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def json_line(**fields: Any) -> bytes:
    """Return the fields as one line of JSON."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def parse_object(text: bytes) -> dict[str, Any]:
    """Parse JSON from the other side.

    Raises `ValueError` for anything but an object of at most `MOST_LEVELS` levels.
    """
    try:
        parsed = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        parsed = None
    if not isinstance(parsed, dict) or _is_deeper(parsed, MOST_LEVELS):
        raise ValueError(f"expected a JSON object of at most {MOST_LEVELS} levels")
    return parsed


def greeting(name: str, instance: str | None = None) -> bytes:
    """Return the first line of a sender with this name."""
    own = {"instance": instance} if instance else {}
    return GREETING + json_line(version=VERSION, name=name, **own)


def refusal(text: object) -> bytes:
    """Return the reply to a client without a name that is refused."""
    return f"{REFUSED} {text}\n".encode(errors="replace")


def named_refusal(text: object, in_use: bool = False) -> bytes:
    """Return the reply to a greeting, or to a block, that ends the connection."""
    return json_line(refused=str(text), in_use=in_use)


def dropped_line(counts: Mapping[str, int]) -> bytes:
    """Return the message that tells a sender how many of its lines were dropped, by reason."""
    listed = (f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"{_DROPPED} {', '.join(listed)}\n".encode()


def dropped_in(answer: bytes) -> Mapping[str, int]:
    """Return how many lines a `dropped_line` reports, by reason."""
    line = _DROPPED_LINE.fullmatch(answer.decode(errors="replace"))
    parts = line[1].split(", ") if line else []
    return {reason: int(count) for count, _, reason in (part.partition(" ") for part in parts)}


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and objects are nested in more than `levels` levels."""
    level = [value]
    for _ in range(levels):
        inside = (
            outer.values() if isinstance(outer, dict) else outer
            for outer in level
            if isinstance(outer, dict | list)
        )
        level = [inner for values in inside for inner in values]
    return any(isinstance(inner, dict | list) for inner in level)
