"""From sockets to the segment log: one thread per port, and no work per line.

A port's thread reads whatever its connections have sent into one buffer: the whole lines of one
connection, then those of the next (`whole_lines`). The buffer goes into the log as one frame as
soon as nothing more is there to read, or when it is full, or old.

A connection that has ended waits until its lines are on disk (`confirm`); then it is closed in
good order, in any other case it is reset (`connection`). So a sender that waits for the close, as
`send_lines` does, knows whether all its lines will survive a power failure.
"""

from __future__ import annotations

import copy
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from tutorial_pkg.connectors.network_lines.confirm import Confirmation
from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.ports import bind_all, have_descriptors
from tutorial_pkg.connectors.network_lines.status import PortStatus, status_file
from tutorial_pkg.connectors.network_lines.whole_lines import (
    FRAME_BYTES,
    Limits,
    LineBuffer,
)
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS
from tutorial_pkg.durable_log.status import StatusPublisher

FRAME_SECONDS = 0.005  # so long a line waits at most for company, while others come
POLL_SECONDS = 0.1
FULL_SECONDS = 0.02
SWEEP_SECONDS = 0.5


class Listener:
    """Listens on ports, each with a log of its own, and publishes how they do.

    Raises `OSError` that names host and port if one cannot be had within `patience` seconds, or
    that tells which limit of the system is too low; then no port is held.
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
        self.backlog = backlog
        have_descriptors(len(ports), limits.connections)
        sockets = bind_all(host, ports, patience)
        self._ports = {
            port: PortListener(port, sockets[port], backlog, limits, clock) for port in ports
        }
        repairs = [log.repair for log in backlog.logs.values() if log.repair]
        self._publisher = StatusPublisher(status_file(directory), self._status, repairs)
        for thread in (*self._ports.values(), self._publisher):
            thread.start()

    def raise_failure(self) -> None:
        """Raise the error that ended a port's thread, if one did."""
        for port in self._ports.values():
            if port.failure:
                raise port.failure

    def close(self) -> None:
        """Close all connections and ports; whole lines that were received are in the logs."""
        for port in self._ports.values():
            port.stop()
        for port in self._ports.values():
            port.join()
        self._publisher.stop()

    def _status(self) -> dict[int, PortStatus]:
        for number, port in self._ports.items():
            port.status.backlog_bytes = self.backlog.of(number)
        return {number: copy.deepcopy(port.status) for number, port in self._ports.items()}


class PortListener(threading.Thread):
    """One port's thread. `failure` is what ended it, `status` its counters."""

    def __init__(
        self,
        port: int,
        listening: socket.socket,
        backlog: Backlog,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(name=f"port {port}", daemon=True)
        self.failure: Exception | None = None
        self.status = PortStatus()
        self._listening = listening
        self._backlog = backlog
        self._log = backlog.logs[port]
        self._limits = limits
        self._clock = clock
        self._stopping = threading.Event()
        self._connections: set[Connection] = set()
        self._ended: list[Connection] = []
        self._buffer = LineBuffer(limits, self.status)
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = _pair()
        self._selector.register(self._wakes, selectors.EVENT_READ, self._wakes_seen)
        self._confirmation = Confirmation(self._log, self._wake)
        self._accepting = False
        self._next_sweep = 0.0

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
            self._flush()
            self._confirm(self._confirmation.finish())
        except Exception as failure:  # for the query, which asks with raise_failure()
            self.failure = failure
        finally:
            self._close_all()

    def stop(self) -> None:
        """Have the thread end soon; any thread may ask."""
        self._stopping.set()
        self._wake()

    def _turn(self) -> None:
        self._confirm(self._confirmation.done())
        if self._backlog.full:
            self._wait_for_room()
            return
        self._sweep()
        ready = self._selector.select(0 if self._buffer.filled else POLL_SECONDS)
        for key, _ in ready:
            key.data()
        if not ready or self._ended or self._buffer.age() > FRAME_SECONDS:
            self._flush()

    def _wait_for_room(self) -> None:
        """Read no socket, so that TCP slows the senders; nobody is idle for that reason."""
        self._flush()
        self._stopping.wait(FULL_SECONDS)
        for connection in self._connections:
            connection.last_line = time.monotonic()

    def _wake(self) -> None:
        """End the thread's wait for sockets; any thread may do that."""
        try:
            self._waker.send(b"!")
        except OSError:  # as many wakes are under way as fit, or the thread has ended
            return

    def _wakes_seen(self) -> None:
        self._wakes.recv(4096)

    def _accept(self) -> None:
        """Take in all senders that wait, as long as there are slots."""
        while len(self._connections) < self._limits.connections:
            try:
                client, _ = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # perhaps no file descriptor is left: the next sweep tries again
                break
            self._add(Connection(client))
        self._stop_accepting()

    def _add(self, connection: Connection) -> None:
        self._connections.add(connection)
        receive = partial(self._receive, connection)
        self._selector.register(connection.socket, selectors.EVENT_READ, receive)
        self.status.accepted += 1
        self.status.connections = len(self._connections)

    def _stop_accepting(self) -> None:
        """Further senders wait in the system's queue; refused, they would lose what they sent."""
        self._selector.unregister(self._listening)
        self._accepting = False

    def _resume_accepting(self) -> None:
        if not self._accepting and len(self._connections) < self._limits.connections:
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
            self._accepting = True

    def _receive(self, connection: Connection) -> None:
        if self._buffer.filled >= FRAME_BYTES:
            self._flush()
        try:
            count = self._buffer.receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._break(connection)
            return
        if count == 0:
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        """It keeps its slot until its lines are on disk."""
        self._selector.unregister(connection.socket)
        self._buffer.end(connection)
        connection.ended = True
        self._ended.append(connection)

    def _flush(self) -> None:
        """Write the buffer's lines to the log; those that have ended wait for the disk now."""
        received_at = int(self._clock() * 1_000_000)
        for payload, rows in self._buffer.frames():
            self._log.append(payload, rows, received_at)
            self.status.bytes += len(payload)
            self.status.lines += rows
        self._buffer.filled = 0
        self._confirmation.add(self._ended)
        self._ended = []

    def _confirm(self, connections: Iterable[Connection]) -> None:
        for connection in connections:
            connection.confirm()
            self._forget(connection)

    def _sweep(self) -> None:
        """Now and then: close idle connections, accept again if a slot came free."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        last = now - self._limits.idle_seconds
        for connection in [each for each in self._connections if each.last_line < last]:
            if not connection.ended:
                self.status.idle_closed += 1
                self._break(connection)
        self._resume_accepting()

    def _break(self, connection: Connection) -> None:
        """Reset the connection; the beginning of a line that it leaves is no line."""
        if not connection.ended:
            self._selector.unregister(connection.socket)
            self._buffer.give_up(connection)
        connection.reset()
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.status.connections = len(self._connections)
        self._resume_accepting()

    def _close_all(self) -> None:
        self._confirmation.close()
        for connection in list(self._connections):
            self._break(connection)
        self._selector.close()
        for each in (self._listening, self._wakes, self._waker):
            each.close()
        self.status.listening = False


def _pair() -> tuple[socket.socket, socket.socket]:
    """What is sent to the second one, the first one receives; neither waits."""
    pair = socket.socketpair()
    for each in pair:
        each.setblocking(False)
    return pair
