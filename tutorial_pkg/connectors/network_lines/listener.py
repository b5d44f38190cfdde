"""From sockets to the segment log: one thread per port, and no work per line.

A port's thread waits for its sockets and reads what has arrived into one buffer: the whole lines of
one connection, then those of the next (`line_buffer`). The buffer becomes a frame of the log as
soon as nothing more is there to read, or when it is full or old. A client that waits for replies
has a dialogue (`named`, `relp`); each of its blocks becomes a frame.

A connection that has ended waits until its lines are on disk (`confirm`). Then it is closed in good
order; in any other case it is reset. So a sender that waits for the close, as `send_lines` does,
knows whether all its lines will survive a power failure.
"""

from __future__ import annotations

import copy
import ipaddress
import logging
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tutorial_pkg.connectors.network_lines.confirm import Confirmations
from tutorial_pkg.connectors.network_lines.connection import Block, Connection, State
from tutorial_pkg.connectors.network_lines.first_bytes import HEAD_BYTES, check_tls, is_named
from tutorial_pkg.connectors.network_lines.line_buffer import FRAME_BYTES, LineBuffer, PortLimits
from tutorial_pkg.connectors.network_lines.named import NamedSender
from tutorial_pkg.connectors.network_lines.payload import with_note
from tutorial_pkg.connectors.network_lines.ports import bind_all, have_descriptors
from tutorial_pkg.connectors.network_lines.positions import Positions
from tutorial_pkg.connectors.network_lines.relp import RelpSession
from tutorial_pkg.connectors.network_lines.status import PortStatus, status_file
from tutorial_pkg.connectors.network_lines.tls import SecureSocket, ServerTls, TlsFiles
from tutorial_pkg.connectors.network_lines.wire import RefusedError, named_refusal, refusal
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS
from tutorial_pkg.durable_log.status import StatusPublisher

FRAME_SECONDS = 0.005  # longest wait for more lines
POLL_SECONDS = 0.1
FULL_SECONDS = 0.02
SWEEP_SECONDS = 0.5
HANDSHAKE_SECONDS = 10.0
REFUSED_SECONDS = 1.0
MOST_REPORTED = 1_000  # different refusals of a port in the log

_log = logging.getLogger(__name__)


class Listener:
    """Listens on ports, each with its log, and publishes how they are doing.

    Raises `OSError` that names host and port if one is not free within `patience` seconds, or that
    names the system's limit that is too low; then no port stays open.
    """

    def __init__(
        self,
        directory: Path,
        host: str,
        ports: Sequence[int],
        backlog: Backlog,
        limits: PortLimits,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE_SECONDS,
        tls: TlsFiles | None = None,
    ) -> None:
        self.backlog = backlog
        have_descriptors(len(ports), limits.connections)
        logs = backlog.logs.values()
        positions = Positions(logs, limits.forget_seconds, limits.certified_names)
        warnings = [log.repair for log in logs if log.repair]
        self._publisher = StatusPublisher(status_file(directory), self._status, warnings)
        server_tls = [ServerTls(tls, self._publisher.warn) if tls else None for _ in ports]
        sockets = bind_all(host, ports, patience)
        self._ports = {
            port: PortListener(port, sockets[port], backlog, limits, positions, clock, port_tls)
            for port, port_tls in zip(ports, server_tls, strict=True)
        }
        if not tls and not is_loopback(sockets[ports[0]]):
            self._publisher.warn(_UNPROTECTED.format(host=host))
        for thread in (*self._ports.values(), self._publisher):
            thread.start()
        _log.info("listening on %s, ports %s%s", host, [*ports], ", with TLS" if tls else "")

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


_UNPROTECTED = (
    "{host} can be reached from other machines, and anyone there may send lines, unencrypted; set "
    "the options `tlsCertificate`, `tlsKey`, `tlsClientCa` and `allowedClients`, or keep strangers "
    "away with a firewall"
)


