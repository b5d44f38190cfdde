"""Recognize a client's protocol by its first bytes, and explain a wrong port to it at once."""

from __future__ import annotations

import re

from tutorial_pkg.connectors.network_lines.wire import GREETING, RefusedError

HEAD_BYTES = 4096  # of a connection, that are looked at

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
_PATTERNS = [(re.compile(start), advice) for start, advice in _STRANGERS.items()]


def check_lines(head: bytes) -> None:
    """Raise `RefusedError` for a client that does not send lines."""
    for pattern, advice in _PATTERNS:
        if pattern.match(head):
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


def is_named(head: bytes) -> bool:
    """Return whether the client greets like a sender with a name."""
    return bool(head) and GREETING.startswith(head[: len(GREETING)])
