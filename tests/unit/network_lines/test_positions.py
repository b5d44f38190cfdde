"""What the receiver knows of senders with a name, and the protocol in which they tell it."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.network_lines.running import SECONDS, Running
from tutorial_pkg.connectors.network_lines import positions as positions_module
from tutorial_pkg.connectors.network_lines.payload import split, with_note
from tutorial_pkg.connectors.network_lines.positions import Positions
from tutorial_pkg.connectors.network_lines.protocol import RefusedError, greeting, json_line
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.durable_log.segments import SegmentWriter, read_frames


class Client:
    """A sender with a name that shows what is said."""

    def __init__(self, running: Running, name: str = "host-7") -> None:
        self.running, self.socket = running, running.connect()
        self.socket.settimeout(SECONDS)
        self._file = self.socket.makefile("rb")
        self.socket.sendall(greeting(name))
        self.welcome = self.read()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()
        self.running.wait_until_free()

    def read(self) -> dict[str, Any]:
        return json.loads(self._file.readline())

    def send(self, lines: bytes = b"", **position: Any) -> dict[str, Any]:
        self.socket.sendall(json_line(bytes=len(lines), position=position) + lines)
        return self.read()


def position_of(running: Running, name: str = "host-7") -> dict[str, Any]:
    with Client(running, name) as client:
        return client.welcome["position"]


def test_blocks_change_single_entries(start) -> None:
    running = start()
    with Client(running) as client:
        assert client.welcome["position"] == {}
        assert client.send(b"a\n", one=1, two={"at": [2]}) == {"stored": 1}
        assert client.send(b"b\n", one=3) == {"stored": 2}
        assert client.send(three=None, two=None, four=4) == {"stored": 3}
    assert position_of(running) == {"one": 3, "four": 4}
    running.restart()
    assert position_of(running) == {"one": 3, "four": 4}
    assert running.lines() == [b"a", b"b"]


def test_frame_holds_only_what_changed(start) -> None:
    running = start()
    with Client(running) as client:
        for number in range(1_000):
            client.send(**{f"file {number}": {"next": number, "head": "0123456789abcdef"}})
        before = running.log.end
        client.send(b"line\n", **{"file 7": {"next": 9, "head": "0123456789abcdef"}})
        assert running.log.end - before < 300
        send_lines("127.0.0.1", running.port, ["plain"])
        assert running.log.end - before < 350
    assert len(position_of(running)) == 1_000


def test_welcome_of_a_large_position(start) -> None:
    running, text = start(), "x" * 3_900
    with Client(running) as client:
        for number in range(400):
            client.send(**{str(number): text})
    assert position_of(running) == {str(number): text for number in range(400)}


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_greeting_and_block_in_pieces(start, size: int) -> None:
    running = start()
    with running.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def say(text: bytes) -> dict[str, Any]:
            for place in range(0, len(text), size):
                client.sendall(text[place : place + size])
            return json.loads(client.recv(1_000))

        assert say(greeting("host-7"))["position"] == {}
        assert say(b'{"bytes":4,"position":{"next":4}}\na\nb\n') == {"stored": 1}
    assert running.lines() == [b"a", b"b"]


def test_half_a_greeting_is_no_line(start) -> None:
    running = start(unterminated="keep")
    with running.connect() as client:
        client.sendall(greeting("host-7")[:20])
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
    assert running.lines() == []


def test_block_is_stored_after_the_sync(start, monkeypatch) -> None:
    running = start()
    go, sync = threading.Event(), running.log.sync
    with Client(running) as client:
        monkeypatch.setattr(running.log, "sync", lambda: (go.wait(SECONDS), sync())[1])
        client.socket.sendall(json_line(bytes=2, position={"next": 2}) + b"a\n")
        running.wait_for_lines(1)
        client.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        go.set()
        client.socket.settimeout(SECONDS)
        assert json.loads(client.socket.recv(100)) == {"stored": 1}


def test_heartbeats_keep_an_idle_sender(start) -> None:
    running = start(idle=1)
    with Client(running) as client:
        client.send(b"a\n", next=2)
        for _ in range(8):
            client.socket.sendall(b'{"bytes":0}\n')
            assert client.read() == {"stored": 1}
            threading.Event().wait(0.25)
    assert running.status.idle_closed == 0


# ---- Without a network ---------------------------------------------------------------------------


class Logs:
    """Some logs and the positions in them."""

    def __init__(self, folder: Path, count: int = 1, segment_bytes: int = 1 << 26) -> None:
        self._places = [(folder / str(number), segment_bytes) for number in range(count)]
        self.open()

    def open(self) -> None:
        self.logs = [SegmentWriter(*place) for place in self._places]
        self.positions = Positions(self.logs)

    def restart(self) -> None:
        for log in self.logs:
            log.close()
        self.open()

    def append(self, name: str, log: int = 0, **changes: Any) -> None:
        texts = {key: json.dumps(value) for key, value in changes.items()}
        with self.positions.noted(self.logs[log], {name: texts}) as positions:
            self.logs[log].append(with_note(b"x\n", positions=positions), 1, 0)

    def position(self, name: str) -> dict[str, Any]:
        with self.positions.used(name) as entries:
            return {key: json.loads(text) for key, text in entries.items()}


def test_newest_segment_has_all_positions(tmp_path) -> None:
    logs = Logs(tmp_path, segment_bytes=1_000)
    logs.append("old", at=7)
    for number in range(100):
        logs.append("busy", at=number, **{f"key {number % 3}": number})
    logs.logs[0].sync()
    logs.logs[0].delete_below(logs.logs[0].end)
    logs.restart()
    assert logs.position("old") == {"at": 7}
    assert logs.position("busy") == {"at": 99, "key 0": 99, "key 1": 97, "key 2": 98}


def test_position_across_the_logs_of_two_ports(tmp_path) -> None:
    logs = Logs(tmp_path, count=2, segment_bytes=300)
    for number in range(50):
        logs.append("moving", log=number % 7 % 2, at=number, **{f"k{number % 2}": number})
        if number % 10 == 9:
            logs.restart()
            assert logs.position("moving") == {"at": number, "k0": number - 1, "k1": number}


def test_positions_of_version_1_are_read(tmp_path) -> None:
    log = SegmentWriter(tmp_path / "0")
    old = {"position": '{"next":7,"head":"x"}', "client": None, "seen": 1.7e9, "count": 3}
    log.append(with_note(b"x\n", senders={"host-7": old}), 1, 0)
    log.close()
    logs = Logs(tmp_path)
    assert logs.position("host-7") == {"next": 7, "head": "x"}
    logs.append("host-7", next=8)
    logs.restart()
    assert logs.position("host-7") == {"next": 8, "head": "x"}


@pytest.mark.parametrize("limit", ["MOST_ENTRIES", "MOST_NAME_BYTES", "MOST_BYTES"])
def test_positions_are_bounded(tmp_path, monkeypatch, limit: str) -> None:
    logs = Logs(tmp_path)
    logs.append("host-7", **{str(number): number for number in range(10)})
    monkeypatch.setattr(positions_module, limit, 10)
    with pytest.raises(RefusedError):
        logs.append("host-7", **{"11": 11})
    logs.append("host-7", **{"9": 8})
    assert logs.position("host-7")["9"] == 8


def test_number_of_names_is_bounded(tmp_path, monkeypatch) -> None:
    logs = Logs(tmp_path)
    monkeypatch.setattr(positions_module, "MOST_NAMES", 2)
    for name in ("one", "two"):
        logs.append(name, at=1)
    with pytest.raises(RefusedError, match="2 names already"):
        logs.position("three")
    assert logs.position("one") == {"at": 1}


def test_full_disk_moves_no_position(tmp_path, monkeypatch) -> None:
    """Else the first frame in another port's log has a copy, and the sender skips lines."""
    logs = Logs(tmp_path, count=2)
    logs.append("host-7", at=1)
    with monkeypatch.context() as disk, pytest.raises(OSError, match="no room"):
        disk.setattr(os, "writev", lambda *_: 0)
        logs.append("host-7", at=2)
    logs.append("host-8", log=1, at=1)
    logs.restart()
    assert logs.position("host-7") == {"at": 1}


@pytest.mark.parametrize("lines", [b"", b"a\n", b"\0\n", b"a\n\0\0\0\0\0\n"])
def test_lines_and_note_are_separated(lines: bytes) -> None:
    for client in ("", "host-7", "\0\n"):
        part, note = split(memoryview(bytes(with_note(lines, client=client))))
        assert (bytes(part), note.get("client", "")) == (lines, client)


def test_copies_are_on_disk_after_their_lines(tmp_path) -> None:
    """A copy in one log must not survive a power failure that takes the lines in another."""
    logs = Logs(tmp_path, count=2)
    logs.append("host-7", at=1)
    synced: list[int] = []
    sync = logs.logs[0].sync
    logs.logs[0].sync = lambda: synced.append(sync()) or synced[-1]  # type: ignore[method-assign]
    logs.append("host-8", log=1, at=1)
    assert synced == [logs.logs[0].end]
    [frame] = [payload for _, payload in read_frames(tmp_path / "1", 0, logs.logs[1].end)]
    assert "host-7" in split(frame)[1]["positions"]
