"""TLS for a port and for a sender: who may connect, renewed files, why a connection was refused.

With TLS the end of a connection cannot be forged: a side that has ended says so within the
encrypted stream (`close_notify`). So the receiver tells a sender that is done from one that was
killed, and the sender takes only the receiver's own word for a confirmation.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import RefusedError
from tutorial_pkg.connectors.network_lines.secure_socket import SecureSocket

# What OpenSSL finds in the first bytes of a client that does not speak TLS.
_NOT_TLS = {"HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"}


def client_tls(
    ca: str | Path, certificate: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext:
    """For `send_lines(..., tls=...)`: trust the authority in the PEM file `ca`, and no other.

    `certificate` and `key` are PEM files with what the receiver may ask for. Raises `ValueError`
    that names a file that cannot be used.
    """
    with _named("ca", ca):
        context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        with _named("certificate", certificate):
            context.load_cert_chain(str(certificate), str(key) if key else None)
    return context


@dataclass(frozen=True)
class TlsFiles:
    """What a port is given: PEM files, and the names of the clients that may connect."""

    certificate: str
    key: str | None = None
    client_ca: str | None = None
    clients: tuple[str, ...] = ()

    def context(self) -> ssl.SSLContext:
        """Raises `ValueError` that names a file that cannot be used."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.num_tickets = 0  # unread, they would turn a client's close into a reset
        with _named("tlsCertificate", self.certificate, self.key):
            context.load_cert_chain(self.certificate, self.key)
        if self.client_ca:
            with _named("tlsClientCa", self.client_ca):
                context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def stamp(self) -> list[tuple[int, int, int]]:
        """Something else when a file was renewed. Raises `OSError` if one is missing."""
        named = filter(None, (self.certificate, self.key, self.client_ca))
        found = [Path(name).stat() for name in named]
        return [(status.st_ino, status.st_mtime_ns, status.st_size) for status in found]


class ServerTls:
    """Makes the secure sockets of one port, with the files as they are when a client comes.

    Files that are being renewed may not fit each other for a moment, or be broken: then the ones
    before stay in use, and `warn` is called.
    """

    def __init__(self, files: TlsFiles, warn: Callable[[str], None]) -> None:
        self._files, self._warn = files, warn
        self._stamp, self._context = files.stamp(), files.context()

    def wrap(self, client: socket) -> SecureSocket:
        """`client`, secure from now on; its handshake is still to come."""
        self._renew()
        return SecureSocket(client, self._context)

    def shake_hands(self, client: SecureSocket) -> str | None:
        """Go on with the handshake; at its end the client's name, if it was asked for one.

        Raises `BlockingIOError` while it is under way, and `RefusedError`.
        """
        try:
            client.shake_hands()
        except BlockingIOError:
            raise
        except OSError as error:
            raise _refused(error) from None
        return self._admitted(client.getpeercert() or {})

    def _admitted(self, certificate: Mapping[str, Any]) -> str | None:
        if not self._files.client_ca:
            return None
        names = certified_names(certificate)
        allowed = [name for name in names if name in self._files.clients or not self._files.clients]
        if not allowed:
            shown = ", ".join(names) or "no name"
            raise RefusedError("name", f"not in allowedClients: {shown}")
        return allowed[0]

    def _renew(self) -> None:
        try:
            stamp = self._files.stamp()
            if stamp != self._stamp:
                self._context, self._stamp = self._files.context(), stamp
        except (OSError, ValueError) as error:
            self._warn(f"renewed TLS files are not used yet: {error}")


def certified_names(certificate: Mapping[str, Any]) -> list[str]:
    """The names in a client's certificate: alternative names, DNS before others; the common name.

    `certificate` is what `ssl.SSLSocket.getpeercert` returns.
    """
    alternatives = sorted(certificate.get("subjectAltName", ()), key=lambda each: each[0] != "DNS")
    parts = [part for parts in certificate.get("subject", ()) for part in parts]
    common = [name for kind, name in parts if kind == "commonName"]
    return [*(name for _, name in alternatives), *common]


def _refused(error: OSError) -> RefusedError:
    """Why a handshake failed, in words for whoever runs the port."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError("certificate", error.verify_message)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return RefusedError("certificate", "the client has none")
    if reason in _NOT_TLS:
        return RefusedError("plain_text", "the client does not speak TLS")
    if isinstance(error, ssl.SSLError) and reason and "EOF" not in reason:
        return RefusedError("handshake", reason.replace("_", " ").lower())
    return RefusedError("handshake", "the client broke it off")


@contextmanager
def _named(option: str, *files: str | Path | None) -> Iterator[None]:
    """Errors that name the option and its files; OpenSSL's own name neither."""
    try:
        yield
    except OSError as error:
        shown = " and ".join(str(file) for file in files if file)
        why = getattr(error, "reason", None) or error.strerror
        raise ValueError(f"`{option}`: {shown} cannot be used: {why}; give PEM files") from None
