"""A port's log, and the connection of one client that writes to it."""

from __future__ import annotations

import copy
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from tutorial_pkg.connectors.network_lines.payload import with_note
from tutorial_pkg.connectors.network_lines.positions import Entries, Positions
from tutorial_pkg.connectors.network_lines.protocol import TLS_START, RefusedError, dropped_line
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.connectors.network_lines.tls import ServerTls, failed_handshake
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import SegmentWriter

RECEIVE_BYTES = 256 * 1024
HANDSHAKE_SECONDS = 10.0
REPLY_SECONDS = 30.0  # until a client that does not read its replies is disconnected
POLL_SECONDS = 0.1
FULL_SECONDS = 0.05
MOST_UNCONFIRMED = 8  # blocks of a client, while more arrive
UNLIMITED = 2**31
_RECORD_BYTES = 16 * 1024  # the most that one TLS record holds
_NOTHING_YET = (BlockingIOError, TimeoutError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

# SO_LINGER decides whether a close is a reset or in good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)


class PortLog:
    """The log of one port and its counters; the threads of all its clients share it."""

    def __init__(
        self, number: int, log: SegmentWriter, options: OptionValues, positions: Positions
    ) -> None:
        self.number, self.options, self.positions = number, options, positions
        self.frame_rows = options.maxRowsPerTrigger or UNLIMITED
        self.frame_bytes = options.maxBytesPerTrigger or UNLIMITED
        self.status = PortStatus()
        self._log, self._lock = log, threading.Lock()

    def append(
        self,
        client: str | None,
        lines: bytes,
        rows: int,
        changes: Mapping[str, Entries] | None = None,
        lengths: list[int] | None = None,
    ) -> None:
        """Write one frame. Raises `OSError`, for instance when the disk is full.

        `changes` has, by a sender's name, new entries of its position; `lengths` those of the rows,
        if they contain newlines.
        """
        with self._lock, self.positions.noted(self._log, changes or {}) as positions:
            payload = with_note(lines, client=client, positions=positions, lengths=lengths)
            self._log.append(payload, rows, int(time.time() * 1_000_000))
            self.status.bytes += len(lines)
            self.status.lines += rows

    def sync(self) -> None:
        self._log.sync()

    def refuse(self, reason: str, report: str) -> bool:
        """Count a client that is refused; return whether it is the first with this reason."""
        with self._lock:
            count = self.status.refused.get(reason, 0)
            self.status.refused[reason] = count + 1
            self.status.last_refused = report
        return count == 0

    def drop(self, reason: str) -> None:
        with self._lock:
            self.status.dropped[reason] += 1

    def count(self, **more: int) -> None:
        with self._lock:
            for name, number in more.items():
                setattr(self.status, name, getattr(self.status, name) + number)

    def snapshot(self, backlog_bytes: int) -> PortStatus:
        with self._lock:
            self.status.backlog_bytes = backlog_bytes
            return copy.deepcopy(self.status)


class DisconnectedError(Exception):
    """The client is gone, or this port closes."""


class IdleError(DisconnectedError):
    """The client has completed nothing for too long."""


class Connection:
    """A client's socket, for the one thread that serves it.

    Attributes:
        inbox: what has arrived and is not used yet. Only `fill` adds to it.
        certified: the names in the client's certificate, if the port asks for one.
        client: the first of them, by which the client is known.
        active_at: when it last completed a line or a block. A byte now and then does not count.
        dropped: how many of its lines were dropped, by reason.
        unconfirmed: how many of its rows in the log the client has no reply to.
    """

    def __init__(
        self,
        client: socket.socket,
        peer: str,
        port: PortLog,
        logs: LogGroup,
        stopping: threading.Event,
    ) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # should the process die
        self.port, self.peer = port, peer
        self.inbox = bytearray()
        self.certified: list[str] = []
        self.client: str | None = None
        self.dropped: Counter[str] = Counter()
        self.active_at = time.monotonic()
        self.unconfirmed = 0
        self._socket, self._logs, self._stopping = client, logs, stopping
        self._most = min(RECEIVE_BYTES, port.options.maxLineBytes)
        self._replies: list[bytes] = []  # to blocks in the log

    def secure(self, tls: ServerTls) -> None:
        """Shake hands. Raises `RefusedError`."""
        self._socket.settimeout(HANDSHAKE_SECONDS)
        try:
            if not TLS_START.startswith(self._socket.recv(2, socket.MSG_PEEK)):
                text = "this port expects TLS, and the client does not speak it; give a sender "
                raise RefusedError(f"{text}`--tls-ca`", "plain_text")
            self._socket = secured = tls.wrap(self._socket)
            if self._stopping.is_set():  # `interrupt` may have missed the new socket
                raise DisconnectedError
            self.certified = tls.shake_hands(secured)
            self.client = next(iter(self.certified), None)
        except TimeoutError:
            text = f"no handshake within {HANDSHAKE_SECONDS:.0f} s"
            reply = b"" if isinstance(self._socket, ssl.SSLSocket) else None
            raise RefusedError(text, "timeout", reply) from None
        except OSError as error:
            raise failed_handshake(error) from None
        self.active_at = time.monotonic()

    # ---- What the client sends

    def fill(self) -> bool:
        """Add what comes next to `inbox`; return False if the client has ended its side.

        If that takes time, what is in the log is confirmed first. While the backlog is full nothing
        is read, so TCP slows the senders down; that does not make them idle. Raises
        `DisconnectedError`.
        """
        while self._logs.full and not self._stopping.wait(FULL_SECONDS):
            self.active_at = time.monotonic()
        data = self._receive(0) if self._replies else None
        if data is None:
            self.confirm()
            remaining = self.active_at + self.port.options.idleTimeout - time.monotonic()
            data = self._receive(max(remaining, 0.001))
        if data is None:
            raise IdleError
        self.inbox += data
        if data and isinstance(self._socket, ssl.SSLSocket):
            self._add_more_records(self._most - len(data))
        return bool(data)

    def _receive(self, seconds: float) -> bytes | None:
        """Return what has arrived, an empty text at the client's end, None for nothing yet."""
        try:
            self._socket.settimeout(seconds)
            data = self._socket.recv(self._most)
        except _NOTHING_YET:
            return None
        except OSError:
            raise DisconnectedError from None
        if self._stopping.is_set():  # what looks like the client's end is `interrupt`
            raise DisconnectedError
        return data

    def _add_more_records(self, room: int) -> None:
        """Add the TLS records that have arrived already: one alone makes a small frame."""
        self._socket.settimeout(0)
        with suppress(OSError):  # nothing more yet, or an error that `_receive` meets again
            while room >= _RECORD_BYTES and (data := self._socket.recv(_RECORD_BYTES)):
                self.inbox += data
                room -= len(data)

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes. Raises `EOFError` if the client ends before."""
        while len(self.inbox) < count:
            if not self.fill():
                raise EOFError
        data = bytes(memoryview(self.inbox)[:count])
        del self.inbox[:count]
        return data

    def read_line(self, most: int) -> bytes:
        """Return the next line, of less than `most` bytes. Raises `EOFError`, `RefusedError`."""
        while (end := self.inbox.find(b"\n", 0, most)) < 0:
            if len(self.inbox) >= most:
                raise RefusedError(f"a header has at most {most} bytes")
            if not self.fill():
                raise EOFError
        return self.read(end + 1)

    # ---- What it gets

    def confirm_later(self, reply: bytes, rows: int) -> None:
        """Send a reply when the rows that were just appended are on disk."""
        self._replies.append(reply)
        self.unconfirmed += rows
        if len(self._replies) >= MOST_UNCONFIRMED:
            self.confirm()

    def confirm(self) -> None:
        """Send the replies to all that was stored. Raises `OSError`, `DisconnectedError`."""
        if self._replies:
            self.port.sync()
            self.say(b"".join(self._replies))
            self._replies, self.unconfirmed = [], 0

    def drop(self, reason: str) -> None:
        self.dropped[reason] += 1
        self.port.drop(reason)

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

    def end(self) -> None:
        """Prepare a close in good order; if lines were dropped, say so instead."""
        if self.dropped:
            self.say(dropped_line(self.dropped))
            return
        with suppress(OSError):  # a client that did not wait for it
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.settimeout(POLL_SECONDS)
                self._socket.unwrap()
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)

    def close(self) -> None:
        """Close: with a reset, except after `end`."""
        self._socket.close()

    def interrupt(self) -> None:
        """End the thread's wait for the client; another thread calls this."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RD)
