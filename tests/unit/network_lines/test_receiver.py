"""A separate receiver and queries that read its log, without Spark."""

from __future__ import annotations

import configparser
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from spark_connector_tests.query_process import QueryProcess, wait_until
from tests.stream_runs import running
from tests.unit.network_lines.running import HOST, SECONDS
from tutorial_pkg.__main__ import main
from tutorial_pkg.connectors.network_lines import NetworkLinesDataSource, network_status
from tutorial_pkg.connectors.network_lines.receiver import receive
from tutorial_pkg.connectors.network_lines.sender import send_lines
from tutorial_pkg.durable_log import handover, lock
from tutorial_pkg.durable_log.lock import LogLockedError

reading = partial(running, NetworkLinesDataSource)  # a query
PROJECT = Path(__file__).parents[3]
MAIN = PROJECT / "tutorial_pkg" / "__main__.py"


@contextmanager
def receiving(folder: Path, port: int, **options: object) -> Iterator[None]:
    """Run a receiver on a thread, and raise its error at the end."""
    stopping = threading.Event()
    words = {"port": str(port), **{name: str(value) for name, value in options.items()}}
    with ThreadPoolExecutor(1) as thread:
        ended = thread.submit(receive, folder, words, stopping)
        wait_until(lambda: ended.done() or _listens(folder, port), SECONDS, "listening")
        try:
            yield
        finally:
            stopping.set()
            ended.result(SECONDS)


def _listens(folder: Path, port: int) -> bool:
    status = network_status(folder)
    return status.listening and port in status.ports


def test_committed_segments_are_deleted(tmp_path, free_ports) -> None:
    port = free_ports(1)
    line = "x" * 999
    with receiving(tmp_path, port):
        send_lines(HOST, port, [line] * 150_000)
        segments = lambda: sorted((tmp_path / str(port)).glob("*.segment"))  # noqa: E731
        assert len(segments()) == 3
        with reading(tmp_path) as run:
            assert len(run.rows_until(lambda rows: len(rows) >= 150_000)) == 150_000
            run.reader.commit(run.offset)
            wait_until(lambda: len(segments()) == 1, SECONDS, "deleted segments")


def test_log_has_one_writer_and_one_reader(tmp_path, free_ports, monkeypatch) -> None:
    port = free_ports(2)
    monkeypatch.setattr(handover, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(lock.WriterLock.__init__, "__defaults__", (0.0,))
    with receiving(tmp_path, port), reading(tmp_path) as run:
        run.rows()
        with pytest.raises(LogLockedError, match=f"{tmp_path}/query is in use by process"):
            handover.ReceivedLogs(str(tmp_path), "port")
        with pytest.raises(LogLockedError, match=f"{tmp_path} is in use by process"):
            receive(tmp_path, {"port": str(port + 1)}, threading.Event())


def test_glob_finds_new_receivers(tmp_path, free_ports) -> None:
    port = free_ports(3)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "empty").mkdir()
    with receiving(tmp_path / "a", port), receiving(tmp_path / "b", port + 1):
        with reading(tmp_path / "*") as run:
            for each, name in ((port, "a"), (port + 1, "b")):
                send_lines(HOST, each, [f"{name} {number}" for number in range(3)])
            expected = ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]
            assert sorted(run.rows_until(lambda rows: len(rows) >= 6)) == expected
            with receiving(tmp_path / "c", port + 2):
                send_lines(HOST, port + 2, ["c"])
                assert run.rows_until(bool) == ["c"]
            assert run.offset.keys() == {f"a/{port}", f"b/{port + 1}", f"c/{port + 2}", "log"}
        send_lines(HOST, port, ["later"])
        with reading(tmp_path / "*", run.offset, includeMetadata="true") as again:
            assert again.rows_until(bool) == ["later"]


def test_missing_folder_is_an_error(tmp_path, free_ports, monkeypatch) -> None:
    monkeypatch.setattr(handover, "PATIENCE_SECONDS", 0.1)
    port = free_ports(1)
    with receiving(tmp_path / "a", port):
        send_lines(HOST, port, ["line"])
        with reading(tmp_path / "*") as run:
            run.rows_until(bool)
    (tmp_path / "a").rename(tmp_path.with_name("elsewhere"))
    text = rf"has read port a/{port} up to position \d+, but the lo"
    with reading(tmp_path / "*", run.offset) as again, pytest.raises(ValueError, match=text):
        again.rows()


def test_shortened_log_is_an_error(tmp_path, free_ports) -> None:
    """New lines would fill the gap, and the query would skip them."""
    port = free_ports(1)
    with receiving(tmp_path, port):
        send_lines(HOST, port, ["one"] * 100)
        with reading(tmp_path) as run:
            assert run.rows_until(lambda rows: len(rows) >= 100) and run.rows() == []
    [segment] = (tmp_path / str(port)).glob("*.segment")
    os.truncate(segment, 0)
    expected = rf"the query has read port {port} up to position \d+, but the log .* holds 0 to 0"
    with pytest.raises(ValueError, match=expected), receiving(tmp_path, port):
        """It does not even begin to listen."""


# ---- The command ---------------------------------------------------------------------------------


def words_of_the_unit(log: Path, port: int) -> list[str]:
    """Return the arguments in the example of a unit, with this log and port."""
    unit = configparser.ConfigParser()
    unit.read(PROJECT / "examples" / "network-receiver.service")
    assert unit["Service"]["Type"] == "notify"
    _, _, words = unit["Service"]["ExecStart"].partition(" -m tutorial_pkg receive ")
    return words.replace("/var/lib/network-log", str(log)).replace("11000", str(port)).split()


def test_systemd_gets_ready_and_stopping(tmp_path, free_ports) -> None:
    port, metrics = free_ports(2), free_ports(1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(SECONDS)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
        words = [*words_of_the_unit(tmp_path / "log", port), "--parallelism", 2]
        words += ["--metrics", metrics]
        output = tmp_path / "output"
        with QueryProcess(MAIN, "receive", *words, output=output, env=env) as process:
            assert systemd.recv(100) == b"READY=1"
            send_lines(HOST, port + 1, ["a", "b"])
            url = f"http://{HOST}:{metrics}/metrics"

            def metrics_text() -> str:
                text = urllib.request.urlopen(url).read().decode()
                return (
                    text if f'network_lines_lines_total{{port="{port + 1}"}} 2.0\n' in text else ""
                )

            text = wait_until(metrics_text, SECONDS, "two lines among the metrics")
            assert f'network_lines_listening{{port="{port}"}} 1.0\n' in text
            assert f'network_lines_dropped_total{{port="{port}",reason="too_long"}} 0.0\n' in text
            os.kill(process.pid, signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert process.wait(SECONDS) == 0
    assert not network_status(tmp_path / "log").listening


def test_errors_are_one_line(tmp_path, free_ports, capsys) -> None:
    port = free_ports(1)
    for words, expected in (
        (["--port", "x"], "receive: format `network_lines`: option `port` must be 1..65535, got"),
        (["--tls-key", __file__], "option `tlsKey` needs `tlsCertificate` as well"),
        (["--host", "192.0.2.1", "--port", str(port)], f"cannot listen on 192.0.2.1:{port}: "),
    ):
        assert main(["receive", str(tmp_path / "log"), *words]) == 1
        assert expected in capsys.readouterr().err
    assert not (tmp_path / "log" / "received.json").exists()  # a query would wait for its receiver
