"""Whatever a client sends, only that client is refused, and it learns why."""

from __future__ import annotations

import json
import os
import random
import socket
import time

import psutil
import pytest

from spark_connector_tests.query_process import wait_until
from tests.soak import few_or_many
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tutorial_pkg.connectors.network_lines.protocol import greeting
from tutorial_pkg.connectors.network_lines.sender import send_lines

GREETING = greeting("host-7")
NESTED = b"[" * 2_000
RELP_OPEN = b"1 open 30 relp_version=0\ncommands=syslog\n"
CLIENT_HELLO = bytes.fromhex("16030100") + b"\n\n" * 100


def reply(running: Running, data: bytes) -> bytes:
    """Send `data`, and return what the listener says before it resets the connection."""
    received = b""
    with running.connect() as client:
        client.settimeout(SECONDS)
        client.sendall(data)
        try:
            while more := client.recv(65536):
                received += more
        except ConnectionResetError:
            return received
    raise AssertionError("the connection was closed in good order")


@pytest.mark.parametrize(
    "data",
    [
        b"\0network_lines " + NESTED + b"\n",
        b"\0network_lines \n",
        b'\0network_lines {"version":"\\ud800","name":"a"}\n',
        b'\0network_lines {"version":1,"name":"a"}\n',
        b'\0network_lines {"version":3,"name":"a"}\n',
        b'\0network_lines {"version":2,"name":"\\ud800"}\n',
        b'\0network_lines {"version":2,"name":"a\\n"}\n',
        b"\0network_lines " + b"9" * 10_000 + b"\n",
        GREETING + b"more\n",
    ],
)
def test_hostile_greeting(start, data) -> None:
    running = start()
    assert json.loads(reply(running, data).splitlines()[-1])["refused"]
    check_others_are_served(running)


@pytest.mark.parametrize(
    "data",
    [
        NESTED + b"\n",
        b'{"bytes":2,"position":' + b"[" * 900 + b"]" * 900 + b"}\na\n",
        b'{"bytes":2,"position":{"x":' + b"[" * 101 + b"]" * 101 + b"}}\na\n",
        b'{"bytes":' + b"9" * 4_000 + b',"position":{}}\n',
        b'{"bytes":1e999,"position":{}}\n',
        b'{"bytes":-1,"position":{}}\n',
        b'{"bytes":true,"position":{}}\n',
        b'{"bytes":99999999,"position":{}}\n',
        b'{"bytes":2}\na\n',
        b'{"bytes":2,"position":7}\na\n',
        b'{"bytes":1,"position":{}}\na',
        b'{"bytes":2,"position":{"x":"' + b"x" * 4_096 + b'"}}\na\n',
        b"x" * 70_000,
        b"\xff\xfe[]\n",
    ],
)
def test_hostile_block(start, data) -> None:
    running = start()
    with running.connect() as client:
        client.sendall(GREETING)
        assert b"block_bytes" in client.recv(65536)
        client.sendall(data)
        assert json.loads(client.recv(65536))["refused"]
    check_others_are_served(running)


def check_others_are_served(running: Running) -> None:
    assert running.status.refused == {"sender": 1}
    running.listener.raise_failure()
    send_lines(HOST, running.port, ["still served"])
    assert running.lines() == [b"still served"]


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (CLIENT_HELLO, "TLS"),
        (RELP_OPEN, "RELP"),
        (b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nline\n", "PROXY"),
        (b"\r\n\r\n\0\r\nQUIT\n!\x11\0", "PROXY"),
        (b"19 <13>1 - host app - - x\n", "octet-counted"),
        (b'{"version":"1.1","host":"a"}\0{"version":"1.1"}\0', "GELF"),
    ],
)
def test_other_protocol_at_a_port_for_lines(start, data: bytes, advice: str) -> None:
    running = start()
    assert advice in reply(running, data).decode()
    assert advice in running.status.last_refused
    assert (running.lines(), running.status.refused) == ([], {"protocol": 1})


@pytest.mark.parametrize("lines", [[b'{"a":1}', b"x\0"], [b"1 open 5 doors"], [b"19 <b>"], [b""]])
def test_lines_that_look_similar_are_lines(start, lines: list[bytes]) -> None:
    running = start()
    send_lines(HOST, running.port, lines)
    assert running.lines() == lines


@pytest.mark.parametrize("data", [b"line\n", b"line", GREETING, CLIENT_HELLO, RELP_OPEN])
@pytest.mark.parametrize("protocol", ["relp", "tls"])
def test_wrong_port_is_explained(start, certificates, data: bytes, protocol: str) -> None:
    if (data, protocol) in ((CLIENT_HELLO, "tls"), (RELP_OPEN, "relp")):
        pytest.skip("the right port")
    running = start(protocol="relp") if protocol == "relp" else start(**certificates.files())
    text = reply(running, data).decode()
    assert f"this port expects {protocol.upper()}" in text
    assert text.startswith("network_lines refused: ")
    assert running.lines() == []


def noise(chance: random.Random, relp: bool) -> bytes:
    """Return something that a broken or hostile client might send."""
    digits = b"9" * chance.randint(1, 5_000)
    position = b"[" * chance.randint(1, 3_000)
    block = b'{"bytes":4,"position":{"k":"\\ud800"}}\na\nb\n'
    pieces = [
        chance.randbytes(chance.randint(1, 3_000)),
        b'{"bytes":' + digits + b',"position":{}}\n',
        b'{"bytes":2,"position":' + position + b"}\na\n",
        b'{"position":{"' + digits[:100] + b'":' + digits + b"}}\n",
        block[: chance.randint(1, len(block))],
        b"%d syslog %d x" % (chance.randint(0, 10**9), chance.randint(0, 10**9)),
        digits[:9] + b" open 5 " + chance.randbytes(20),
    ]
    start = [RELP_OPEN] if relp else [greeting(f"n{chance.randint(0, 50)}"), b"\0network_lines "]
    return chance.choice([*start, b""]) + b"".join(chance.choices(pieces, k=3))


@few_or_many("seconds", 2, 60)
@pytest.mark.parametrize("relp", [False, True])
def test_noise_harms_nobody(start, relp: bool, seconds: float) -> None:
    """It comes for some seconds, while the lines of an honest sender all arrive."""
    running = start(protocol="relp" if relp else "lines")
    chance, until, sent = random.Random(49), time.monotonic() + seconds, []
    process, memory = psutil.Process(os.getpid()), 0
    while time.monotonic() < until:
        for _ in range(20):
            with running.connect() as client:
                client.settimeout(0.01)
                try:
                    client.sendall(noise(chance, relp))
                    client.recv(1_000)
                except OSError:
                    pass
        honest(running, relp, line := b"honest %d" % len(sent))
        sent.append(line)
        wait_until(lambda: running.status.connections == 0, SECONDS, "the end of all connections")
        memory = memory or process.memory_info().rss
    assert [line for line in running.lines() if line.startswith(b"honest")] == sent
    assert process.memory_info().rss - memory < 64 << 20
    running.listener.raise_failure()


def honest(running: Running, relp: bool, line: bytes) -> None:
    with running.connect() as client:
        client.settimeout(SECONDS)
        if relp:
            client.sendall(b"1 syslog %d %s\n" % (len(line), line))
            assert client.recv(100) == b"1 rsp 6 200 OK\n"
        else:
            client.sendall(line + b"\n")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(100) == b""
