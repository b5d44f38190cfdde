"""TLS: who is let in, what the others are told, and what is left behind."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.connectors.network_lines import listener as listener_module
from tutorial_pkg.connectors.network_lines.forward import Exchange
from tutorial_pkg.connectors.network_lines.listener import Listener, PortLimits
from tutorial_pkg.connectors.network_lines.notes import split
from tutorial_pkg.connectors.network_lines.sender import (
    LinesDroppedError,
    SenderRefusedError,
    send_lines,
)
from tutorial_pkg.connectors.network_lines.status import network_status
from tutorial_pkg.connectors.network_lines.tls import certified_names, client_tls
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.segments import SegmentWriter, read_frames


def send(running: Running, lines: list, tls: ssl.SSLContext | None, **more: int) -> int:
    return send_lines(HOST, running.port, lines, tls=tls, **more)


def clients_of(running: Running) -> list[tuple[str | None, list[bytes]]]:
    """Frame by frame who sent what."""
    found = read_frames(running.directory / str(running.port), 0, running.log.end)
    parts = (split(payload) for _, payload in found)
    return [(note.get("client"), bytes(lines).splitlines()) for lines, note in parts]


def refused(running: Running, reason: str, count: int = 1) -> str:
    """Wait for the counter; the line that the status has for it."""
    wait_until(lambda: running.status.refused.get(reason) == count, SECONDS, f"{count} {reason}")
    return running.status.last_refused


def test_lines_come_encrypted_and_are_confirmed(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files(ask=False))
    lines = [b"%d," % number + b"x" * (number % 3_000) for number in range(20_000)]
    assert send(running, lines, certificates.client(), connections=3) == len(lines)
    assert sorted(running.lines()) == sorted(lines)
    assert clients_of(running)[0][0] is None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_each_version_that_is_allowed(start, certificates: Certificates, version) -> None:
    running = start(tls=certificates.files())
    tls = certificates.client("host-7")
    tls.minimum_version = tls.maximum_version = version
    send(running, ["a"], tls)
    assert clients_of(running) == [("host-7", [b"a"])]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1")
def test_an_older_version_is_refused(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files(ask=False))
    tls = certificates.client()
    tls.minimum_version = tls.maximum_version = ssl.TLSVersion.TLSv1_1
    tls.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(SenderRefusedError, match="does not accept a TLS connection here"):
        send(running, ["a"], tls)
    assert "protocol" in refused(running, "handshake")


def test_each_frame_has_the_lines_of_one_client(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files())
    for name in ("one", "two", "one"):
        send(running, [f"from {name}"], certificates.client(name))
    assert clients_of(running) == [
        ("one", [b"from one"]),
        ("two", [b"from two"]),
        ("one", [b"from one"]),
    ]


def test_only_allowed_clients_are_let_in(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files("host-7", "host-8"))
    send(running, ["a"], certificates.client("host-8"))
    with pytest.raises(SenderRefusedError, match=r"^not in allowedClients: host-9$"):
        send(running, ["b"] * 100_000, certificates.client("host-9"))
    assert refused(running, "name") == "127.0.0.1: not in allowedClients: host-9"
    assert running.lines() == [b"a"]


def test_clients_without_a_good_certificate(start, certificates: Certificates, tmp_path) -> None:
    running = start(tls=certificates.files())
    with pytest.raises(SenderRefusedError, match="certificate required"):
        send(running, ["a"], certificates.client())
    assert refused(running, "certificate", 1) == "127.0.0.1: the client has none"
    past = datetime.now(UTC) - timedelta(days=1)
    with pytest.raises(SenderRefusedError, match="certificate expired"):
        send(running, ["a"], certificates.client("expired", until=past))
    assert refused(running, "certificate", 2) == "127.0.0.1: certificate has expired"
    (tmp_path / "others").mkdir()
    strange = Certificates(tmp_path / "others").issue("stranger", "stranger")
    with pytest.raises(SenderRefusedError, match="unknown ca"):
        send(running, ["a"], client_tls(certificates.ca, strange))
    assert "unable to get local issuer" in refused(running, "certificate", 3)
    assert running.lines() == []
    expected = f"Waiting for connection on port {running.port} ... refused: 3 certificate (last: "
    wait_until(lambda: expected in str(network_status(running.directory)), SECONDS, expected)


def test_a_receiver_that_is_not_to_be_trusted(start, certificates, tmp_path) -> None:
    running = start(tls=certificates.files())
    (tmp_path / "others").mkdir()
    other = Certificates(tmp_path / "others")
    with pytest.raises(SenderRefusedError, match="not to be trusted: self-signed certificate"):
        send(running, ["secret"], other.client())
    with pytest.raises(SenderRefusedError, match="not to be trusted: IP address mismatch"):
        send_lines("127.0.0.2", _forwarded(running), ["secret"], tls=certificates.client("h"))


def _forwarded(running: Running) -> int:
    """A port of 127.0.0.2 that leads to the listener."""
    server = socket.create_server(("127.0.0.2", 0))

    def forward() -> None:
        with server, server.accept()[0] as client, running.connect() as there:
            there.sendall(client.recv(65536))
            client.sendall(there.recv(65536))

    threading.Thread(target=forward, daemon=True).start()
    return server.getsockname()[1]


def test_plain_text_on_a_port_with_tls(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files())
    with pytest.raises(ConnectionError):
        send(running, ["this is no TLS"] * 10, None)
    assert refused(running, "plain_text") == "127.0.0.1: the client does not speak TLS"
    assert running.lines() == []


def test_handshakes_have_a_deadline_and_hold_nobody_up(start, certificates, monkeypatch) -> None:
    monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 1e9)
    running = start(tls=certificates.files())
    with running.connect() as silent, running.connect() as slow:
        slow.sendall(b"\x16\x03\x01")
        send(running, ["served meanwhile"], certificates.client("host-7"))
        assert running.lines() == [b"served meanwhile"]
        monkeypatch.setattr(listener_module, "HANDSHAKE_SECONDS", 0.0)
        assert refused(running, "timeout", 2) == "127.0.0.1: no handshake within 0 s"
        for client in (silent, slow):
            with pytest.raises(ConnectionResetError):
                client.recv(1)


def test_who_goes_away_during_the_handshake_is_counted(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files())
    running.connect().close()
    assert refused(running, "handshake") == "127.0.0.1: the client broke it off"


def test_renewed_files_are_used_without_a_restart(start, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    mine = Certificates(tmp_path / "mine")
    running = start(tls=mine.files())
    send(running, ["before"], mine.client("host-7"))
    past = datetime.now(UTC) - timedelta(days=1)
    mine.issue("server", "127.0.0.1", until=past)
    with pytest.raises(SenderRefusedError, match="not to be trusted: certificate has expired"):
        send(running, ["expired"], mine.client("host-7"))
    mine.issue("server", "127.0.0.1")
    send(running, ["after"], mine.client("host-7"))
    assert running.lines() == [b"before", b"after"]


def test_half_renewed_files_leave_the_old_ones_in_use(start, tmp_path) -> None:
    (tmp_path / "mine").mkdir()
    mine = Certificates(tmp_path / "mine")
    running = start(tls=mine.files())
    whole = mine.server.read_bytes()
    mine.server.write_bytes(whole[: len(whole) // 3])
    send(running, ["still served"], mine.client("host-7"))
    expected = f"renewed TLS files are not used yet: `tlsCertificate`: {mine.server} cannot be used"
    wait_until(lambda: network_status(running.directory).warnings, SECONDS, "a warning")
    assert network_status(running.directory).warnings[0].startswith(expected)
    mine.server.unlink()
    send(running, ["and now"], mine.client("host-7"))
    assert running.lines() == [b"still served", b"and now"]


def test_a_killed_sender_does_not_end_in_good_order(start, certificates: Certificates) -> None:
    """Without TLS the two look the same; so here a rest is kept from a sender that ended only."""
    running = start(tls=certificates.files(), keep_unterminated=True)
    tls = certificates.client("host-7")
    for name, ends in (("killed", False), ("ended", True)):
        with tls.wrap_socket(running.connect(), server_hostname=HOST) as client:
            client.sendall(f"{name}\nrest of {name}".encode())
            running.wait_for_lines(1 if name == "killed" else 2)
            if ends:
                client.unwrap()
            else:
                client.shutdown(socket.SHUT_WR)
    assert running.wait_for_lines(3) == [b"killed", b"ended", b"rest of ended"]
    wait_until(lambda: running.status.dropped["unterminated"] == 1, SECONDS, "the count")


def test_a_confirmation_cannot_be_forged(start, certificates: Certificates) -> None:
    """Who is in between can end the TCP connection, but not say the receiver's last word."""
    server = socket.create_server((HOST, 0))
    context = certificates.files(ask=False).context()

    def accept_and_cut() -> None:
        client, _ = server.accept()
        secure = context.wrap_socket(client, server_side=True)
        secure.recv(100)
        socket.socket.shutdown(secure, socket.SHUT_WR)
        client_end.wait(SECONDS)
        secure.close()

    client_end = threading.Event()
    cutting = threading.Thread(target=accept_and_cut)
    cutting.start()
    with pytest.raises(ConnectionError, match="broke after about 1 lines"):
        send_lines(HOST, server.getsockname()[1], ["a"], tls=certificates.client())
    client_end.set()
    cutting.join()
    server.close()


