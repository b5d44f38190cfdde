"""What a listener tells about itself, in a small file that anyone may read."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tutorial_pkg.core.writer_lock import writer_process

FILE_NAME = "status.json"
PUBLISH_SECONDS = 0.25

_log = logging.getLogger(__name__)


@dataclass
class PortStatus:
    """One port, counted since the listener's start; `bytes` and `lines` are in the log.

    `dropped` counts lines by reason: `too_long` (more than maxLineBytes), `unterminated` (the
    connection ended, broke or was closed as idle in the middle of a line). `kept_unterminated`
    counts those that were taken for lines all the same, with unterminated=keep.
    """

    listening: bool = True
    connections: int = 0
    accepted: int = 0
    idle_closed: int = 0
    bytes: int = 0
    lines: int = 0
    backlog_bytes: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: {"too_long": 0, "unterminated": 0})
    kept_unterminated: int = 0


@dataclass(frozen=True)
class NetworkStatus:
    """All ports of one log. Printed, it is a line for each port.

    `process` is the listening process, or None if it is gone; `warnings` tell what was repaired.
    """

    path: Path
    process: int | None
    ports: dict[int, PortStatus]
    warnings: list[str]

    @property
    def listening(self) -> bool:
        """Whether there are ports and a sender can connect to every one of them."""
        return bool(self.ports) and all(port.listening for port in self.ports.values())

    def __str__(self) -> str:
        if not self.ports:
            return f"No query has listened for the log {self.path} yet."
        lines = [_port_text(number, port) for number, port in self.ports.items()]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])


def network_status(path: str | Path) -> NetworkStatus:
    """The state of the listener that writes the log `path`, at most half a second old.

    It only looks at files, so it can be asked at any time, also when nothing listens. Raises
    `ValueError` when the status file is damaged.
    """
    file = Path(path, FILE_NAME)
    try:
        process, ports, warnings = _parsed(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return NetworkStatus(Path(path), None, {}, [])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{file} is damaged; delete it: a query that listens writes it") from None
    if process != writer_process(Path(path)):
        process = None
        for port in ports.values():
            port.listening, port.connections = False, 0
    return NetworkStatus(Path(path), process, ports, warnings)


def _parsed(text: str) -> tuple[int | None, dict[int, PortStatus], list[str]]:
    published = json.loads(text)
    ports = {int(number): PortStatus(**port) for number, port in published["ports"].items()}
    return published["process"], ports, published["warnings"]


class StatusPublisher(threading.Thread):
    """Publishes what `current` returns whenever it has changed, until `stop`.

    When it cannot be written, because the disk is full for a moment, the lines matter more: it is
    tried again, and `warnings` tell of it.
    """

    def __init__(
        self, directory: Path, current: Callable[[], dict[int, PortStatus]], warnings: list[str]
    ) -> None:
        super().__init__(name="status", daemon=True)
        self._directory = directory
        self._current = current
        self._warnings = warnings
        self._published: dict[int, PortStatus] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        self._publish_changes()
        while not self._stopping.wait(PUBLISH_SECONDS):
            self._publish_changes()
        self._publish_changes()

    def stop(self) -> None:
        """Publish for the last time, and end."""
        self._stopping.set()
        self.join()

    def _publish_changes(self) -> None:
        current = self._current()
        if current == self._published:
            return
        try:
            publish(self._directory, current, self._warnings)
        except OSError as failure:
            self._warn(f"the status could not be written for a while: {failure.strerror}")
        else:
            self._published = current

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)
            _log.warning("%s: %s", self._directory, text)


def publish(directory: Path, ports: dict[int, PortStatus], warnings: list[str]) -> None:
    """Replace the published status in one step, so that nobody reads half of one."""
    status = {
        "process": os.getpid(),
        "ports": {number: asdict(port) for number, port in ports.items()},
        "warnings": warnings,
    }
    draft = directory / f"{FILE_NAME}.new"
    draft.unlink(missing_ok=True)  # what is there may lead elsewhere
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as written:
        json.dump(status, written)
    draft.replace(directory / FILE_NAME)


def _port_text(number: int, port: PortStatus) -> str:
    if not port.listening:
        return f"Port {number}: not listening; {port.lines} lines, {port.bytes} bytes received"
    if not port.accepted:
        return f"Waiting for connection on port {number} ..."
    dropped = ", ".join(f"{count} {reason}" for reason, count in port.dropped.items() if count)
    kept = f", kept: {port.kept_unterminated} unterminated" if port.kept_unterminated else ""
    return (
        f"Port {number}: {port.connections} connections, {port.lines} lines, {port.bytes} bytes, "
        f"backlog {port.backlog_bytes} bytes, dropped: {dropped or 'none'}{kept}"
    )
