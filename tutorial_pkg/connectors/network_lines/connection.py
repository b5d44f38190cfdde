"""One client's connection, as the thread that serves it sees it, and the ways in which it ends.

It is closed in good order when all its lines are on disk, and reset in any other case, such as the
death of the process. If lines of a plain sender were dropped, it first gets a line of text with
their number and the reason: `nc` shows it, and `send_lines` raises it as an error.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from tutorial_pkg.connectors.network_lines.positions import Owner
from tutorial_pkg.connectors.network_lines.protocol import (
    HEAD_BYTES,
    RefusedError,
    check_tls,
    dropped_line,
    is_named,
    named_refusal,
    refusal,
)
from tutorial_pkg.connectors.network_lines.tls import ServerTls
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.group import Backlog

RECEIVE_BYTES = 256 * 1024
HANDSHAKE_SECONDS = 10.0
REPLY_SECONDS = 30.0  # until a client that does not read its replies is disconnected
POLL_SECONDS = 0.1
FULL_SECONDS = 0.05
_NOTHING_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_RECORD_BYTES = 16 * 1024  # the most that one TLS record holds

# SO_LINGER decides whether a close is a reset or in good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)


class DisconnectedError(Exception):
    """The client is gone, or this port closes. `idle`: it has completed nothing for too long."""

    def __init__(self, idle: bool = False) -> None:
        super().__init__()
        self.idle = idle


class Connection:
    """A client's socket.

    Attributes:
        owner: who the client is.
        active_at: when it last completed a line or a block. A byte now and then does not count.
        refusal: the form of a refusal that it understands.
        dropped: how many of its lines were dropped, by reason.
    """

    def __init__(
        self,
        client: socket.socket,
        peer: str,
        options: OptionValues,
        backlog: Backlog,
        stopping: threading.Event,
    ) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # should the process die
        self.owner = Owner(peer=peer)
        self.refusal: Callable[[RefusedError], bytes] = refusal
        self.dropped: Counter[str] = Counter()
        self.active_at = time.monotonic()
        self._socket, self._backlog, self._stopping = client, backlog, stopping
        self._idle_seconds = options.idleTimeout
        # Reading no more than a line at once means that only the first line can be too long.
        self._most = min(RECEIVE_BYTES, options.maxLineBytes)
        self._has_ended = self._is_broken = False

    def secure(self, tls: ServerTls) -> None:
        """Shake hands. Raises `RefusedError`."""
        self._socket.settimeout(HANDSHAKE_SECONDS)
        try:
            head = self._socket.recv(HEAD_BYTES, socket.MSG_PEEK)
            if not head:
                raise RefusedError("handshake", "the client broke it off")
            self.refusal = named_refusal if is_named(head) else refusal
            check_tls(head)
            self.refusal = lambda _: b""
            self._socket = secured = tls.wrap(self._socket)
            if self._stopping.is_set():  # `interrupt` may have missed the new socket
                raise DisconnectedError
            names = tls.shake_hands(secured)
            self.owner, self.refusal = self.owner._replace(certified=tuple(names)), refusal
            tls.check(names)
        except TimeoutError:
            text = f"no handshake within {HANDSHAKE_SECONDS:.0f} s"
            raise RefusedError("timeout", text) from None
        except OSError:
            raise DisconnectedError from None
        self.active_at = time.monotonic()

    def receive(self, waits: bool = True) -> bytes | None:
        """Return what has arrived, an empty text once the client has ended its side.

        Without `waits`, it returns None if nothing has arrived. While the backlog is full nothing
        is read, so TCP slows the senders down; that does not make them idle. Raises
        `DisconnectedError`.
        """
        while self._backlog.full and not self._stopping.wait(FULL_SECONDS):
            self.active_at = time.monotonic()
        if self._stopping.is_set() or self._is_broken:
            raise DisconnectedError
        if self._has_ended:
            return b""
        remaining = self.active_at + self._idle_seconds - time.monotonic()
        try:
            self._socket.settimeout(max(remaining, 0.001) if waits else 0)
            data = self._socket.recv(self._most)
        except _NOTHING_YET:
            return None
        except TimeoutError:
            raise DisconnectedError(idle=True) from None
        except OSError:
            raise DisconnectedError from None
        if self._stopping.is_set():  # what looks like the client's end is `interrupt`
            raise DisconnectedError
        return self._with_more_records(data) if isinstance(self._socket, ssl.SSLSocket) else data

    def say(self, text: bytes) -> None:
        """Send a reply. Raises `DisconnectedError`."""
        rest, deadline = memoryview(text), time.monotonic() + REPLY_SECONDS
        while rest:
            try:
                self._socket.settimeout(POLL_SECONDS)
                rest = rest[self._socket.send(rest) :]
            except TimeoutError:
                if self._stopping.is_set() or time.monotonic() > deadline:
                    raise DisconnectedError from None
            except OSError:
                raise DisconnectedError from None

    def confirm(self) -> None:
        """Close in good order; if lines were dropped, say so and reset instead."""
        if self.dropped:
            self.say(dropped_line(self.dropped))
            return
        with suppress(OSError):  # a client that did not wait for it
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.settimeout(POLL_SECONDS)
                self._socket.unwrap()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)

    def close(self) -> None:
        """Close: with a reset, unless it was confirmed."""
        self._socket.close()

    def interrupt(self) -> None:
        """End the thread's wait for the client; another thread calls this."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RD)

    def _with_more_records(self, data: bytes) -> bytes:
        """Add the TLS records that have arrived already: one alone makes a small frame."""
        records, size = [data], len(data)
        self._socket.settimeout(0)
        try:
            while data and size + _RECORD_BYTES <= self._most:
                data = self._socket.recv(_RECORD_BYTES)
                records.append(data)
                size += len(data)
            self._has_ended = not data
        except _NOTHING_YET:
            pass
        except OSError:
            self._is_broken = True
        return b"".join(records)
