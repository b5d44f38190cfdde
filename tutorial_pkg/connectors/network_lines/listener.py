"""From sockets to the segment log: one thread per port, and no work per line.

A port's thread reads whatever its connections have sent into one buffer: the whole lines of one
connection, then those of the next. The beginning of an unfinished line is kept aside, with its
connection, until its end arrives; so lines of different senders are never mixed. The buffer goes
into the log as one frame as soon as nothing more is there to read, or when it is full, or old.

A connection is closed in good order only after its lines are in the log; in any other case, the
death of the process included, it is reset. So a sender that waits for the close (`send_lines`
does) knows whether its lines have arrived.
"""

from __future__ import annotations

import copy
import errno
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutorial_pkg.connectors.network_lines.status import PortStatus, publish
from tutorial_pkg.core.log_group import Backlog
from tutorial_pkg.core.segment_log import PATIENCE_SECONDS, RETRY_SECONDS

FRAME_BYTES = 1024 * 1024
UNLIMITED = 2**31
RECEIVE_BYTES = 256 * 1024
FRAME_SECONDS = 0.02
POLL_SECONDS = 0.1
SWEEP_SECONDS = 0.5
PUBLISH_SECONDS = 0.25
WAITING_CONNECTIONS = 1024

# What SO_LINGER makes of a close: a reset, or good order.
_RESET = struct.pack("ii", 1, 0)
_GOOD_ORDER = struct.pack("ii", 0, 0)

_NEWLINE = b"\n"


@dataclass(frozen=True)
class Limits:
    """What one port accepts; a frame has at most `frame_rows` rows, `frame_bytes` bytes."""

    line_bytes: int
    connections: int
    idle_seconds: float
    frame_rows: int = UNLIMITED
    frame_bytes: int = UNLIMITED


