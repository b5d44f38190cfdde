"""From sockets to the segment log: a thread for each port, and one for each client.

A client's thread stores whole lines (`dialogues`), and confirms them: when the client has ended its
side, and the log is on disk, it closes the connection in good order. In any other case the
connection is reset. So a sender that waits for the close, as `send_lines` does, knows whether all
its lines will survive a power failure. Senders with a name and rsyslog wait for replies. Whatever a
client sends, only that client is refused.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import resource
import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial

from tutorial_pkg.connectors.network_lines.connection import (
    POLL_SECONDS,
    Connection,
    DisconnectedError,
    IdleError,
    PortLog,
)
from tutorial_pkg.connectors.network_lines.dialogues import serve
from tutorial_pkg.connectors.network_lines.positions import Positions
from tutorial_pkg.connectors.network_lines.protocol import RefusedError
from tutorial_pkg.connectors.network_lines.status import KEY, PortStatus
from tutorial_pkg.connectors.network_lines.tls import ServerTls
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.waiting import Tries
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.lock import PATIENCE_SECONDS
from tutorial_pkg.durable_log.status import StatusPublisher

FULL_PORT_SECONDS = 0.01  # between two looks for a free connection
REFUSED_SECONDS = 1.0  # that a refused client has to read why; a reset would take it away
WAITING_CONNECTIONS = 1024
MOST_DESCRIPTORS = 10_240  # where the system names no limit, as macOS does

_log = logging.getLogger(__name__)

_UNPROTECTED = (
    "{host} can be reached from other machines, and anyone there may send lines, unencrypted; set "
    "the options `tlsCertificate`, `tlsKey`, `tlsClientCa` and `allowedClients`, or keep strangers "
    "away with a firewall"
)


class Listener:
    """Listens on ports, each with its log, and publishes how they are doing.

    Raises `OSError` that names host and port if one is not free within `patience` seconds; then no
    port stays open.
    """

    def __init__(
        self,
        group: LogGroup,
        options: OptionValues,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._group = group
        host, ports = options.host, range(options.port, options.port + options.parallelism)
        raise_descriptor_limit()
        positions = Positions(group.writers.values())
        self._publisher = StatusPublisher(group, KEY, self._status)
        self._tls = ServerTls(options, self._publisher.warn) if options.tlsCertificate else None
        sockets = bind_all(host, ports, patience)
        self.ports = {
            port: PortLog(port, group.writers[port], options, positions) for port in ports
        }
        self._clients: dict[Connection, threading.Thread] = {}
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        address = sockets[options.port].getsockname()[0]
        if not self._tls and not ipaddress.ip_address(address).is_loopback:
            self._publisher.warn(_UNPROTECTED.format(host=host))
        self._threads = [
            threading.Thread(target=self._serve_port, args=(port, sockets[number]), daemon=True)
            for number, port in self.ports.items()
        ]
        for thread in (*self._threads, self._publisher):
            thread.start()
        secured = ", with TLS" if self._tls else ""
        _log.info("listening on %s, ports %s%s", host, [*ports], secured)

    def raise_failure(self) -> None:
        """Raise the error that ended the listener, if one did."""
        if self._failure:
            raise self._failure

    def close(self) -> None:
        """Close all connections and ports; whole lines that were received are in the logs."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._publisher.stop()

    def _status(self) -> dict[int, PortStatus]:
        return {
            number: port.snapshot(self._group.backlog(number))
            for number, port in self.ports.items()
        }

    def _fail(self, failure: BaseException) -> None:
        """End soon, with an error for the query, which calls `raise_failure`."""
        self._failure = self._failure or failure
        self._stopping.set()

    # ---- In a port's thread ----------------------------------------------------------------------

    def _serve_port(self, port: PortLog, listening: socket.socket) -> None:
        try:
            while not self._stopping.is_set():
                if port.status.connections < port.options.maxConnections:
                    self._accept(port, listening)
                else:  # further clients wait in the system's queue
                    self._stopping.wait(FULL_PORT_SECONDS)
        except BaseException as failure:
            self._fail(failure)
        finally:
            listening.close()
            clients = [client for client in self._clients.copy().items() if client[0].port is port]
            for connection, _ in clients:
                connection.interrupt()
            for _, thread in clients:
                thread.join()
            port.status.listening = False

    def _accept(self, port: PortLog, listening: socket.socket) -> None:
        """Start to serve the next client, if there is one."""
        try:
            client, address = listening.accept()
            connection = Connection(client, address[0], port, self._group, self._stopping)
        except TimeoutError:
            return
        except OSError:  # it is gone already, or no file descriptor is left
            self._stopping.wait(POLL_SECONDS)
            return
        thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
        self._clients[connection] = thread
        port.count(connections=1)
        thread.start()

    # ---- In a client's thread --------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        port = connection.port
        try:
            if self._tls:
                connection.secure(self._tls)
            port.count(accepted=1)
            serve(connection)
            port.sync()
            connection.end()
        except DisconnectedError as gone:
            port.count(idle_closed=isinstance(gone, IdleError))
        except RefusedError as why:
            self._refuse(connection, why)
        except OSError as failure:  # of the disk
            self._fail(failure)
        except Exception as error:
            _log.exception("%s is refused because of an error here", connection.peer)
            text = f"the receiver cannot read this: {error!r:.80}"
            self._refuse(connection, RefusedError(text))
        finally:
            connection.close()
            del self._clients[connection]
            port.count(connections=-1, unconfirmed=connection.unconfirmed)

    def _refuse(self, connection: Connection, why: RefusedError) -> None:
        """Count it, log the first with this reason, and tell the client."""
        report = f"{connection.peer}: {why}"
        if connection.port.refuse(why.reason, report):
            _log.warning("port %d refused %s", connection.port.number, report)
        with suppress(DisconnectedError):
            connection.say(why.reply)
            self._stopping.wait(REFUSED_SECONDS)


# ---- Sockets and file descriptors ----------------------------------------------------------------


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows, since each client needs one.

    Should even that be too few, further clients wait, and a log that cannot open its next file
    ends the query.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(soft, MOST_DESCRIPTORS) if hard == resource.RLIM_INFINITY else hard
    with suppress(ValueError, OSError):  # more than the kernel allows
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def bind_all(host: str, ports: Sequence[int], patience: float) -> dict[int, socket.socket]:
    """Return a listening socket for each port. After an error none is left open."""
    with ExitStack() as opened:
        sockets = {port: opened.enter_context(_bind(host, port, patience)) for port in ports}
        opened.pop_all()
    return sockets


def _bind(host: str, port: int, patience: float) -> socket.socket:
    """Listen on a port, which a query that was just killed may occupy for some seconds more."""

    def is_in_use(error: Exception) -> bool:
        return isinstance(error, OSError) and error.errno == errno.EADDRINUSE

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    create = partial(socket.create_server, (host, port), family=family, backlog=WAITING_CONNECTIONS)
    try:
        bound = Tries(is_in_use, patience).patiently(create)
    except OSError as error:
        reason = str(error.strerror).split(" (")[0]
        raise OSError(
            error.errno,
            f"cannot listen on {host}:{port}: {reason}. If another program or query uses it, "
            "stop that one or choose another option `port`; `host` must be an address of this "
            "machine",
        ) from None
    bound.settimeout(POLL_SECONDS)
    return bound
