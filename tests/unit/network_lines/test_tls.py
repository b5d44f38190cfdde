"""TLS: which clients are admitted, and which names they may use."""

from __future__ import annotations

import json
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.connectors.network_lines import connection as connection_module
from tutorial_pkg.connectors.network_lines import network_status
from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.connectors.network_lines.protocol import greeting
from tutorial_pkg.connectors.network_lines.sender import (
    Channel,
    LinesDroppedError,
    SenderRefusedError,
    send_lines,
)
from tutorial_pkg.connectors.network_lines.tls import certified_names, client_tls, server_context
from tutorial_pkg.durable_log.segments import read_frames

PAST = datetime.now(UTC) - timedelta(days=1)


def send(running: Running, lines: list, tls: ssl.SSLContext | None) -> int:
    return send_lines(HOST, running.port, lines, tls=tls)


def reply_to_a_line(running: Running, tls: ssl.SSLContext) -> bytes:
    with Channel((HOST, running.port), tls) as channel:
        channel.send(b"a\n")
        return channel.wait()  # without an end, so OpenSSL always names the reason


def secured(running: Running, tls: ssl.SSLContext) -> ssl.SSLSocket:
    return tls.wrap_socket(running.connect(), server_hostname=HOST)


def clients_of(running: Running) -> list[tuple[str | None, list[bytes]]]:
    """Return the client and the lines of each frame."""
    found = read_frames(running.directory / str(running.port), 0, running.log.end)
    parts = (split(payload) for _, payload in found)
    return [(note.get("client"), bytes(lines).splitlines()) for lines, note in parts]


def refused(running: Running, reason: str, count: int = 1) -> str:
    """Wait for the counter, and return the text in the status."""
    wait_until(lambda: running.status.refused.get(reason) == count, SECONDS, f"{count} {reason}")
    return running.status.last_refused


def test_lines_over_tls_are_confirmed(start, certificates: Certificates) -> None:
    running = start(**certificates.files(ask=False))
    lines = [b"%d," % number + b"x" * (number % 3_000) for number in range(20_000)]
    assert send(running, lines, certificates.client()) == len(lines)
    assert sorted(running.lines()) == sorted(lines)
    assert clients_of(running)[0][0] is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_frames_keep_clients_apart(start, certificates: Certificates, version) -> None:
    running = start(**certificates.files())
    for name in ("one", "two", "one"):
        tls = certificates.client(name)
        tls.minimum_version = tls.maximum_version = version
        send(running, [f"from {name}"], tls)
    expected = [("one", [b"from one"]), ("two", [b"from two"]), ("one", [b"from one"])]
    assert clients_of(running) == expected


def test_allowed_clients(start, certificates: Certificates) -> None:
    running = start(**certificates.files("host-7", "host-8"))
    send(running, ["a"], certificates.client("host-8"))
    with pytest.raises(SenderRefusedError, match=r"^not in allowedClients: host-9$"):
        send(running, ["b"] * 100_000, certificates.client("host-9"))
    assert refused(running, "name") == "127.0.0.1: not in allowedClients: host-9"
    assert running.lines() == [b"a"]


def test_client_certificate_is_checked(start, certificates: Certificates, tmp_path) -> None:
    running = start(**certificates.files())
    with pytest.raises(SenderRefusedError, match="certificate required"):
        reply_to_a_line(running, certificates.client())
    assert refused(running, "certificate", 1) == "127.0.0.1: the client has none"
    with pytest.raises(SenderRefusedError, match="certificate expired"):
        reply_to_a_line(running, certificates.client("expired", until=PAST))
    assert refused(running, "certificate", 2) == "127.0.0.1: certificate has expired"
    (tmp_path / "others").mkdir()
    strange = Certificates(tmp_path / "others").issue("stranger", "stranger")
    with pytest.raises(SenderRefusedError, match="unknown ca"):
        reply_to_a_line(running, client_tls(certificates.ca, strange))
    assert "unable to get local issuer" in refused(running, "certificate", 3)
    assert running.lines() == []


def test_refusal_that_arrives_with_the_end(start, certificates: Certificates) -> None:
    """With TLS 1.3, a sender may have ended before the receiver looks at its certificate."""
    running = start(**certificates.files())
    with Channel((HOST, running.port), certificates.client()) as channel:
        channel.send(b"a\n")
        refused(running, "certificate")
        channel.end()
        with pytest.raises(SenderRefusedError):
            channel.wait()


def test_slow_handshakes_delay_nobody(start, certificates, monkeypatch) -> None:
    monkeypatch.setattr(connection_module, "HANDSHAKE_SECONDS", 1.0)
    running = start(**certificates.files())
    with running.connect() as silent, running.connect() as slow:
        slow.sendall(b"\x16\x03\x01")
        send(running, ["served meanwhile"], certificates.client("host-7"))
        refused(running, "timeout", 2)
        assert silent.recv(100).startswith(b"network_lines refused: no handshake")
        with pytest.raises(ConnectionResetError):
            slow.recv(1)


