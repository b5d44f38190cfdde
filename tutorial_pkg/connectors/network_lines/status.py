"""What a listener tells about itself, in a small file that anyone may read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tutorial_pkg.core.writer_lock import writer_process

FILE_NAME = "status.json"


@dataclass
class PortStatus:
    """One port, counted since the listener's start; `bytes` and `lines` are in the log.

    `dropped` counts lines by reason: `too_long` (more than maxLineBytes), `unterminated` (the
    connection broke, or was closed as idle, in the middle of a line).
    """

    listening: bool = True
    connections: int = 0
    accepted: int = 0
    idle_closed: int = 0
    bytes: int = 0
    lines: int = 0
    backlog_bytes: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: {"too_long": 0, "unterminated": 0})


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

    It only looks at files, so it can be asked at any time, also when nothing listens.
    """
    try:
        published = json.loads(Path(path, FILE_NAME).read_text())
    except FileNotFoundError:
        return NetworkStatus(Path(path), None, {}, [])
    ports = {int(number): PortStatus(**port) for number, port in published["ports"].items()}
    process = writer_process(Path(path))
    if process != published["process"]:
        process = None
        for port in ports.values():
            port.listening, port.connections = False, 0
    return NetworkStatus(Path(path), process, ports, published["warnings"])


def publish(directory: Path, ports: dict[int, PortStatus], warnings: list[str]) -> None:
    """Replace the published status in one step, so that nobody reads half of one."""
    status = {
        "process": os.getpid(),
        "ports": {number: asdict(port) for number, port in ports.items()},
        "warnings": warnings,
    }
    written = directory / f"{FILE_NAME}.new"
    written.write_text(json.dumps(status))
    written.replace(directory / FILE_NAME)


def _port_text(number: int, port: PortStatus) -> str:
    if not port.listening:
        return f"Port {number}: not listening; {port.lines} lines, {port.bytes} bytes received"
    if not port.accepted:
        return f"Waiting for connection on port {number} ..."
    dropped = ", ".join(f"{count} {reason}" for reason, count in port.dropped.items() if count)
    return (
        f"Port {number}: {port.connections} connections, {port.lines} lines, {port.bytes} bytes, "
        f"backlog {port.backlog_bytes} bytes, dropped: {dropped or 'none'}"
    )
