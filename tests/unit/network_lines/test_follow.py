"""Growing files are sent as they grow, through rotation, restarts and an absent receiver."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_connector_tests.query_process import wait_until
from tests.certificates import Certificates
from tests.unit.network_lines.running import HOST, SECONDS, Running
from tests.unit.network_lines.test_forward import WELCOME, write
from tutorial_pkg.connectors.file_lines import FileOffset, Notes, Tail, stream_options
from tutorial_pkg.connectors.network_lines import follow as follow_module
from tutorial_pkg.connectors.network_lines.follow import follow
from tutorial_pkg.connectors.network_lines.forward import send_named
from tutorial_pkg.connectors.network_lines.tls import client_tls
from tutorial_pkg.core.read_limit import Limits


class Following:
    """`follow` on a thread. `stop` ends it, and raises its error if it had one."""

    def __init__(self, path: Path, port: int, tls: Callable[[], Any] = lambda: None) -> None:
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        arguments = path, HOST, port, "host-7", tls, self._stopping
        self._ended = self._thread.submit(follow, *arguments)

    def stop(self) -> None:
        self._stopping.set()
        self._ended.result(SECONDS)
        self._thread.shutdown()


@pytest.fixture
def followed() -> Iterator[Callable[..., Following]]:
    started: list[Following] = []

    def start(*arguments: Any) -> Following:
        started.append(Following(*arguments))
        return started[-1]

    yield start
    for following in started:
        following.stop()


def wait_for(running: Running, expected: list[bytes]) -> None:
    wait_until(lambda: len(running.lines()) >= len(expected), SECONDS, "all lines")
    assert sorted(running.lines()) == sorted(expected)


def test_folder_is_followed_through_rotation(start, tmp_path, followed) -> None:
    running, folder = start(), tmp_path / "logs"
    folder.mkdir()
    expected = write(folder / "app.log", range(1_000))
    (folder / "app.log.9.gz").write_bytes(gzip.compress(b"from before\n"))
    followed(folder, running.port)
    wait_for(running, expected)
    for turn in range(1, 4):
        (folder / "app.log").rename(folder / f"app.log.{turn}")
        expected += write(folder / "app.log", range(turn * 1_000, turn * 1_000 + 500))
        wait_for(running, expected)


@pytest.mark.parametrize("name", ["nothing/app.log", "nothing/*.log"])
def test_missing_folder_is_waited_for(start, tmp_path, followed, caplog, name) -> None:
    running = start()
    followed(tmp_path / name, running.port)
    wait_until(lambda: "does not exist yet" in caplog.text, SECONDS, "the warning")
    (tmp_path / "nothing").mkdir()
    wait_for(running, write(tmp_path / "nothing" / "app.log", range(3)))


def test_reused_inode_is_not_an_earlier_file(tmp_path) -> None:
    """A file that comes from elsewhere stands for one that got the inode of a deleted one."""
    other, file = tmp_path / "other", tmp_path / "logs" / "app.log"
    file.parent.mkdir()
    write(other, range(3))
    write(file, range(3))
    status = other.stat()
    also = {f"{status.st_dev}:{status.st_ino}"}
    tail = Tail(stream_options({"path": str(file)}), Notes(None), FileOffset({}), also=also)
    assert tail.look()
    assert len(tail.take(Limits()).files) == 1
    other.rename(file.with_name("other.log"))
    assert not tail.look()
    assert tail.known_ids() == {f"{file.stat().st_dev}:{file.stat().st_ino}"}


def test_line_over_the_limit_is_skipped(start, tmp_path, followed, caplog) -> None:
    running, file = start(maxLineBytes=1_000), tmp_path / "app.log"
    file.write_bytes(b"a" * 1_000 + b"\n" + b"b" * 1_001 + b"\n" + b"c" * (2 << 20) + b"\nd\n")
    followed(file, running.port)
    wait_for(running, [b"a" * 1_000, b"d"])
    assert f"{file}: skipped 1 lines before byte " in caplog.text
    assert f"{file}: skipped a line of {(2 << 20) + 1} bytes at byte 2003" in caplog.text


# ---- A receiver that is away ---------------------------------------------------------------------


def test_absent_receiver_is_reported_once(tmp_path, free_ports, followed, caplog) -> None:
    port, file = free_ports(1), tmp_path / "app.log"
    expected = write(file, range(100))
    followed(file, port)
    for turn in range(1, 3):
        wait_until(lambda n=turn: caplog.text.count("is away") == n, SECONDS, "the warning")
        running = Running(tmp_path / "log", port)
        wait_for(running, expected)
        running.close()
        expected += write(file, range(turn * 100, turn * 100 + 100))
    wait_until(lambda: caplog.text.count("is away") == 3, SECONDS, "the warning")


@pytest.mark.parametrize("reply", [b"", WELCOME])
def test_silent_receiver_does_not_delay_the_end(tmp_path, followed, reply) -> None:
    write(tmp_path / "app.log", range(3))
    with socket.create_server((HOST, 0)) as server:
        following = followed(tmp_path / "app.log", server.getsockname()[1])
        with server.accept()[0] as client:
            client.sendall(reply)
            assert client.recv(1_000)
            following.stop()


def test_rotation_without_receiver_loses_nothing(
    tmp_path, free_ports, followed, monkeypatch
) -> None:
    """One file comes and goes under the name."""
    looks: list[None] = []
    really_watch = follow_module.GrowingFiles.watch
    monkeypatch.setattr(
        follow_module.GrowingFiles, "watch", lambda self: (really_watch(self), looks.append(None))
    )
    port, file = free_ports(1), tmp_path / "app.log"
    expected = write(file, range(100))
    running = Running(tmp_path / "log", port)
    followed(file, port)
    wait_for(running, expected)
    running.close()
    for turn in (2, 1):
        seen = len(looks) + 2
        file.rename(tmp_path / f"app.log.{turn}")
        expected += write(file, range(turn * 1_000, turn * 1_000 + 100))
        wait_until(lambda n=seen: len(looks) >= n, SECONDS, "a look")
    running = Running(tmp_path / "log", port)
    wait_for(running, expected)
    running.close()


@pytest.mark.parametrize(
    ("file_name", "names", "broken", "reason"),
    [
        ("server", [HOST], False, "presented an untrusted certificate: certificate has"),
        ("host-7", ["host-7"], False, "does not accept this sender's certificate"),
        ("host-7", ["host-7"], True, "host-7.pem cannot be used"),
    ],
    ids=["the receiver's has expired", "the sender's has expired", "the sender's is half written"],
)
def test_follow_waits_for_renewed_certificate(
    start, tmp_path, followed, caplog, file_name, names, broken, reason
) -> None:
    mine, file = Certificates(tmp_path), tmp_path / "app.log"
    client = mine.issue("host-7", "host-7")
    running, expected = start(**mine.files()), write(file, range(100))
    followed(file, running.port, lambda: client_tls(mine.ca, client))
    wait_for(running, expected)
    renewed = mine.issue(file_name, *names, until=datetime.now(UTC) - timedelta(days=1))
    if broken:
        renewed.write_bytes(renewed.read_bytes()[:100])
    running.restart()
    wait_until(lambda: reason in caplog.text, SECONDS, "the reason")
    expected += write(file, range(100, 200))
    mine.issue(file_name, *names)
    wait_for(running, expected)
    assert caplog.text.count(reason) == 1


def test_name_is_for_one_kind_of_sending(start, tmp_path) -> None:
    running, file = start(), tmp_path / "file"
    write(file, range(3))
    send_named(file, HOST, running.port, "host-7", instance="me")
    running.wait_until_free()
    with pytest.raises(ValueError, match="this name was used for another kind of sending"):
        follow(file, HOST, running.port, "host-7", instance="me")