def test_renewed_files_need_no_restart(start, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    mine = Certificates(tmp_path / "mine")
    running = start(**mine.files())
    send(running, ["before"], mine.client("host-7"))
    mine.issue("server", "127.0.0.1", until=PAST)
    with pytest.raises(SenderRefusedError, match="untrusted certificate: certificate has expired"):
        send(running, ["expired"], mine.client("host-7"))
    mine.server.write_text("half written")
    with pytest.raises(SenderRefusedError, match="untrusted certificate: certificate has expired"):
        send(running, ["expired"], mine.client("host-7"))
    mine.issue("server", "127.0.0.1")
    send(running, ["after"], mine.client("host-7"))
    assert running.lines() == [b"before", b"after"]


def test_killed_sender_differs_from_finished_one(start, certificates: Certificates) -> None:
    """Without TLS the two look the same. Only a finished sender's last line is kept."""
    running = start(**certificates.files(), unterminated="keep")
    for name, count in (("killed", 1), ("ended", 2)):
        with secured(running, certificates.client("host-7")) as client:
            client.sendall(f"{name}\nrest of {name}".encode())
            running.wait_for_lines(count)
            client.unwrap() if name == "ended" else client.shutdown(socket.SHUT_WR)
    assert running.wait_for_lines(3) == [b"killed", b"ended", b"rest of ended"]
    wait_until(lambda: running.status.dropped["unterminated"] == 1, SECONDS, "the count")


def test_confirmation_cannot_be_forged(start, certificates: Certificates) -> None:
    """An attacker on the network can end the TCP connection, but not send `close_notify`."""
    context = server_context(start(**certificates.files(ask=False)).options)

    def accept_and_cut() -> None:
        client = context.wrap_socket(server.accept()[0], server_side=True)
        client.recv(100)
        socket.socket.shutdown(client, socket.SHUT_WR)
        client.recv(100)

    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(1) as thread:
        thread.submit(accept_and_cut)
        with pytest.raises(ConnectionError, match="broke after about 1 lines"):
            send_lines(HOST, server.getsockname()[1], ["a"], tls=certificates.client())


@pytest.mark.parametrize(
    ("name", "may_use"),
    [("host-7", True), ("host-7/nginx", True), ("host-8", False), ("host-70", False)],
)
def test_name_belongs_to_its_certificate(start, certificates, name: str, may_use: bool) -> None:
    running = start(**certificates.files())
    with secured(running, certificates.client("host-7")) as client:
        client.sendall(greeting(name))
        reply = json.loads(client.recv(65536))
    assert ("position" in reply, "refused" in reply) == (may_use, not may_use)


def test_dropped_lines_are_reported_over_tls(start, certificates: Certificates) -> None:
    running = start(**certificates.files(), maxLineBytes=5)
    with pytest.raises(LinesDroppedError, match=r"dropped some of 2 lines \(1 too_long\)"):
        send(running, ["12345", "123456"], certificates.client("host-7"))
    assert running.lines() == [b"12345"]


def test_names_in_a_certificate() -> None:
    certificate = {
        "subject": ((("organizationName", "x"),), (("commonName", "common"),)),
        "subjectAltName": (("IP Address", "::1"), ("DNS", "one"), ("DNS", "two")),
    }
    assert certified_names(certificate) == ["one", "two", "::1", "common"]
    assert certified_names({}) == []


@pytest.mark.parametrize("file", ["missing.pem", "other.txt"])
def test_unusable_file_of_a_sender(tmp_path, file: str) -> None:
    (tmp_path / "other.txt").write_text("no certificate")
    with pytest.raises(ValueError, match=rf"^`ca`: .*{file} cannot be used: .*; give PEM files, "):
        client_tls(tmp_path / file)


def test_key_with_a_passphrase_is_an_error(start, tmp_path, certificates, capfd) -> None:
    key = serialization.load_pem_private_key(certificates.server.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*form))
    with pytest.raises(ValueError, match=r"^`certificate`: .* cannot be used"):
        client_tls(certificates.ca, certificates.server, tmp_path / "key.pem")
    with pytest.raises(ValueError, match=r"`tlsCertificate`: .*key\.pem cannot be used"):
        start(**certificates.files(), tlsKey=tmp_path / "key.pem")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("is_secure", [True, False])
def test_public_address_without_tls_warns(start, certificates, is_secure: bool) -> None:
    running = start(host="0.0.0.0", **(certificates.files() if is_secure else {}))
    running.listener.close()
    warnings = network_status(running.directory).warnings
    assert len(warnings) == (0 if is_secure else 1)
    assert is_secure or "`tlsCertificate`" in warnings[0]
