"""What both sides of a connection say, and how a client at the wrong port is recognized.

`docs/formats/network_lines.md` describes the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

VERSION = 2
GREETING = b"\0network_lines "  # starts the first line of a sender with a name
HEAD_BYTES = 4096  # of a connection, in which its protocol is recognized
MOST_HEADER_BYTES = 64 * 1024
MOST_WELCOME_BYTES = 4 * 1024 * 1024

SAYS = "network_lines "  # starts every message to a sender without a name
REFUSED = f"{SAYS}refused:"
DROPPED = f"{SAYS}dropped:"

TLS_START = b"\x16\x03"  # of a client's first bytes
_STRANGERS = {  # the first bytes of clients at a port for plain lines, and what to do
    rb"\x16\x03": "the client speaks TLS; start it without, or set `tlsCertificate`",
    rb"\d{1,9} open \d+ relp_version=": "the client speaks RELP; set `protocol=relp`",
    rb"PROXY (?:TCP4|TCP6|UNKNOWN)\b|\r\n\r\n\0\r\nQUIT\n": (
        "a load balancer sends a PROXY line first; switch its PROXY protocol off"
    ),
    rb"\d{1,7} <\d{1,3}>(?:1 |[A-Z][a-z][a-z] )": (
        "the client sends octet-counted syslog; have it end each message with a newline instead "
        '(rsyslog: TCP_Framing="traditional")'
    ),
    rb"\{[^\n]*\}\0": (
        "the client sends GELF with NUL behind each message; send one JSON object per line"
    ),
}


class RefusedError(Exception):
    """A client is refused: counted under `reason`, and the text says why in one line.

    `reply` is what the client gets: by default the text.
    """

    def __init__(self, text: str, reason: str = "sender", reply: bytes | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        plain = f"{REFUSED} {text}\n".encode(errors="replace")
        self.reply = plain if reply is None else reply


def check_lines(head: bytes) -> None:
    """Raise `RefusedError` for a client that does not send lines."""
    for start, advice in _STRANGERS.items():
        if re.match(start, head):
            raise RefusedError(f"this port expects plain lines: {advice}", "protocol")


def json_line(**fields: Any) -> bytes:
    """Return the fields as one line of JSON."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def parse_object(text: bytes) -> dict[str, Any]:
    """Parse JSON from the other side. Raises `ValueError` for anything but an object."""
    try:
        parsed = json.loads(text)
    except RecursionError:
        parsed = None
    if not isinstance(parsed, dict):
        raise ValueError("expected a JSON object")
    return parsed


def greeting(name: str) -> bytes:
    """Return the first line of a sender with this name."""
    return GREETING + json_line(version=VERSION, name=name)


def dropped_line(counts: Mapping[str, int]) -> bytes:
    """Return the message that tells a sender how many of its lines were dropped, by reason."""
    listed = (f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"{DROPPED} {', '.join(listed)}\n".encode()
