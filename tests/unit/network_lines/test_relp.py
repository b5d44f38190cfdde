"""RELP, frame by frame: what is stored, and what is answered when."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from spark_connector_tests.query_process import wait_until
from tests.unit.network_lines.running import SECONDS
from tutorial_pkg.connectors.network_lines.rows import to_batch
from tutorial_pkg.durable_log.segments import frames, read_frames

OPEN = b"1 open 30 relp_version=0\ncommands=syslog\n"
OPENED = b"1 rsp 64 200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog\n"


def message(number: int, text: bytes) -> bytes:
    return b"%d syslog %d %s\n" % (number, len(text), text)


def hear(client: socket.socket, count: int) -> bytes:
    said = b""
    while len(said) < count and (more := client.recv(count - len(said))):
        said += more
    return said


def values(running) -> list[str]:
    found = list(read_frames(running.directory / str(running.port), 0, running.log.end))
    options = SimpleNamespace(includeMetadata=False, eventTime=None)
    return to_batch(found, running.port, options).column("value").to_pylist()


@pytest.mark.parametrize("size", [1, 3, 17, 10_000])
def test_a_session_in_pieces(start, size: int) -> None:
    running = start(relp=True)
    said = (
        OPEN
        + message(2, b"one")
        + message(3, b"")
        + message(4, b"two 5 syslog 3 x\n")
        + b"5 close 0\n"
    )
    answers = OPENED + b"".join(b"%d rsp 6 200 OK\n" % number for number in (2, 3, 4))
    answers += b"5 rsp 0\n0 serverclose 0\n"
    with running.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(said), size):
            client.sendall(said[place : place + size])
        assert hear(client, len(answers)) == answers
    assert values(running) == ["one", "", "two 5 syslog 3 x\n"]


def test_a_message_is_answered_only_when_it_is_on_disk(start, monkeypatch) -> None:
    running = start(relp=True)
    go, sync = threading.Event(), running.log.sync
    with running.connect() as client:
        client.sendall(OPEN)
        assert hear(client, len(OPENED)) == OPENED
        monkeypatch.setattr(running.log, "sync", lambda: (go.wait(SECONDS), sync())[1])
        client.sendall(message(2, b"one"))
        running.wait_for_lines(1)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        go.set()
        client.settimeout(10)
        assert hear(client, 15) == b"2 rsp 6 200 OK\n"


def test_messages_with_line_ends_are_one_row_each(start) -> None:
    running = start(relp=True)
    texts = [b"a\nb", b"plain", b"ends\r", b"\n", "größer".encode(), b"\xff"]
    with running.connect() as client:
        client.sendall(b"".join(message(number, text) for number, text in enumerate(texts, 1)))
        running.wait_for_lines(len(texts))
        client.sendall(message(9, b"alone"))
        running.wait_for_lines(len(texts) + 1)
    assert values(running) == ["a\nb", "plain", "ends\r", "\n", "größer", "\ufffd", "alone"]


def test_a_message_that_is_too_long_is_answered_counted_and_dropped(start) -> None:
    running = start(relp=True, line_bytes=100)
    with running.connect() as client:
        client.sendall(message(2, b"x" * 100) + message(3, b"y" * 200_000) + message(4, b"z"))
        assert hear(client, 45) == b"2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 6 200 OK\n"
    assert values(running) == ["x" * 100, "z"]
    assert running.status.dropped["too_long"] == 1


def test_frames_stay_within_the_limits(start) -> None:
    running = start(relp=True, frame_rows=10, frame_bytes=300)
    texts = [b"%d" % number for number in range(1_000)] + [b"x" * 200] * 3
    with running.connect() as client:
        client.sendall(b"".join(message(number, text) for number, text in enumerate(texts, 1)))
        running.wait_for_lines(len(texts))
    found = list(frames(running.directory / str(running.port), 0, running.log.end))
    assert max(frame.rows for frame in found) <= 10
    assert max(frame.payload_bytes for frame in found) <= 300
    assert values(running) == [text.decode() for text in texts]


def test_what_is_no_relp_is_refused(start) -> None:
    running = start(relp=True)
    with running.connect() as client:
        client.sendall(b"GET /" + b"x" * 100)
        assert client.recv(100) == b"0 serverclose 0\n"
    assert running.status.refused == {"relp": 1}
    assert running.status.last_refused.startswith("127.0.0.1: not RELP: b'GET /xxx")


def test_an_unknown_command_is_answered(start) -> None:
    running = start(relp=True)
    with running.connect() as client:
        client.sendall(b"2 dance 0\n")
        assert hear(client, 29) == b"2 rsp 19 500 unknown command\n"


def test_who_could_not_be_told_is_counted(start, monkeypatch) -> None:
    running = start(relp=True)
    go, sync = threading.Event(), running.log.sync
    monkeypatch.setattr(running.log, "sync", lambda: (go.wait(SECONDS), sync())[1])
    client = running.connect()
    client.sendall(message(2, b"one") + message(3, b"two"))
    running.wait_for_lines(2)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    wait_until(lambda: running.status.connections == 0, SECONDS, "the end of the connection")
    go.set()
    wait_until(lambda: running.status.unconfirmed == 2, SECONDS, "the count")
