"""From sockets to the segment log: one thread per port, and no work per line.

A client goes through up to three states, each a function that the selector calls: it shakes hands
(`_shake_hands`, with TLS), sends lines (`_receive`), or speaks a protocol (`_converse`).

A port's thread reads whatever its connections have sent into one buffer: the whole lines of one
connection, then those of the next (`whole_lines`). The buffer goes into the log as one frame as
soon as nothing more is there to read, or when it is full, or old.

A connection that has ended waits until its lines are on disk (`confirm`); then it is closed in
good order, in any other case it is reset (`connection`). So a sender that waits for the close, as
`send_lines` does, knows whether all its lines will survive a power failure.
"""

from __future__ import annotations

import copy
import ipaddress
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tutorial_pkg.connectors.network_lines.confirm import Action, Confirmation
from tutorial_pkg.connectors.network_lines.connection import (
    Block,
    Connection,
    RefusedError,
    refusal,
)
from tutorial_pkg.connectors.network_lines.named import NamedDialogue, named_refusal
from tutorial_pkg.connectors.network_lines.names import Names
from tutorial_pkg.connectors.network_lines.notes import about, with_note
from tutorial_pkg.connectors.network_lines.ports import bind_all, have_descriptors
from tutorial_pkg.connectors.network_lines.relp import RelpDialogue
from tutorial_pkg.connectors.network_lines.secure_socket import SecureSocket
from tutorial_pkg.connectors.network_lines.status import PortStatus, status_file
from tutorial_pkg.connectors.network_lines.tls import ServerTls, TlsFiles
from tutorial_pkg.connectors.network_lines.whole_lines import (
    FRAME_BYTES,
    RECEIVE_BYTES,
    LineBuffer,
    PortLimits,
)
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS
from tutorial_pkg.durable_log.status import StatusPublisher

FRAME_SECONDS = 0.005  # longest wait for more lines
POLL_SECONDS = 0.1
FULL_SECONDS = 0.02
SWEEP_SECONDS = 0.5
HANDSHAKE_SECONDS = 10.0
REFUSED_SECONDS = 1.0

_log = logging.getLogger(__name__)


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
        limits: PortLimits,
        clock: Callable[[], float] = time.time,
        patience: float = PATIENCE_SECONDS,
        tls: TlsFiles | None = None,
    ) -> None:
        self.backlog = backlog
        have_descriptors(len(ports), limits.connections)
        names = Names(backlog.logs.values(), limits.forget_seconds, clock)
        warnings = [log.repair for log in backlog.logs.values() if log.repair]
        self._publisher = StatusPublisher(status_file(directory), self._status, warnings)
        securities = [ServerTls(tls, self._publisher.warn) if tls else None for _ in ports]
        sockets = bind_all(host, ports, patience)
        self._ports = {
            port: PortListener(port, sockets[port], backlog, limits, names, clock, security)
            for port, security in zip(ports, securities, strict=True)
        }
        if not tls and not is_loopback(sockets[ports[0]]):
            self._publisher.warn(_UNPROTECTED.format(host=host))
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


_UNPROTECTED = (
    "{host} is reachable from other machines, and whoever reaches it may send, unencrypted; set "
    "the options `tlsCertificate`, `tlsKey`, `tlsClientCa` and `allowedClients`, or keep strangers "
    "away by a firewall"
)


