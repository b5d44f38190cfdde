"""TLS for a port and for a sender: certificates, their names, renewed files."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import socket
from typing import Any

from tutorial_pkg.connectors.network_lines.protocol import RefusedError
from tutorial_pkg.core.options import OptionValues


def client_tls(
    ca: str | Path, certificate: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext:
    """Return what `send_lines(..., tls=...)` needs.

    Args:
        ca: PEM file of the only authority to trust.
        certificate: PEM file with this sender's certificate, if the receiver asks for one.
        key: PEM file with its private key, if that is in another file.

    Raises `ValueError` that names a file that cannot be used.
    """
    with _naming("ca", ca):
        context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        with _naming("certificate", certificate):
            context.load_cert_chain(str(certificate), str(key) if key else None, "")
    return context


def server_context(options: OptionValues) -> ssl.SSLContext:
    """Load the files of a port. Raises `ValueError` that names one that cannot be used."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # unread, they would turn a client's close into a reset
    with _naming("tlsCertificate", options.tlsCertificate, options.tlsKey):
        context.load_cert_chain(options.tlsCertificate, options.tlsKey, "")
    if options.tlsClientCa:
        with _naming("tlsClientCa", options.tlsClientCa):
            context.load_verify_locations(options.tlsClientCa)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class ServerTls:
    """The server's side of TLS, with files that may be renewed at any time.

    While new files do not fit together yet, the previous ones stay in use and `warn` is called.
    """

    def __init__(self, options: OptionValues, warn: Callable[[str], None]) -> None:
        self._options, self._warn = options, warn
        self._context = server_context(options)

    def wrap(self, client: socket) -> ssl.SSLSocket:
        """Return a TLS socket, before its handshake."""
        try:
            self._context = server_context(self._options)
        except ValueError as error:
            self._warn(f"renewed TLS files are not used yet: {error}")
        return self._context.wrap_socket(
            client, server_side=True, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )

    def shake_hands(self, client: ssl.SSLSocket) -> list[str]:
        """Return the names in the client's certificate; the first is the one it is known by.

        There are none unless the port asks for certificates. Raises `OSError`, and `RefusedError`
        for a client that may not connect.
        """
        client.do_handshake()
        if not self._options.tlsClientCa:
            return []
        names, allowed = certified_names(client.getpeercert() or {}), self._options.allowedClients
        names.sort(key=lambda name: name not in (allowed or ()))
        if not names or (allowed and names[0] not in allowed):
            raise RefusedError(f"not in allowedClients: {', '.join(names) or 'no name'}", "name")
        return names


def certified_names(certificate: Mapping[str, Any]) -> list[str]:
    """Return a certificate's names: DNS names, other alternative names, the common name.

    `certificate` is what `ssl.SSLSocket.getpeercert` returns.
    """
    alternatives = sorted(certificate.get("subjectAltName", ()), key=lambda pair: pair[0] != "DNS")
    parts = [part for parts in certificate.get("subject", ()) for part in parts]
    common = [name for kind, name in parts if kind == "commonName"]
    return [*(name for _, name in alternatives), *common]


def failed_handshake(error: OSError) -> RefusedError:
    """Return why a handshake failed, for the status; the client gets a TLS alert."""
    reason = getattr(error, "reason", None) or "EOF"
    if isinstance(error, ssl.SSLCertVerificationError):
        return RefusedError(error.verify_message, "certificate", b"")
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return RefusedError("the client has none", "certificate", b"")
    text = "the client broke it off" if "EOF" in reason else reason.replace("_", " ").lower()
    return RefusedError(text, "handshake", b"")


@contextmanager
def _naming(option: str, *files: str | Path | None) -> Iterator[None]:
    """Name the option and its files in errors; OpenSSL names neither."""
    try:
        yield
    except OSError as error:
        shown = " and ".join(str(file) for file in files if file)
        why = getattr(error, "reason", None) or error.strerror
        remedy = "give PEM files, a key without a passphrase"
        raise ValueError(f"`{option}`: {shown} cannot be used: {why}; {remedy}") from None
