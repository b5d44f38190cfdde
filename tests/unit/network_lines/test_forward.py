"""A file sent under a name: every line is in the log once, also after broken connections."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.cutting_proxy import CuttingProxy
from tests.unit.network_lines.running import HOST, RESET_ON_CLOSE, Running
from tutorial_pkg.connectors.network_lines import forward
from tutorial_pkg.connectors.network_lines.forward import Exchange, NameInUseError, send_named
from tutorial_pkg.connectors.network_lines.sender import SenderRefusedError

WELCOME = b'{"position":{},"block_bytes":10,"block_rows":10,"line_bytes":10,"idle_seconds":300}\n'


def write(path: Path, lines: range) -> list[bytes]:
    expected = [b"line %d" % number for number in lines]
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in expected))
    return expected


def exchange(running: Running, name: str = "host-7") -> Exchange:
    return Exchange((HOST, running.port), name)


@contextmanager
def replying(*replies: bytes, option: bytes = b"\0" * 8) -> Iterator[int]:
    """A server that sends the next reply whenever it has read something, and closes."""
    with socket.create_server((HOST, 0)) as server, ThreadPoolExecutor(1) as thread:

        def reply() -> None:
            with server.accept()[0] as client:
                for data in replies:
                    client.recv(1_000)
                    client.sendall(data)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)

        thread.submit(reply)
        yield server.getsockname()[1]


def test_file_sent_twice_is_stored_once(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    expected = write(file, range(50_000))
    assert send_named(file, HOST, running.port, "host-7") == 50_000
    assert send_named(file, HOST, running.port, "host-7") == 0
    running.restart()
    expected += write(file, range(50_000, 50_100))
    assert send_named(file, HOST, running.port, "host-7") == 100
    assert running.lines() == expected


def test_cut_connections_lose_and_repeat_nothing(start, tmp_path, monkeypatch) -> None:
    """A proxy cuts each connection after some bytes, mostly in the middle of a line."""
    monkeypatch.setattr("tutorial_pkg.connectors.network_lines.dialogues.FRAME_BYTES", 10_000)
    running, file = start(), tmp_path / "file"
    expected = write(file, range(60_000))
    chance, cuts = random.Random(27), 0
    with CuttingProxy(running.port) as proxy:
        while running.lines() != expected:
            proxy.most = chance.randint(0, 200_000)
            try:
                send_named(file, HOST, proxy.port, "host-7")
            except ConnectionError:
                cuts += 1
            running.wait_until_free()
    assert cuts > 3
    assert running.status.dropped == {"too_long": 0, "unterminated": 0}


def test_torn_last_line_is_not_sent(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    file.write_bytes(b"whole\ntorn")
    with pytest.raises(ValueError, match="its last 4 bytes have no newline"):
        send_named(file, HOST, running.port, "host-7")
    assert running.lines() == [b"whole"]
    file.write_bytes(b"whole\ntorn no more\n")
    assert send_named(file, HOST, running.port, "host-7") == 1
    assert running.lines() == [b"whole", b"torn no more"]


@pytest.mark.parametrize("content", [b"", b"a\n", b"x\nb\n", b"a\nx\nc\n"])
def test_replaced_file_is_refused(start, tmp_path, content: bytes) -> None:
    running, file = start(), tmp_path / "file"
    file.write_bytes(b"a\nb\n")
    send_named(file, HOST, running.port, "host-7")
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"replaced or truncated.*under another name"):
        send_named(file, HOST, running.port, "host-7")
    assert running.lines() == [b"a", b"b"]


@pytest.mark.parametrize("size", [1_001, 300_000])
def test_line_over_the_limit_is_an_error(start, tmp_path, size: int) -> None:
    running, file = start(maxLineBytes=1_000), tmp_path / "file"
    file.write_bytes(b"a" * 1_000 + b"\n" + b"c" * size + b"\nd\n")
    with pytest.raises((ValueError, SenderRefusedError), match=r"1001 bytes|more than 1000 bytes"):
        send_named(file, HOST, running.port, "host-7")


def test_lines_longer_than_a_block(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    lines = [b"x" * size for size in (300_000, 5, 1 << 20, 0, 262_143, 262_144)]
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    send_named(file, HOST, running.port, "host-7")
    assert running.lines() == lines


# ---- What the receiver replies -------------------------------------------------------------------


def test_name_in_use_is_refused(start, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(forward, "IN_USE_SECONDS", 0.0)
    running, file = start(), tmp_path / "file"
    write(file, range(3))
    with exchange(running) as first:
        with pytest.raises(NameInUseError):
            send_named(file, HOST, running.port, "host-7")
        first.run([(b"still served\n", {"next": 13})])
    running.wait_until_free()
    with exchange(running) as third:
        assert third.welcome["position"] == {"next": 13}


def test_instance_depends_on_machine_and_path(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(forward, "_MACHINE_ID", tmp_path / "machine-id")
    assert forward.own_instance() is None
    (tmp_path / "machine-id").write_text("4f2a\n")
    instances = [forward.own_instance(path) for path in (None, "/a", "/a/b", "/a/b/../b")]
    assert len(set(instances)) == 3
    assert {len(instance or "") for instance in instances} == {16}


def test_second_instance_of_a_name_is_refused(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    expected = write(file, range(3))
    send_named(file, HOST, running.port, "host-7", instance="alpha")
    running.restart()
    with pytest.raises(SenderRefusedError, match="--instance alpha"):
        send_named(file, HOST, running.port, "host-7", instance="beta")
    assert send_named(file, HOST, running.port, "host-7", instance="alpha") == 0
    assert running.lines() == expected


@pytest.mark.parametrize(
    "replies",
    [
        [b"{\n"],
        [b"[]\n"],
        [b"7\n"],
        [b"[" * 100_000 + b"\n"],
        [b"{}\n"],
        [b'{"position":7}\n'],
        [WELCOME.replace(b"10", b'"10"', 1)],
        [WELCOME.replace(b"10", b"-1", 1)],
        [WELCOME + b"{}\n"],
        [WELCOME + b'{"stored":"1"}\n'],
        [WELCOME + b'{"stored":7}\n'],
        [WELCOME + b"null\n"],
        [b"220 mail.example.com ESMTP\r\n"],
        [b"\x15\x03\x03\x00\x02\x02\x32"],
        [b'{"refused":7,"in_use":[]}\n'],
    ],
)
def test_strange_replies_are_refusals(tmp_path, replies) -> None:
    write(tmp_path / "file", range(3))
    with replying(*replies) as port, pytest.raises(SenderRefusedError):
        send_named(tmp_path / "file", HOST, port, "host-7")


def test_reset_instead_of_welcome_is_an_error(tmp_path) -> None:
    write(tmp_path / "file", range(3))
    with (
        replying(b"", option=RESET_ON_CLOSE) as port,
        pytest.raises(ConnectionError, match=f"{HOST}:{port}: the connection broke"),
    ):
        send_named(tmp_path / "file", HOST, port, "host-7")


def test_silent_receiver_counts_as_gone(start) -> None:
    """A proxy may keep a connection open after the receiver has gone."""
    running = start(idle=0.3)
    with exchange(running) as sender:
        running.logs._max_backlog_bytes = -1  # it reads nothing from now on
        with pytest.raises(TimeoutError, match="read nothing and replied nothing"):
            while True:
                sender.rest(0.05)
