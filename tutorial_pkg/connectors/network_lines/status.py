"""What a listener tells about itself, in a small file that anyone may read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tutorial_pkg.durable_log.status import StatusFile


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
    directory = Path(path)
    published = status_file(directory).read()
    if published.process is None:
        for port in published.each.values():
            port.listening, port.connections = False, 0
    return NetworkStatus(directory, published.process, published.each, published.warnings)


def status_file(directory: Path) -> StatusFile[PortStatus]:
    """The file of the log in `directory`."""
    return StatusFile(directory, "ports", PortStatus)


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
