"""What both sides of a connection say, and how a client at the wrong port is recognized.

`docs/formats/network_lines.md` describes the protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

VERSION = 2
SAME_RELEASE = "both ends must have the same release: update the older one"
GREETING = b"\0network_lines "  # starts the first line of a sender with a name
HEAD_BYTES = 4096  # of a connection, in which its protocol is recognized
MOST_HEADER_BYTES = 64 * 1024
MOST_WELCOME_BYTES = 4 * 1024 * 1024

SAYS = "network_lines "  # starts every message to a sender without a name
REFUSED = f"{SAYS}refused:"
_DROPPED = f"{SAYS}dropped:"
_DROPPED_LINE = re.compile(rf"{_DROPPED} (\d{{1,12}} \w+(?:, \d{{1,12}} \w+)*)\n")

_TLS = b"\x16\x03"
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
    """A client is refused: counted under `reason`, and the text says why in one line."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


# ---- First bytes ---------------------------------------------------------------------------------


def check_lines(head: bytes) -> None:
    """Raise `RefusedError` for a client that does not send lines."""
    for start, advice in _STRANGERS.items():
        if re.match(start, head):
            raise RefusedError("protocol", f"this port expects plain lines: {advice}")


def check_tls(head: bytes) -> None:
    """Raise `RefusedError` for a client that does not begin with TLS."""
    if not _TLS.startswith(head[:2]):
        text = "this port expects TLS, and the client does not speak it; give a sender `--tls-ca`"
        raise RefusedError("plain_text", text)


def not_relp(head: bytes) -> RefusedError:
    """Return the refusal of a client at a port for RELP."""
    kind = "TLS" if head.startswith(_TLS) else f"{head[:40]!r}"
    return RefusedError("relp", f"this port expects RELP (`protocol=relp`), and got {kind}")


# ---- Messages ------------------------------------------------------------------------------------


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


def greeting(name: str, instance: str | None = None) -> bytes:
    """Return the first line of a sender with this name."""
    own = {"instance": instance} if instance else {}
    return GREETING + json_line(version=VERSION, name=name, **own)


def plain_refusal(why: RefusedError) -> bytes:
    """Return the reply to a client without a name that is refused."""
    return f"{REFUSED} {why}\n".encode(errors="replace")


def named_refusal(why: RefusedError) -> bytes:
    """Return the reply to a greeting, or to a block, that ends the connection."""
    return json_line(refused=str(why), in_use=why.reason == "in_use")


def refusal_for(head: bytes) -> Callable[[RefusedError], bytes]:
    """Return the form of a refusal that a client with these first bytes understands."""
    return named_refusal if head.startswith(GREETING) else plain_refusal


def dropped_line(counts: Mapping[str, int]) -> bytes:
    """Return the message that tells a sender how many of its lines were dropped, by reason."""
    listed = (f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"{_DROPPED} {', '.join(listed)}\n".encode()


def dropped_in(reply: bytes) -> Mapping[str, int]:
    """Return how many lines a `dropped_line` reports, by reason."""
    line = _DROPPED_LINE.fullmatch(reply.decode(errors="replace"))
    parts = line[1].split(", ") if line else []
    return {reason: int(count) for count, _, reason in (part.partition(" ") for part in parts)}
