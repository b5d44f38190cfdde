"""Certificates for tests, of an authority that lives as long as they do."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path

import trustme

from tutorial_pkg.connectors.network_lines.tls import client_tls


class Certificates:
    """An authority whose certificates are files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)
        self.server = self.issue("server", "127.0.0.1", "localhost")

    def issue(self, file: str, *names: str, until: datetime | None = None) -> Path:
        """Write a file with key and certificates for `names`."""
        issued = self._authority.issue_cert(*names, not_after=until)
        path = self.folder / f"{file}.pem"
        draft = path.with_suffix(".new")
        issued.private_key_and_cert_chain_pem.write_to_path(draft)
        draft.replace(path)
        return path

    def files(self, *clients: str, ask: bool = True) -> dict[str, str]:
        """Return options for a listener that asks `clients` for certificates, or anybody."""
        options = {"tlsCertificate": str(self.server)}
        if ask:
            options |= {"tlsClientCa": str(self.ca)}
        return options | ({"allowedClients": ",".join(clients)} if clients else {})

    def client(self, name: str | None = None, until: datetime | None = None) -> ssl.SSLContext:
        """Return a sender's TLS context, with a certificate for `name` if one is given."""
        return client_tls(self.ca, self.issue(name, name, until=until) if name else None)
