"""A listener on one port, without Spark, for the tests here."""

from __future__ import annotations

import socket
from pathlib import Path

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.network_lines.data_source import parse_options
from tutorial_pkg.connectors.network_lines.listener import Listener
from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.durable_log.group import LogGroup
from tutorial_pkg.durable_log.segments import read_frames

HOST = "127.0.0.1"
SECONDS = 60  # until something that must happen counts as not happening
RESET_ON_CLOSE = b"\1\0\0\0\0\0\0\0"


class Running:
    """A listener on one port, its log, and what it has written there."""

    def __init__(self, directory: Path, port: int, **options: object) -> None:
        self.directory, self.port = directory, port
        self.idle = options.pop("idle", 300)
        texts = {name: str(value) for name, value in options.items()}
        self.options = parse_options({"path": str(directory), "port": str(port), **texts})
        self.options.idleTimeout = self.idle  # less than a second for a test
        self.open()

    def open(self) -> None:
        most = self.options.maxBacklogBytes
        self.logs = LogGroup(self.directory, [self.port], "port", most)
        self.log = self.logs.writers[self.port]
        self.listener = Listener(self.logs, self.options, patience=0)

    def close(self) -> None:
        self.listener.close()
        self.logs.close()

    def restart(self) -> None:
        """Start again, as a new process would."""
        self.close()
        self.open()

    @property
    def status(self) -> PortStatus:
        return self.listener.ports[self.port].status

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port))

    def lines(self) -> list[bytes]:
        found = read_frames(self.directory / str(self.port), self.log.first, self.log.end)
        return b"".join(split(payload)[0] for _, payload in found).split(b"\n")[:-1]

    def wait_for_lines(self, count: int) -> list[bytes]:
        wait_until(lambda: self.status.lines >= count, SECONDS, f"{count} lines in the log")
        return self.lines()

    def wait_until_free(self) -> None:
        wait_until(lambda: not self.status.connections, SECONDS, "the end of all connections")