def is_loopback(listening: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


@contextmanager
def only_refusals(peer: str) -> Iterator[None]:
    """Refuse `peer` for any error: nothing that a client sends may end the port for the others."""
    try:
        yield
    except RefusedError:
        raise
    except Exception as error:
        _log.exception("%s is refused, for an error of the receiver", peer)
        raise RefusedError("sender", f"the receiver cannot read this: {error!r:.80}") from error


class PortListener(threading.Thread):
    """One port's thread. `failure` is what ended it, `status` its counters."""

    def __init__(
        self,
        port: int,
        listening: socket.socket,
        backlog: Backlog,
        limits: PortLimits,
        names: Names,
        clock: Callable[[], float],
        tls: ServerTls | None,
    ) -> None:
        super().__init__(name=f"port {port}", daemon=True)
        self.failure: BaseException | None = None
        self.status = PortStatus()
        self._listening = listening
        self._backlog = backlog
        self._log = backlog.logs[port]
        self._limits = limits
        self._names = names
        self._tls = tls
        self._clock = clock
        self._stopping = threading.Event()
        self._connections: set[Connection] = set()
        self._ended: list[Connection] = []
        self._refused: deque[Connection] = deque()
        self._again: list[Connection] = []  # TLS has more of theirs, which no selector sees
        self._client: str | None = None  # whose lines are in the buffer
        self._room = memoryview(bytearray(RECEIVE_BYTES))
        self._buffer = LineBuffer(limits, self.status)
        self._selector = selectors.DefaultSelector()
        self._wakes, self._waker = _pair()
        self._selector.register(self._wakes, selectors.EVENT_READ, self._wakes_seen)
        self._confirmation = Confirmation(self._log, self._wake)
        self._accepting = False
        self._next_sweep = 0.0

    def run(self) -> None:
        try:
            self._resume_accepting()
            while not self._stopping.is_set():
                self._turn()
            self._flush()
            self._confirm(self._confirmation.finish())
        except BaseException as failure:  # for the query, which asks with raise_failure()
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
        again, self._again = self._again, []
        ready = self._selector.select(0 if self._buffer.filled or again else POLL_SECONDS)
        for key, _ in ready:
            key.data()
        for connection in again:
            self._go_on(connection)
        if not ready or self._ended or self._buffer.age() > FRAME_SECONDS:
            self._flush()
        self._sweep()  # last: whose lines were waiting is not idle, however long this was asleep

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
                client, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # perhaps no file descriptor is left: the next sweep tries again
                break
            self._add(Connection(client, address[0]))
        self._stop_accepting()

    def _add(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.status.connections = len(self._connections)
        if self._tls is None:
            self._serve(connection)
            return
        assert isinstance(connection.socket, socket.socket)
        connection.socket = self._tls.wrap(connection.socket)
        connection.shaking_hands = True
        self._listen_to(connection, self._shake_hands)

    def _serve(self, connection: Connection) -> None:
        """It may send."""
        connection.shaking_hands = False
        self.status.accepted += 1
        if self._limits.relp:
            parts = connection, self._names, self._log, self._limits, self.status
            connection.dialogue = RelpDialogue(*parts)
            self._listen_to(connection, self._converse)
        else:
            self._listen_to(connection, self._receive)

    def _listen_to(self, connection: Connection, take: Callable[[Connection], None]) -> None:
        """From now on `take` is called when the connection has something."""
        known = connection.socket in self._selector.get_map()
        change = self._selector.modify if known else self._selector.register
        change(connection.socket, selectors.EVENT_READ, partial(take, connection))

    def _shake_hands(self, connection: Connection) -> None:
        assert self._tls and isinstance(connection.socket, SecureSocket)
        try:
            connection.client = self._tls.shake_hands(connection.socket)
        except BlockingIOError:
            return
        except RefusedError as refused:
            self._refuse(connection, refused)
        else:
            connection.last_line = time.monotonic()
            self._serve(connection)
            self._go_on(connection)  # what came with the end of the handshake

    def _refuse(self, connection: Connection, why: RefusedError) -> None:
        """Count it, keep one line of why for the status, and say it if there is a way to."""
        refused = self.status.refused  # replaced, as another thread may be copying it
        self.status.refused = {**refused, why.reason: refused.get(why.reason, 0) + 1}
        self.status.last_refused = f"{connection.peer}: {why}"
        if connection.dialogue:
            connection.tell(connection.dialogue.refusal(why))
        elif connection.greeting:
            connection.tell(named_refusal(why))
        elif not connection.shaking_hands or why.reason == "name":
            connection.tell(refusal(str(why)))
        self._leave_for_a_while(connection)

    def _leave_for_a_while(self, connection: Connection) -> None:
        """Time to read why it was refused: a reset would take that away."""
        self._selector.unregister(connection.socket)
        self._buffer.give_up(connection)
        connection.ended = True
        connection.last_line = time.monotonic()
        self._refused.append(connection)

    def _stop_accepting(self) -> None:
        """Further senders wait in the system's queue; refused, they would lose what they sent."""
        self._selector.unregister(self._listening)
        self._accepting = False

    def _resume_accepting(self) -> None:
        if not self._accepting and len(self._connections) < self._limits.connections:
            self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
            self._accepting = True

    def _go_on(self, connection: Connection) -> None:
        """Without a word from the selector: TLS may hold what the socket does not show."""
        if connection in self._connections and not connection.ended:
            (self._converse if connection.dialogue else self._receive)(connection)

    def _receive(self, connection: Connection) -> None:
        if self._buffer.filled >= FRAME_BYTES or connection.client != self._client:
            self._flush()
            self._client = connection.client
        try:
            count = self._buffer.receive(connection)
        except BlockingIOError:
            return
        except OSError:
            self._break(connection)
            return
        if connection.greeting:
            self._greet(connection)
        self._after(connection, count)

    def _after(self, connection: Connection, count: int) -> None:
        if count == 0 and not connection.ended:
            self._end(connection)
        elif isinstance(connection.socket, SecureSocket) and connection.socket.has_more:
            self._again.append(connection)

    def _greet(self, connection: Connection) -> None:
        """A sender with a name: tell it where it stands."""
        parts = connection, self._names, self._log, self._limits
        try:
            with only_refusals(connection.peer):
                connection.dialogue = dialogue = NamedDialogue(*parts)
        except RefusedError as refused:
            self._refuse(connection, refused)
            return
        self._listen_to(connection, self._converse)
        self._answer(connection, dialogue.welcome, 0)

    def _converse(self, connection: Connection) -> None:
        """Blocks into the log, and their answers to where they wait for the disk."""
        dialogue = connection.dialogue
        assert dialogue
        try:
            count = connection.socket.recv_into(self._room)
        except BlockingIOError:
            return
        except OSError:
            self._break(connection)
            return
        blocks = dialogue.take(self._room[:count])
        try:
            while block := self._next_block(connection, blocks):
                self._store(connection, block)
        except RefusedError as refused:
            self._refuse(connection, refused)
        else:
            self._after(connection, count)

    def _next_block(self, connection: Connection, blocks: Iterator[Block]) -> Block | None:
        with only_refusals(connection.peer):
            return next(blocks, None)

    def _store(self, connection: Connection, block: Block) -> None:
        assert connection.dialogue
        connection.dialogue.append(block)
        self.status.bytes += len(block.lines)
        self.status.lines += block.rows
        self._confirmation.add([partial(self._answer, connection, block.answer, block.rows)])

    def _answer(self, connection: Connection, answer: bytes, rows: int) -> None:
        """Say that `rows` are on disk; a sender that cannot be reached may send them again."""
        if connection not in self._connections:
            self.status.unconfirmed += rows
        elif not connection.tell(answer):
            self.status.unconfirmed += rows
            self._break(connection)

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
            note = about(self._client, self._names.all_for(self._log))
            self._log.append(with_note(payload, note), rows, received_at)
            self.status.bytes += len(payload)
            self.status.lines += rows
        self._buffer.filled = 0
        self._confirmation.add(partial(self._close, connection) for connection in self._ended)
        self._ended = []

    def _confirm(self, actions: Iterable[Action]) -> None:
        for action in actions:
            action()

    def _close(self, connection: Connection) -> None:
        """All of it is on disk."""
        if connection in self._connections:
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
        self._sweep_strangers(now)
        self._resume_accepting()

    def _sweep_strangers(self, now: float) -> None:
        """Those that have not shaken hands in time, and refused ones whose time is over."""
        late = now - HANDSHAKE_SECONDS
        for connection in [each for each in self._connections if each.shaking_hands]:
            if connection.last_line < late and not connection.ended:
                text = f"no handshake within {HANDSHAKE_SECONDS:.0f} s"
                self._refuse(connection, RefusedError("timeout", text))
        while self._refused and self._refused[0].last_line < now - REFUSED_SECONDS:
            self._break(self._refused.popleft())

    def _break(self, connection: Connection) -> None:
        """Reset the connection; the beginning of a line that it leaves is no line."""
        if not connection.ended:
            self._selector.unregister(connection.socket)
            self._buffer.give_up(connection)
        connection.reset()
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.dialogue:
            connection.dialogue.close()
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