def test_a_welcome_of_many_records(start, certificates: Certificates) -> None:
    """What TLS has decrypted already, no wait for the socket would find."""
    running = start(tls=certificates.files())
    for before in (None, "x" * 110_000):
        with Exchange((HOST, running.port), "host-7", certificates.client("host-7")) as sender:
            assert sender.welcome["position"] == before
            sender.send(b"a\n", "x" * 110_000)
            sender.finish()


def test_dropped_lines_are_told_over_tls_too(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files(), line_bytes=5)
    with pytest.raises(LinesDroppedError, match=r"dropped 1 of 2 lines \(1 too_long\)"):
        send(running, ["12345", "123456"], certificates.client("host-7"))
    assert running.lines() == [b"12345"]


def test_100_connections_at_once(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files())
    tls = certificates.client("host-7")

    def send_some(number: int) -> None:
        send(running, [f"{number},{line}" for line in range(101)], tls)

    senders = [threading.Thread(target=send_some, args=(number,)) for number in range(100)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    expected = sorted(b"%d,%d" % (number, line) for number in range(100) for line in range(101))
    assert sorted(running.lines()) == expected


def test_1_000_handshakes_leave_nothing_behind(start, certificates: Certificates) -> None:
    running = start(tls=certificates.files())
    tls, process = certificates.client("host-7"), psutil.Process(os.getpid())
    send(running, ["warm"], tls)
    wait_until(lambda: running.status.connections == 0, SECONDS, "the close")
    files, threads = process.num_fds(), process.num_threads()
    for number in range(1_000):
        with tls.wrap_socket(running.connect(), server_hostname=HOST) as client:
            if number % 2:
                client.sendall(b"x\n")
    assert len(running.wait_for_lines(501)) == 501
    wait_until(lambda: running.status.connections == 0, SECONDS, "all closed")
    wait_until(lambda: process.num_fds() <= files, SECONDS, "no growth in files")
    wait_until(lambda: process.num_threads() <= threads, SECONDS, "no growth in threads")


def test_names_in_a_certificate() -> None:
    certificate = {
        "subject": ((("organizationName", "x"),), (("commonName", "common"),)),
        "subjectAltName": (("IP Address", "::1"), ("DNS", "one"), ("DNS", "two")),
    }
    assert certified_names(certificate) == ["one", "two", "::1", "common"]
    assert certified_names({}) == []


@pytest.mark.parametrize("file", ["missing.pem", "other.txt"])
def test_files_of_a_sender_that_cannot_be_used(tmp_path, file: str) -> None:
    (tmp_path / "other.txt").write_text("no certificate")
    with pytest.raises(ValueError, match=rf"^`ca`: .*{file} cannot be used: .*; give PEM files$"):
        client_tls(tmp_path / file)


def test_records_that_end_where_the_room_ends(start, certificates: Certificates) -> None:
    """TLS gives what it has decrypted without a word from the socket."""
    running = start(tls=certificates.files(), line_bytes=1_000)
    lines = [b"y" * (number % 999) for number in range(50_000)]
    with certificates.client("host-7").wrap_socket(
        running.connect(), server_hostname=HOST
    ) as client:
        for first in range(0, len(lines), 333):
            client.sendall(b"".join(line + b"\n" for line in lines[first : first + 333]))
        assert running.wait_for_lines(len(lines)) == lines


@pytest.mark.parametrize("secure", [True, False])
def test_an_address_for_everybody_without_tls_has_one_warning(
    tmp_path, free_ports, certificates, caplog, secure: bool
) -> None:
    limits = PortLimits(line_bytes=100, connections=1, idle_seconds=1)
    port = free_ports(2)
    logs = {each: SegmentWriter(tmp_path / str(each)) for each in (port, port + 1)}
    tls = certificates.files() if secure else None
    listener = Listener(tmp_path, "0.0.0.0", list(logs), Backlog(logs, 1), limits, tls=tls)
    listener.close()
    for log in logs.values():
        log.close()
    warnings = network_status(tmp_path).warnings
    assert len(warnings) == caplog.text.count("0.0.0.0 is reachable") == (0 if secure else 1)
    if not secure:
        for option in ("tlsCertificate", "tlsKey", "tlsClientCa", "allowedClients"):
            assert f"`{option}`" in warnings[0]
