"""One sender's connection, and the two ways in which it ends.

It is closed in good order when all its lines are on disk, and reset in any other case, the death
of the process included. A sender whose lines were not all taken gets, before the reset, a line of
text that says how many and why: `nc` shows it, and `send_lines` raises it as an error.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tutorial_pkg.connectors.network_lines.secure_socket import SecureSocket

# What SO_LINGER makes of a close: a reset, or good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)

SAYS = "network_lines "  # how every message to a sender without a name begins
REFUSED = f"{SAYS}refused:"
_DROPPED = f"{SAYS}dropped:"
_DROPPED_LINE = re.compile(rf"{_DROPPED} (.*)\n")


class RefusedError(Exception):
    """A client is not let in: it is counted under `reason`, and the text says why in one line."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(frozen=True)
class Block:
    """Lines that go into the log together, and the answer to the sender when they are on disk."""

    lines: bytes
    rows: int
    answer: bytes
    position: str | None = None  # of a sender that has a name
    note: Mapping[str, Any] = field(default_factory=dict)


class Dialogue(Protocol):
    """The protocol of a connection that waits for answers: it makes blocks of bytes."""

    def take(self, data: memoryview) -> Iterator[Block]:
        """The blocks that `data` completes. Raises `RefusedError`."""

    def append(self, block: Block) -> None:
        """Put a block into the log."""

    def refusal(self, why: RefusedError) -> bytes:
        """The answer to a sender that is refused."""

    def close(self) -> None:
        """The connection is gone."""


class Connection:
    """A sender: its socket, and the beginning of a line whose end has not arrived.

    `last_line` is when it last ended a line (a single byte now and then keeps no slot), `skipping`
    says that it is in the middle of a line that is too long, `ended` that it has sent all it had.
    `client` is its name, if a certificate tells it. `greeting` is its first line, if that says
    that more than lines will come; `dialogue` is what it speaks then.
    """

    __slots__ = (
        "client",
        "dialogue",
        "dropped",
        "ended",
        "fresh",
        "greeting",
        "last_line",
        "peer",
        "shaking_hands",
        "skipping",
        "socket",
        "tail",
    )

    def __init__(self, client: socket.socket, peer: str = "") -> None:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # should the process die
        self.socket: socket.socket | SecureSocket = client
        self.peer = peer
        self.shaking_hands = False
        self.client: str | None = None
        self.dialogue: Dialogue | None = None
        self.fresh = True
        self.greeting: bytes | None = None
        self.tail = bytearray()
        self.skipping = False
        self.ended = False
        self.last_line = time.monotonic()
        self.dropped: Counter[str] = Counter()

    def reset(self) -> None:
        """Close without a confirmation."""
        self.socket.close()

    def confirm(self) -> None:
        """Close in good order; or, when lines were dropped, say so and reset."""
        if self.dropped:
            counts = (f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
            self.tell(f"{_DROPPED} {', '.join(counts)}\n".encode())
            self.reset()
        else:
            self._close_in_good_order()

    def tell(self, text: bytes) -> bool:
        """Whether the sender's side took it: one that reads no answers is not waited for."""
        try:
            return self.socket.send(text) == len(text)
        except OSError:
            return False

    def _close_in_good_order(self) -> None:
        try:
            if isinstance(self.socket, SecureSocket):
                self.socket.end()
        except OSError:  # it did not wait for the answer
            self.reset()
            return
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)
        self.socket.close()


def refusal(text: str) -> bytes:
    """The answer to a sender of plain lines that is not let in."""
    return f"{REFUSED} {text}\n".encode()


def dropped_in(answer: bytes) -> Mapping[str, int]:
    """By reason, how many lines were dropped, as the listener's answer says it."""
    said = _DROPPED_LINE.fullmatch(answer.decode(errors="replace"))
    parts = said[1].split(", ") if said else []
    return {reason: int(count) for count, _, reason in (part.partition(" ") for part in parts)}
