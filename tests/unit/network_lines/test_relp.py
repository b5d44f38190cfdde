"""RELP, frame by frame: what is stored, and which reply comes when."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace

import pytest

from tests.unit.network_lines.running import SECONDS
from tutorial_pkg.connectors.network_lines.payload import to_batch
from tutorial_pkg.durable_log.segments import read_frames

OPEN = b"1 open 30 relp_version=0\ncommands=syslog\n"
OPENED = b"1 rsp 64 200 OK\nrelp_version=0\nrelp_software=tutorial_pkg\ncommands=syslog\n"


def message(number: int, text: bytes) -> bytes:
    return b"%d syslog %d %s\n" % (number, len(text), text)


def read(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := client.recv(count - len(data))):
        data += more
    return data


def values(running) -> list[str]:
    found = list(read_frames(running.directory / str(running.port), 0, running.log.end))
    options = SimpleNamespace(includeMetadata=False, eventTime=None)
    return to_batch(found, running.port, options).column("value").to_pylist()


@pytest.mark.parametrize("size", [1, 3, 17, 10_000])
def test_session_in_pieces(start, size: int) -> None:
    running = start(protocol="relp")
    sent = OPEN + message(2, b"one") + message(3, b"") + message(4, b"two 5 syslog 3 x\n")
    sent += b"5 close 0\n"
    replies = OPENED + b"".join(b"%d rsp 6 200 OK\n" % number for number in (2, 3, 4))
    replies += b"5 rsp 0\n0 serverclose 0\n"
    with running.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(sent), size):
            client.sendall(sent[place : place + size])
        assert read(client, len(replies)) == replies
    assert values(running) == ["one", "", "two 5 syslog 3 x\n"]


def test_reply_waits_for_the_disk(start, monkeypatch) -> None:
    running = start(protocol="relp")
    go, sync = threading.Event(), running.log.sync
    with running.connect() as client:
        client.sendall(OPEN)
        assert read(client, len(OPENED)) == OPENED
        monkeypatch.setattr(running.log, "sync", lambda: (go.wait(SECONDS), sync())[1])
        client.sendall(message(2, b"one"))
        running.wait_for_lines(1)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        go.set()
        client.settimeout(SECONDS)
        assert read(client, 15) == b"2 rsp 6 200 OK\n"


def test_message_with_newlines_is_one_row(start) -> None:
    running = start(protocol="relp")
    texts = [b"a\nb", b"plain", b"ends\r", b"\n", "größer".encode(), b"\xff"]
    with running.connect() as client:
        client.sendall(b"".join(message(number, text) for number, text in enumerate(texts, 1)))
        running.wait_for_lines(len(texts))
        client.sendall(message(9, b"alone"))
        running.wait_for_lines(len(texts) + 1)
    assert values(running) == ["a\nb", "plain", "ends\r", "\n", "größer", "\ufffd", "alone"]


def test_long_message_is_cut_and_marked(start) -> None:
    running = start(protocol="relp", maxLineBytes=100)
    with running.connect() as client:
        client.sendall(message(2, b"x" * 100) + message(3, b"y" * 200_000) + message(4, b"z"))
        assert read(client, 45) == b"2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 6 200 OK\n"
    assert values(running) == ["x" * 100, "y" * 100 + " [cut, had 200000 bytes]", "z"]
    assert running.status.truncated == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"1 syslog 4 hello\n",  # no newline behind the data
        b"1 syslog 5\n",
        message(1, b"whole")[:-1],
        b"12 sys",
        b"1 open 9999999 " + b"x" * 100,
    ],
)
def test_broken_frame_is_refused(start, sent: bytes) -> None:
    running = start(protocol="relp")
    with running.connect() as client:
        client.sendall(message(9, b"stored") + sent)
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError):
            while client.recv(1_000):
                pass
    assert (values(running), running.status.refused) == (["stored"], {"relp": 1})


def test_unknown_command_gets_an_error_code(start) -> None:
    running = start(protocol="relp")
    with running.connect() as client:
        client.sendall(b"2 dance 0\n")
        assert read(client, 29) == b"2 rsp 19 500 unknown command\n"
