"""One sender's connection, and the two ways in which it ends.

It is closed in good order when all its lines are on disk, and reset in any other case, the death
of the process included. A sender whose lines were not all taken gets, before the reset, a line of
text that says how many and why: `nc` shows it, and `send_lines` raises an error of it.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Mapping

# What SO_LINGER makes of a close: a reset, or good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)

_DROPPED = "network_lines dropped:"
_DROPPED_LINE = re.compile(rf"{_DROPPED} (.*)\n")


class Connection:
    """A sender: its socket, and the beginning of a line whose end has not arrived.

    `last_line` is when it last ended a line (a single byte now and then keeps no slot), `skipping`
    says that it is in the middle of a line that is too long, `ended` that it has sent all it had.
    """

    __slots__ = ("dropped", "ended", "last_line", "skipping", "socket", "tail")

    def __init__(self, client: socket.socket) -> None:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # should the process die
        self.socket = client
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
            self._tell_dropped()
            self.reset()
        else:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)
            self.socket.close()

    def _tell_dropped(self) -> None:
        counts = ", ".join(f"{count} {reason}" for reason, count in sorted(self.dropped.items()))
        try:
            self.socket.send(f"{_DROPPED} {counts}\n".encode())
        except OSError:  # the sender does not listen any more; the status counts the lines as well
            return


def dropped_in(answer: bytes) -> Mapping[str, int]:
    """By reason, how many lines were dropped, as the listener's answer says it."""
    said = _DROPPED_LINE.fullmatch(answer.decode(errors="replace"))
    parts = said[1].split(", ") if said else []
    return {reason: int(count) for count, _, reason in (part.partition(" ") for part in parts)}