class Listener:
    """Listens on ports, each with a log of its own, and publishes how they do.

    Raises `OSError` that names host and port if one cannot be had within `patience` seconds; then
    none is held.
    """

    def __init__(
        self,
        directory: Path,
        host: str,
        ports: Sequence[int],
        backlog: Backlog,
        limits: Limits,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._directory = directory
        self.backlog = backlog
        self._warnings = [log.repair for log in backlog.logs.values() if log.repair]
        self._stopping = threading.Event()
        sockets = _bind_all(host, ports, patience)
        self._ports = {
            port: PortListener(port, sockets[port], backlog, limits, clock, self._stopping)
            for port in ports
        }
        self._publisher = threading.Thread(target=self._publish, name="status", daemon=True)
        for thread in (*self._ports.values(), self._publisher):
            thread.start()

    def raise_failure(self) -> None:
        """Raise the error that ended a port's thread, if one did."""
        for port in self._ports.values():
            if port.failure:
                raise port.failure

    def close(self) -> None:
        """Close all connections and ports; whole lines that were received are in the logs."""
        self._stopping.set()
        for thread in (*self._ports.values(), self._publisher):
            thread.join()

    def _publish(self) -> None:
        published: dict[int, PortStatus] = {}
        while not self._stopping.is_set():
            published = self._publish_changes(published)
            self._stopping.wait(PUBLISH_SECONDS)
        for port in self._ports.values():
            port.join()
        self._publish_changes(published)

    def _publish_changes(self, published: dict[int, PortStatus]) -> dict[int, PortStatus]:
        for number, port in self._ports.items():
            port.status.backlog_bytes = self.backlog.of(number)
        current = {number: copy.deepcopy(port.status) for number, port in self._ports.items()}
        if current != published:
            publish(self._directory, current, self._warnings)
        return current


class PortListener(threading.Thread):
    """One port's thread. `failure` is what ended it, `status` its counters."""

    def __init__(
        self,
        port: int,
        listening: socket.socket,
        backlog: Backlog,
        limits: Limits,
        clock: Callable[[], float],
        stopping: threading.Event,
    ) -> None:
        super().__init__(name=f"port {port}", daemon=True)
        self.failure: Exception | None = None
        self.status = PortStatus()
        self._listening = listening
        self._backlog = backlog
        self._log = backlog.logs[port]
        self._limits = limits
        self._clock = clock
        self._stopping = stopping
        self._connections: set[_Connection] = set()
        self._buffer = _LineBuffer(limits, self.status.dropped)
        self._selector = selectors.DefaultSelector()
        self._accepting = False
        self._next_sweep = 0.0

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
            self._flush()
        except Exception as failure:  # for the query, which asks with raise_failure()
            self.failure = failure
        finally:
            self._close_all()

    def _turn(self) -> None:
        if self._backlog.full:
            self._wait_for_room()
            return
        self._sweep()
        ready = self._selector.select(0 if self._buffer.filled else POLL_SECONDS)
        for key, _ in ready:
            if key.data is None:
                self._accept()
            else:
                self._receive(key.data)
        if not ready or self._buffer.age() > FRAME_SECONDS:
            self._flush()

    def _wait_for_room(self) -> None:
        """Read no socket, so that TCP slows the senders; nobody is idle for that reason."""
        self._flush()
        self._stopping.wait(POLL_SECONDS)
        for connection in self._connections:
            connection.last_line = time.monotonic()

    def _accept(self) -> None:
        """Take in all senders that wait, as long as there are slots."""
        while len(self._connections) < self._limits.connections:
            try:
                client, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # perhaps no file descriptor is left: the next sweep tries again
                break
            self._add(client)
        self._stop_accepting()

    def _add(self, client: socket.socket) -> None:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection = _Connection(client)
        self._connections.add(connection)
        self._selector.register(client, selectors.EVENT_READ, connection)
        self.status.accepted += 1
        self.status.connections = len(self._connections)

    def _stop_accepting(self) -> None:
        """Further senders wait in the system's queue; refused, they would lose what they sent."""
        self._selector.unregister(self._listening)
        self._accepting = False

    def _resume_accepting(self) -> None:
        if not self._accepting and len(self._connections) < self._limits.connections:
            self._selector.register(self._listening, selectors.EVENT_READ, None)
            self._accepting = True

    def _receive(self, connection: _Connection) -> None:
        if self._buffer.filled >= FRAME_BYTES:
            self._flush()
        try:
            count = self._buffer.receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._close_broken(connection)
            return
        if count == 0:
            self._buffer.end(connection)
            self._flush()
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _GOOD_ORDER)
            self._close(connection)

    def _flush(self) -> None:
        """Write the buffer's lines to the log."""
        received_at = int(self._clock() * 1_000_000)
        for payload, rows in self._buffer.frames():
            self._log.append(payload, rows, received_at)
            self.status.bytes += len(payload)
            self.status.lines += rows
        self._buffer.filled = 0

    def _sweep(self) -> None:
        """Now and then: close idle connections, accept again if a slot came free."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        last = now - self._limits.idle_seconds
        for connection in [each for each in self._connections if each.last_line < last]:
            self.status.idle_closed += 1
            self._close_broken(connection)
        self._resume_accepting()

    def _close_broken(self, connection: _Connection) -> None:
        """Reset the connection; the beginning of a line that it leaves is no line."""
        if connection.tail:
            self.status.dropped["unterminated"] += 1
        self._close(connection)

    def _close(self, connection: _Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self._connections.discard(connection)
        self.status.connections = len(self._connections)
        self._resume_accepting()

    def _close_all(self) -> None:
        for connection in list(self._connections):
            self._close_broken(connection)
        self._selector.close()
        self._listening.close()
        self.status.listening = False


class _Connection:
    """A sender: its socket, and the beginning of a line whose end has not arrived.

    `last_line` is when it last ended a line (a single byte now and then keeps no slot), and
    `skipping` says that it is in the middle of a line that is too long.
    """

    __slots__ = ("last_line", "skipping", "socket", "tail")

    def __init__(self, client: socket.socket) -> None:
        self.socket = client
        self.tail = bytearray()
        self.skipping = False
        self.last_line = time.monotonic()


class _LineBuffer:
    """Whole lines of several connections, side by side, on their way into frames."""

    def __init__(self, limits: Limits, dropped: dict[str, int]) -> None:
        self._limits = limits
        self._dropped = dropped
        # No more than a line at once: so only the first of the lines received can be too long.
        self._chunk = min(RECEIVE_BYTES, limits.line_bytes)
        self._bytes = bytearray(FRAME_BYTES + limits.line_bytes + self._chunk)
        self._view = memoryview(self._bytes)
        self._first_at = 0.0
        self.filled = 0

    def age(self) -> float:
        """Seconds since the oldest line in the buffer came."""
        return time.monotonic() - self._first_at if self.filled else 0.0

    def receive(self, connection: _Connection) -> int:
        """Read `connection` once; the number of bytes, 0 at its end. Raises `OSError`."""
        start = self.filled + len(connection.tail)  # the tail's place, should the line end here
        count = connection.socket.recv_into(self._view[start : start + self._chunk])
        end = start + count
        last_newline = self._bytes.rfind(_NEWLINE, start, end)
        if last_newline < 0:
            self._keep(connection, self._view[start:end])
        else:
            self._take_lines(connection, start, last_newline + 1)
            connection.tail = bytearray(self._view[last_newline + 1 : end])
        return count

    def end(self, connection: _Connection) -> None:
        """A sender that closes in good order may leave out the last newline."""
        if connection.tail:
            connection.tail += _NEWLINE
            self._add(connection.tail)
            connection.tail = bytearray()

    def frames(self) -> Iterator[tuple[memoryview, int]]:
        """The buffer's lines, with their number, in as few frames as the limits allow."""
        return self._cut(0, self.filled) if self.filled else iter(())

    def _keep(self, connection: _Connection, data: memoryview) -> None:
        """No newline: the line goes on, unless it is too long already."""
        if connection.skipping:
            return
        connection.tail += data
        if len(connection.tail) > self._limits.line_bytes:
            self._dropped["too_long"] += 1
            connection.tail, connection.skipping = bytearray(), True

    def _take_lines(self, connection: _Connection, start: int, end: int) -> None:
        """Put the tail before the lines received behind it, or drop both if that is too long."""
        connection.last_line = time.monotonic()
        first_newline = self._bytes.find(_NEWLINE, start, end)
        too_long = first_newline - self.filled > self._limits.line_bytes
        if too_long or connection.skipping:
            self._dropped["too_long"] += not connection.skipping
            connection.skipping = False
            self._add(self._view[first_newline + 1 : end])
        else:
            self._view[self.filled : start] = connection.tail
            self._fill(end)

    def _add(self, lines: bytearray | memoryview) -> None:
        end = self.filled + len(lines)
        self._view[self.filled : end] = lines
        self._fill(end)

    def _fill(self, end: int) -> None:
        if not self.filled:
            self._first_at = time.monotonic()
        self.filled = end

    def _cut(self, start: int, end: int) -> Iterator[tuple[memoryview, int]]:
        """One frame if it is within the limits; else two halves, cut again if need be."""
        rows = _count_lines(self._view[start:end])
        fits = rows <= self._limits.frame_rows and end - start <= self._limits.frame_bytes
        if fits or rows == 1:
            yield self._view[start:end], rows
            return
        middle = self._bytes.rfind(_NEWLINE, start, (start + end) // 2) + 1
        if middle == 0:
            middle = self._bytes.find(_NEWLINE, start, end) + 1
        yield from self._cut(start, middle)
        yield from self._cut(middle, end)


def _count_lines(lines: memoryview) -> int:
    """Four times as fast as `bytes.count`, and other threads may run meanwhile."""
    return int(np.count_nonzero(np.frombuffer(lines, np.uint8) == ord(_NEWLINE)))


def _bind_all(host: str, ports: Sequence[int], patience: float) -> dict[int, socket.socket]:
    """A listening socket for each port, or none and an error."""
    deadline = time.monotonic() + patience
    sockets: dict[int, socket.socket] = {}
    try:
        for port in ports:
            sockets[port] = _bind(host, port, deadline)
    except OSError:
        for bound in sockets.values():
            bound.close()
        raise
    return sockets


def _bind(host: str, port: int, deadline: float) -> socket.socket:
    """Listen on a port, which a query that was just killed may hold for some seconds more."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        try:
            bound = socket.create_server((host, port), family=family, backlog=WAITING_CONNECTIONS)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise OSError(error.errno, _bind_text(host, port, error)) from None
            time.sleep(RETRY_SECONDS)
        else:
            bound.setblocking(False)
            return bound


def _bind_text(host: str, port: int, error: OSError) -> str:
    reason = str(error.strerror).split(" (")[0]
    return (
        f"cannot listen on {host}:{port}: {reason}. If another program or query "
        "uses it, stop that one or choose another option `port`; `host` must be an address of "
        "this machine"
    )
