"""TLS for a port and for a sender: sockets, certificates, renewed files.

With TLS the end of a connection cannot be forged: a side that ends says so within the encrypted
stream (`close_notify`). So the receiver can tell a finished sender from a killed one, and a sender
accepts a confirmation from the receiver alone.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from tutorial_pkg.connectors.network_lines.wire import RefusedError

_RECORD_BYTES = 16 * 1024  # the most that one TLS record holds
_TRY_AGAIN = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SecureSocket(ssl.SSLSocket):
    """A non-blocking TLS socket that raises what a plain one does: `BlockingIOError`, for example.

    If the other side disappears without ending properly, reading raises `ConnectionResetError`.
    """

    _ended = _broken = False

    @property
    def has_more(self) -> bool:
        """Whether reading would return at once, although no selector says so."""
        return self._ended or self.pending() > 0

    def recv_into(self, room: Any, *_: Any) -> int:
        """Fill `room` with the records that have arrived; 0 once the other side has ended."""
        filled, view = 0, memoryview(room)
        try:
            while not self._ended and (not filled or len(view) - filled >= _RECORD_BYTES):
                count = super().recv_into(view[filled:])
                filled += count
                self._ended = not count
        except _TRY_AGAIN:
            if not filled:
                raise BlockingIOError from None
        except ssl.SSLZeroReturnError:  # this side has ended, too
            self._ended = True
        except (ssl.SSLEOFError, ssl.SSLSyscallError):
            self._ended = self._broken = True
        if self._broken and not filled:
            raise ConnectionResetError("the other side has gone without ending the connection")
        return filled

    def recv(self, size: int = _RECORD_BYTES, *_: Any) -> bytes:
        room = bytearray(size)
        return bytes(memoryview(room)[: self.recv_into(room)])

    def send(self, data: Any, *_: Any) -> int:
        """Send as much of `data` as there is room for; the next call must begin with the rest."""
        sent, view = 0, memoryview(data)
        try:
            while sent < len(view):
                sent += super().send(view[sent:])
        except _TRY_AGAIN:
            if not sent:
                raise BlockingIOError from None
        return sent

    def end(self) -> None:
        """Send `close_notify`; what the other side still sends can be read afterwards."""
        try:
            self.unwrap()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            raise BlockingIOError from None


def secure(
    plain: socket, context: ssl.SSLContext, server_name: str | None = None, handshake: bool = False
) -> SecureSocket:
    """Return a TLS socket in place of `plain`: the client's side if there is a `server_name`."""
    context.sslsocket_class = SecureSocket
    secured = context.wrap_socket(
        plain,
        server_side=server_name is None,
        server_hostname=server_name,
        do_handshake_on_connect=handshake,
        suppress_ragged_eofs=False,
    )
    assert isinstance(secured, SecureSocket)
    return secured


def client_tls(
    ca: str | Path, certificate: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext:
    """Return what `send_lines(..., tls=...)` needs.

    Args:
        ca: PEM file of the only authority to trust.
        certificate: PEM file with the certificate that the receiver may ask for.
        key: PEM file with its private key, if that is in another file.

    Raises `ValueError` that names a file that cannot be used.
    """
    with _naming("ca", ca):
        context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        with _naming("certificate", certificate):
            context.load_cert_chain(str(certificate), str(key) if key else None)
    return context


@dataclass(frozen=True)
class TlsFiles:
    """The PEM files of a port, and the names of the clients that may connect (all, if empty)."""

    certificate: str
    key: str | None = None
    client_ca: str | None = None
    clients: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Load the files. Raises `ValueError` that names one that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # unread, they would turn a client's close into a reset
        with _naming("tlsCertificate", self.certificate, self.key):
            context.load_cert_chain(self.certificate, self.key)
        if self.client_ca:
            with _naming("tlsClientCa", self.client_ca):
                context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def stamp(self) -> list[tuple[int, int, int]]:
        """Return a value that changes when a file is renewed. Raises `OSError` if one is gone."""
        files = filter(None, (self.certificate, self.key, self.client_ca))
        states = [Path(file).stat() for file in files]
        return [(state.st_ino, state.st_mtime_ns, state.st_size) for state in states]


class ServerTls:
    """The server's side of TLS at one port, with files that may be renewed at any time.

    While new files do not fit together yet, the previous ones stay in use and `warn` is called.
    """

    def __init__(self, files: TlsFiles, warn: Callable[[str], None]) -> None:
        self._files, self._warn = files, warn
        self._stamp, self._context = files.stamp(), files.context()

    def wrap(self, client: socket) -> SecureSocket:
        """Return a TLS socket, before its handshake."""
        try:
            stamp = self._files.stamp()
            if stamp != self._stamp:
                self._context, self._stamp = self._files.context(), stamp
        except (OSError, ValueError) as error:
            self._warn(f"renewed TLS files are not used yet: {error}")
        return secure(client, self._context)

    def shake_hands(self, client: SecureSocket) -> list[str]:
        """Continue the handshake, and return the names of the client at its end.

        The name by which it is known is the first. There are none unless the port asks for
        certificates. Raises `BlockingIOError` while the handshake is under way, and `RefusedError`.
        """
        try:
            client.do_handshake()
        except _TRY_AGAIN:
            raise BlockingIOError from None
        except OSError as error:
            raise _refused(error) from None
        certificate = client.getpeercert() if self._files.client_ca else None
        names = certified_names(certificate or {})
        return sorted(names, key=lambda name: name not in self._files.clients)

    def check(self, names: list[str]) -> None:
        """Raise `RefusedError` if a client with these names may not connect."""
        allowed = self._files.clients
        if self._files.client_ca and not (names and (names[0] in allowed or not allowed)):
            raise RefusedError("name", f"not in allowedClients: {', '.join(names) or 'no name'}")


def certified_names(certificate: Mapping[str, Any]) -> list[str]:
    """Return a certificate's names: DNS names, other alternative names, the common name.

    `certificate` is what `ssl.SSLSocket.getpeercert` returns.
    """
    alternatives = sorted(certificate.get("subjectAltName", ()), key=lambda pair: pair[0] != "DNS")
    parts = [part for parts in certificate.get("subject", ()) for part in parts]
    common = [name for kind, name in parts if kind == "commonName"]
    return [*(name for _, name in alternatives), *common]


def _refused(error: OSError) -> RefusedError:
    """Return why a handshake failed, for the person who runs the port."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError("certificate", error.verify_message)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return RefusedError("certificate", "the client has none")
    if isinstance(error, ssl.SSLError) and reason and "EOF" not in reason:
        return RefusedError("handshake", reason.replace("_", " ").lower())
    return RefusedError("handshake", "the client broke it off")


@contextmanager
def _naming(option: str, *files: str | Path | None) -> Iterator[None]:
    """Name the option and its files in errors; OpenSSL names neither."""
    try:
        yield
    except OSError as error:
        shown = " and ".join(str(file) for file in files if file)
        why = getattr(error, "reason", None) or error.strerror
        raise ValueError(f"`{option}`: {shown} cannot be used: {why}; give PEM files") from None