def is_loopback(listening: socket.socket) -> bool:
    """Return whether only this machine can connect."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


class PortListener(threading.Thread):
    """One port's thread. `failure` is the error that ended it, `status` has its counters.

    Read it from `run` down: a turn of its loop, then what can happen to a connection, in the order
    of its states: accepted, shaking hands, open (`_read`), ended, or refused.
    """

    def __init__(
        self,
        port: int,
        listening: socket.socket,
        backlog: Backlog,
        limits: PortLimits,
        positions: Positions,
        clock: Callable[[], float],
        tls: ServerTls | None,
    ) -> None:
        super().__init__(name=f"port {port}", daemon=True)
        self.failure: BaseException | None = None
        self.status = PortStatus()
        self._port, self._listening = port, listening
        self._backlog, self._log = backlog, backlog.logs[port]
        self._limits, self._positions, self._tls = limits, positions, tls
        self._clock = clock
        self._patience = {
            State.NEW: HANDSHAKE_SECONDS,
            State.SHAKING_HANDS: HANDSHAKE_SECONDS,
            State.OPEN: limits.idle_seconds,
            State.ENDED: math.inf,
            State.REFUSED: REFUSED_SECONDS,
        }
        self._stopping = threading.Event()
        self._connections: set[Connection] = set()
        self._buffer = LineBuffer(limits, self.status)
        self._client: str | None = None  # the sender of the buffer's lines
        self._reported: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = _pair()
        self._selector.register(self._wakes, selectors.EVENT_READ, lambda _: self._wakes.recv(4096))
        self._confirmations = Confirmations(self._log, self._wake)
        self._accepting = False
        self._next_sweep = 0.0

    def run(self) -> None:
        try:
            self._accept_if_free()
            while not self._stopping.is_set():
                self._turn()
            self._write_frames()
            for confirm in self._confirmations.finish():
                confirm()
        except BaseException as failure:  # for the query, which calls raise_failure()
            self.failure = failure
        finally:
            self._close_all()

    def stop(self) -> None:
        """Have the thread end soon; any thread may call this."""
        self._stopping.set()
        self._wake()

    def _turn(self) -> None:
        for confirm in self._confirmations.due():
            confirm()
        if self._backlog.full:
            self._pause()
            return
        ready = self._selector.select(0 if self._buffer.filled else POLL_SECONDS)
        for key, events in ready:
            key.data(events)
        if not ready or self._buffer.age() > FRAME_SECONDS:
            self._write_frames()
        self._sweep()  # last, after reading: a client with waiting lines is not idle

    def _pause(self) -> None:
        """Read no socket, so that TCP slows the senders down; that does not make them idle."""
        self._write_frames()
        self._stopping.wait(FULL_SECONDS)
        for connection in self._connections:
            connection.active_at = time.monotonic()

    def _wake(self) -> None:
        """End the thread's wait for sockets; any thread may call this."""
        try:
            self._waker.send(b"!")
        except OSError:  # many wakes are under way already, or the thread has ended
            return

    # ---- New connections -------------------------------------------------------------------------

    def _accept_if_free(self) -> None:
        """Accept while there is a slot; other clients wait in the system's queue."""
        free = len(self._connections) < self._limits.connections
        if free and not self._accepting:
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        elif self._accepting and not free:
            self._selector.unregister(self._listening)
        self._accepting = free

    def _accept(self, _: int) -> None:
        try:
            while len(self._connections) < self._limits.connections:
                client, address = self._listening.accept()
                self._add(Connection(client, address[0], State.NEW if self._tls else State.OPEN))
        except BlockingIOError:
            pass
        except OSError:  # perhaps no file descriptor is left: the next sweep tries again
            self._selector.unregister(self._listening)
            self._accepting = False
            return
        self._accept_if_free()

    def _add(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.status.connections = len(self._connections)
        self._watch(connection)
        if connection.state is State.OPEN:
            self._open(connection)

    def _watch(self, connection: Connection) -> None:
        """Have the selector call `_on_ready`; also for writing if something is unsent."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        known = connection.socket in self._selector.get_map()
        change = self._selector.modify if known else self._selector.register
        change(connection.socket, events, partial(self._on_ready, connection))

    def _unwatch(self, connection: Connection) -> None:
        if connection.socket in self._selector.get_map():
            self._selector.unregister(connection.socket)

    def _on_ready(self, connection: Connection, events: int) -> None:
        if events & selectors.EVENT_WRITE and not self._say(connection, b""):
            return
        if not events & selectors.EVENT_READ:
            return
        if connection.state is State.OPEN:
            self._read(connection)
        else:
            self._secure(connection)

    def _secure(self, connection: Connection) -> None:
        """Take the next step of TLS: look at the first bytes, then shake hands."""
        assert self._tls
        try:
            if connection.state is State.NEW:
                self._look_for_tls(connection)
            if isinstance(connection.socket, SecureSocket):
                connection.names = self._tls.shake_hands(connection.socket)
                connection.active_at = time.monotonic()
                connection.state = State.OPEN
                self._tls.check(connection.names)
                self._open(connection)
        except BlockingIOError:
            return
        except RefusedError as refused:
            self._refuse(connection, refused)
        except OSError:
            self._break(connection)
        else:
            if connection.has_more:
                self._read(connection)

    def _look_for_tls(self, connection: Connection) -> None:
        """Make the socket secure if the client begins with TLS."""
        plain = connection.socket
        assert self._tls and not isinstance(plain, SecureSocket)
        head = plain.recv(HEAD_BYTES, socket.MSG_PEEK)
        if not head:
            raise RefusedError("handshake", "the client broke it off")
        connection.named = is_named(head)
        check_tls(head)
        self._unwatch(connection)
        connection.socket, connection.state = self._tls.wrap(plain), State.SHAKING_HANDS
        self._watch(connection)

    def _open(self, connection: Connection) -> None:
        self.status.accepted += 1
        if self._limits.relp:
            parts = connection, self._positions, self._log, self._limits, self.status
            connection.dialogue = RelpSession(*parts)

    # ---- Open connections ------------------------------------------------------------------------

    def _read(self, connection: Connection) -> None:
        """Read all that TLS holds, or once from a plain socket."""
        more = True
        while more:
            if self._buffer.filled >= FRAME_BYTES or connection.client != self._client:
                self._write_frames()
                self._client = connection.client
            try:
                count = connection.socket.recv_into(self._buffer.room(connection))
            except BlockingIOError:
                return
            except OSError:
                self._break(connection)
                return
            try:
                self._take(connection, count)
            except RefusedError as refused:
                self._refuse(connection, refused)
            more = connection.state is State.OPEN and connection.has_more

    def _take(self, connection: Connection, count: int) -> None:
        """Hand what was read to the connection's protocol. Raises `RefusedError`."""
        if count == 0:
            self._end(connection)
        elif connection.dialogue:
            blocks = connection.dialogue.take(self._buffer.room(connection)[:count])
            while block := self._next_block(connection, blocks):
                self._store(connection, block)
        else:
            with only_refusals(connection.peer):
                greeting = self._buffer.take(connection, count)
            if greeting:
                self._greet(connection, greeting)

    def _greet(self, connection: Connection, greeting: bytes) -> None:
        """Welcome a sender with a name."""
        parts = connection, self._positions, self._log, self._limits
        with only_refusals(connection.peer):
            connection.dialogue = sender = NamedSender(greeting, *parts)
            welcome = sender.welcome()
        self._say(connection, welcome)

    def _next_block(self, connection: Connection, blocks: Iterator[Block]) -> Block | None:
        with only_refusals(connection.peer):
            return next(blocks, None)

    def _store(self, connection: Connection, block: Block) -> None:
        assert connection.dialogue
        connection.dialogue.append(block)
        self.status.bytes += len(block.lines)
        self.status.lines += block.rows
        self._confirmations.add(partial(self._reply, connection, block.reply, block.rows))

    def _reply(self, connection: Connection, reply: bytes, rows: int) -> None:
        """Say that `rows` are on disk; a sender that does not learn it may send them again."""
        if connection not in self._connections or not self._say(connection, reply):
            self.status.unconfirmed += rows

    def _say(self, connection: Connection, text: bytes) -> bool:
        """Send `text` and what is unsent; return whether the client is still there."""
        watched = bool(connection.unsent)
        try:
            connection.say(text)
        except OSError:
            self._break(connection)
            return False
        if connection.state is State.OPEN and bool(connection.unsent) != watched:
            self._watch(connection)
        return True

    def _write_frames(self) -> None:
        """Write the buffer's lines to the log."""
        received_at = int(self._clock() * 1_000_000)
        for lines, rows in self._buffer.frames():
            payload = with_note(
                lines, client=self._client, positions=self._positions.copies(self._log)
            )
            self._log.append(payload, rows, received_at)
            self.status.bytes += len(lines)
            self.status.lines += rows
        self._buffer.filled = 0

    # ---- Ends ------------------------------------------------------------------------------------

    def _end(self, connection: Connection) -> None:
        """The client has ended: it keeps its slot until its lines are on disk."""
        if connection.dialogue:
            connection.dialogue.end()
        self._retire(connection, State.ENDED)
        self._buffer.end(connection)
        self._write_frames()
        self._confirmations.add(partial(self._confirm, connection))

    def _confirm(self, connection: Connection) -> None:
        """All lines of the connection are on disk."""
        if connection in self._connections:
            connection.confirm()
            self._forget(connection)

    def _refuse(self, connection: Connection, why: RefusedError) -> None:
        """Count it, report it, and tell the client, who gets a moment to read it.

        A reset would take the text away again.
        """
        refused = self.status.refused  # replaced, as another thread may be copying it
        self.status.refused = {**refused, why.reason: refused.get(why.reason, 0) + 1}
        self.status.last_refused = report = f"{connection.peer}: {why}"
        if report not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(report)
            _log.warning("port %d refused %s", self._port, report)
        if connection.dialogue:
            text = connection.dialogue.refusal(why)
        else:
            text = named_refusal(why, why.reason == "in_use") if connection.named else refusal(why)
        shaking_hands = connection.state is State.SHAKING_HANDS
        self._retire(connection, State.REFUSED)
        self._buffer.drop_tail(connection)
        if not shaking_hands:
            self._say(connection, text)

    def _retire(self, connection: Connection, state: State) -> None:
        """Read nothing more from a connection."""
        self._unwatch(connection)
        connection.state = state
        connection.active_at = time.monotonic()

    def _sweep(self) -> None:
        """Now and then, end connections that are in one state for too long."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_SECONDS
        for connection in list(self._connections):
            state = connection.state
            if now - connection.active_at <= self._patience[state]:
                continue
            if state in (State.NEW, State.SHAKING_HANDS):
                text = f"no handshake within {HANDSHAKE_SECONDS:.0f} s"
                self._refuse(connection, RefusedError("timeout", text))
            else:
                self.status.idle_closed += state is State.OPEN
                self._break(connection)
        self._accept_if_free()

    def _break(self, connection: Connection) -> None:
        """Reset the connection; the start of a line that it leaves is dropped."""
        if connection.state not in (State.ENDED, State.REFUSED):
            self._unwatch(connection)
            self._buffer.drop_tail(connection)
        connection.reset()
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.dialogue:
            connection.dialogue.close()
        self.status.connections = len(self._connections)
        self._accept_if_free()

    def _close_all(self) -> None:
        self._confirmations.close()
        for connection in list(self._connections):
            self._break(connection)
        self._selector.close()
        for end in (self._listening, self._wakes, self._waker):
            end.close()
        self.status.listening = False


@contextmanager
def only_refusals(peer: str) -> Iterator[None]:
    """Refuse `peer` for any error: nothing that a client sends may end the port for the others."""
    try:
        yield
    except (RefusedError, OSError):  # an OSError is the disk's
        raise
    except Exception as error:
        _log.exception("%s is refused because of an error in the receiver", peer)
        raise RefusedError("sender", f"the receiver cannot read this: {error!r:.80}") from error


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets that do not block: the first receives what the second sends."""
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return pair
