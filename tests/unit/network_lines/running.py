"""A listener on one port, without Spark, for the tests here."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from spark_connector_tests.query_process import wait_until
from tutorial_pkg.connectors.network_lines.listener import Listener, PortLimits
from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.connectors.network_lines.tls import TlsFiles
from tutorial_pkg.durable_log.group import Backlog
from tutorial_pkg.durable_log.lock import WriterLock
from tutorial_pkg.durable_log.segments import SegmentWriter, read_frames

HOST = "127.0.0.1"
SECONDS = 60  # until something that must happen counts as not happening


class Running:
    """A listener on one port, its log, and what it has written there."""

    def __init__(
        self,
        directory: Path,
        port: int,
        limits: PortLimits,
        max_backlog: int = 1 << 40,
        tls: TlsFiles | None = None,
    ) -> None:
        self.directory, self.port, self._limits, self._tls = directory, port, limits, tls
        self._max_backlog = max_backlog
        self.now = 1_000.0
        self.open()

    def open(self) -> None:
        self.lock = WriterLock(self.directory)
        self.log = SegmentWriter(self.directory / str(self.port))
        self.backlog = Backlog({self.port: self.log}, self._max_backlog)
        clock: Callable[[], float] = lambda: self.now  # noqa: E731
        parts = self.directory, HOST, [self.port], self.backlog, self._limits, clock
        self.listener = Listener(*parts, patience=0, tls=self._tls)

    def close(self) -> None:
        self.listener.close()
        self.log.close()
        self.lock.release()

    def restart(self) -> None:
        """Start again, as a new process would."""
        self.close()
        self.open()

    @property
    def status(self) -> PortStatus:
        return self.listener._ports[self.port].status

    def connect(self) -> socket.socket:
        return socket.create_connection((HOST, self.port))

    def lines(self) -> list[bytes]:
        found = read_frames(self.directory / str(self.port), self.log.first, self.log.end)
        return b"".join(split(payload)[0] for _, payload in found).split(b"\n")[:-1]

    def wait_for_lines(self, count: int) -> list[bytes]:
        wait_until(lambda: self.status.lines >= count, SECONDS, f"{count} lines in the log")
        return self.lines()
