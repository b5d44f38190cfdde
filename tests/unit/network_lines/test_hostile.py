"""Whatever a client sends, only that client is refused."""

from __future__ import annotations

import json

import pytest

from tests.unit.network_lines.running import Running
from tutorial_pkg.connectors.network_lines.sender import send_lines

GREETING = b'\0network_lines {"version":1,"name":"host-7"}\n'
NESTED = b"[" * 2_000


def reply(running: Running, data: bytes) -> bytes:
    """Send `data`, and return the last line that the listener says."""
    with running.connect() as client:
        client.settimeout(30)
        client.sendall(data)
        received = b""
        while b"refused" not in received and (more := client.recv(65536)):
            received += more
    return received.splitlines()[-1]


@pytest.mark.parametrize(
    "data",
    [
        b"\0network_lines " + NESTED + b"\n",
        b'\0network_lines {"version":"\\ud800","name":"a"}\n',
        b'\0network_lines {"version":1,"name":"\\ud800"}\n',
        b"\0network_lines " + b"9" * 10_000 + b"\n",
        GREETING + NESTED + b"\n",
        GREETING + b'{"bytes":2,"position":' + b"[" * 900 + b"]" * 900 + b"}\na\n",
        GREETING + b'{"bytes":' + b"9" * 4_000 + b',"position":1}\n',
        GREETING + b'{"bytes":1e999,"position":1}\n',
        GREETING + b"\xff\xfe[]\n",
    ],
)
def test_hostile_sender_is_refused_alone(start, data) -> None:
    running = start()
    assert json.loads(reply(running, data))["refused"]
    assert running.status.refused == {"sender": 1}
    running.listener.raise_failure()
    send_lines("127.0.0.1", running.port, ["still served"])
    assert running.lines() == [b"still served"]
