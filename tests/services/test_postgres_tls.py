"""TLS: the option `url` passes `sslmode` and the trusted authorities to libpq.

The server from PyPI has no TLS, so a proxy does the encryption. Its certificate, `localhost.pem`,
is self-signed, for the name `localhost`, and valid for a hundred years.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tutorial_pkg import PostgresDataSource

CERTIFICATE = Path(__file__).with_name("localhost.pem")
SSL_REQUEST = struct.pack(">II", 8, 80877103)


class Front:
    """A proxy: TLS on the client's side, the server's Unix socket on the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(CERTIFICATE)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._pass_on, args=[client], daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with ExitStack() as ending:
            ending.callback(client.close)
            ending.push(lambda kind, *_: kind is not None and issubclass(kind, OSError))
            assert client.recv(8) == SSL_REQUEST
            client.sendall(b"S")
            secure = ending.enter_context(self._context.wrap_socket(client, server_side=True))
            server = ending.enter_context(socket.socket(socket.AF_UNIX))
            server.connect(self._path)
            back = threading.Thread(target=_copy, args=[server, secure], daemon=True)
            back.start()
            _copy(secure, server)
            server.shutdown(socket.SHUT_RDWR)
            back.join()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass


@pytest.fixture
def address(url: str) -> Iterator[Any]:
    """Return a function that makes an address of the database behind the proxy."""
    with psycopg.connect(url, autocommit=True) as database, ExitStack() as ending:
        database.execute("CREATE TABLE t AS SELECT 7 AS id")
        parts = conninfo_to_dict(url)

        def make(host: str, parameters: str) -> str:
            front = Front(f"{parts['host']}/.s.PGSQL.{parts.get('port', 5432)}")
            ending.callback(front.close)
            return f"postgresql://postgres@{host}:{front.port}/{parts['dbname']}?{parameters}"

        yield make


def rows(url: str) -> list[dict[str, Any]]:
    """Read with both clients: psycopg fetches the schema, ADBC the rows."""
    source = PostgresDataSource({"url": url, "table": "t", "waitSeconds": "5"})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("host", "parameters"),
    [
        ("localhost", f"sslmode=verify-full&sslrootcert={CERTIFICATE}"),
        ("127.0.0.1", f"sslmode=verify-ca&sslrootcert={CERTIFICATE}"),
        ("127.0.0.1", "sslmode=require"),
    ],
)
def test_trusted_server_is_read(address: Any, host: str, parameters: str) -> None:
    assert rows(address(host, parameters)) == [{"id": 7}]


@pytest.mark.parametrize(
    ("host", "parameters", "text"),
    [
        ("127.0.0.1", f"sslmode=verify-full&sslrootcert={CERTIFICATE}", "match host"),
        ("localhost", "sslmode=verify-full&sslrootcert=system", "certificate verify failed"),
        ("localhost", "sslmode=verify-full&sslrootcert=/no/such", "/no/such"),
    ],
)
def test_untrusted_server_is_refused(address: Any, host: str, parameters: str, text: str) -> None:
    with pytest.raises(ConnectionError, match=f"the database refuses: .*{text}"):
        rows(address(host, parameters))
