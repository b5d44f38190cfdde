"""One client's connection, and the two ways in which it ends.

It is closed in good order when all its lines are on disk, and reset in any other case, such as the
death of the process. If lines of a plain sender were dropped, it first gets a line of text with
their number and the reason: `nc` shows it, and `send_lines` raises it as an error.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

from tutorial_pkg.connectors.network_lines.tls import SecureSocket
from tutorial_pkg.connectors.network_lines.wire import (
    MOST_WELCOME_BYTES,
    RefusedError,
    dropped_line,
)

# SO_LINGER decides whether a close is a reset or in good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)


class State(Enum):
    """The states of a connection, in order."""

    NEW = auto()  # at a port with TLS: no byte has arrived
    SHAKING_HANDS = auto()
    OPEN = auto()
    ENDED = auto()  # the client has ended its side; its lines are on their way to the disk
    REFUSED = auto()  # it has a moment to read why


@dataclass(frozen=True)
class Block:
    """Lines that go into the log together, and the reply that the client gets once on disk."""

    lines: bytes
    rows: int
    reply: bytes
    position: Mapping[str, str | None] | None = None  # changed entries, of a sender with a name
    note: Mapping[str, Any] = field(default_factory=dict)


class Dialogue(Protocol):
    """A protocol with replies. Its methods raise `RefusedError` for what breaks its rules."""

    def take(self, data: memoryview) -> Iterator[Block]:
        """Yield the blocks that `data` completes."""

    def append(self, block: Block) -> None:
        """Write a block into the log."""

    def end(self) -> None:
        """The client has ended its side."""

    def refusal(self, why: RefusedError) -> bytes:
        """Return the reply for a client that is refused."""

    def close(self) -> None:
        """The connection is gone."""


class Connection:
    """A client's socket and state, and the start of its unfinished line.

    Attributes:
        names: what its certificate calls it; the first name is the one by which it is known.
        dialogue: its protocol; None for plain lines.
        active_at: when it last completed a line, a block or a step of the handshake. A byte now
            and then does not count.
        fresh: its first line is not complete.
        named: it begins like a sender with a name.
        skipping: it is in the middle of a line that is too long.
    """

    __slots__ = (
        "active_at",
        "dialogue",
        "dropped",
        "fresh",
        "named",
        "names",
        "peer",
        "skipping",
        "socket",
        "state",
        "tail",
        "unsent",
    )

    def __init__(self, client: socket.socket, peer: str, state: State) -> None:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # should the process die
        self.socket: socket.socket | SecureSocket = client
        self.peer, self.state = peer, state
        self.names: list[str] = []
        self.dialogue: Dialogue | None = None
        self.active_at = time.monotonic()
        self.fresh, self.named, self.skipping = True, False, False
        self.tail, self.unsent = bytearray(), bytearray()
        self.dropped: Counter[str] = Counter()

    @property
    def client(self) -> str | None:
        """The client's name, if a certificate tells it."""
        return self.names[0] if self.names else None

    @property
    def has_more(self) -> bool:
        """Whether TLS holds bytes that the selector does not see."""
        return isinstance(self.socket, SecureSocket) and self.socket.has_more

    def say(self, text: bytes) -> None:
        """Send `text` as far as there is room, and keep the rest in `unsent`.

        Raises `OSError` if the client is gone, or if too many replies are unread.
        """
        if len(self.unsent) + len(text) > 2 * MOST_WELCOME_BYTES:
            raise ConnectionResetError("the client does not read its replies")
        self.unsent += text
        try:
            while self.unsent:
                del self.unsent[: self.socket.send(self.unsent)]
        except BlockingIOError:
            return

    def reset(self) -> None:
        """Close without a confirmation."""
        self.socket.close()

    def confirm(self) -> None:
        """Close in good order; if lines were dropped, say so and reset instead."""
        try:
            self.say(dropped_line(self.dropped) if self.dropped else b"")
            if not self.dropped and not self.unsent:
                if isinstance(self.socket, SecureSocket):
                    self.socket.end()
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)
        except OSError:  # the client did not wait for it
            pass
        self.socket.close()
