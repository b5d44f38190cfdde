"""How a listener's ports are doing, in a small file beside the logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tutorial_pkg.durable_log.status import read_status

KEY = "ports"


@dataclass
class PortStatus:
    """One port, counted since the listener's start. `metrics` shows the same numbers.

    Lines that are `unconfirmed` are sent again over RELP.

    Reasons in `dropped`: `too_long` (more than maxLineBytes), `unterminated` (the connection ended,
    broke or was closed as idle in the middle of a line).

    Reasons in `refused`: `plain_text`, `certificate`, `name`, `handshake` and `timeout` with TLS;
    `in_use` for a name in use; `sender` for a client that cannot have its name, or breaks the
    protocol; `relp` and `protocol` for one that speaks something else than the port.
    `last_refused` describes the last one.
    """

    listening: Annotated[bool, "gauge", "1 while senders can connect"] = True
    connections: Annotated[int, "gauge", "senders that are connected"] = 0
    accepted: Annotated[int, "counter", "connections since the start"] = 0
    idle_closed: Annotated[int, "counter", "connections that were closed as idle"] = 0
    bytes: Annotated[int, "counter", "bytes of the lines in the log"] = 0
    lines: Annotated[int, "counter", "lines that were written to the log"] = 0
    backlog_bytes: Annotated[int, "gauge", "bytes in the log that wait for the query"] = 0
    dropped: Annotated[dict[str, int], "counter", "lines that were dropped, by reason"] = field(
        default_factory=lambda: {"too_long": 0, "unterminated": 0}
    )
    kept_unterminated: Annotated[int, "counter", "lines without a newline that were kept"] = 0
    truncated: Annotated[int, "counter", "messages over RELP that were cut"] = 0
    refused: Annotated[dict[str, int], "counter", "clients that were refused, by reason"] = field(
        default_factory=dict
    )
    last_refused: str = ""
    unconfirmed: Annotated[int, "counter", "lines in the log that could not be confirmed"] = 0


@dataclass(frozen=True)
class NetworkStatus:
    """All ports of one log. Printed, it is a line for each port.

    `process` is the listening process, or None if it is gone; `warnings` say what was repaired.
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
    """Return the state of the listener that writes the log `path`, at most half a second old.

    This only reads files, so you can call it at any time, even when nothing listens.
    """
    directory, process, ports, warnings = read_status(path, KEY, PortStatus)
    if process is None:
        for port in ports.values():
            port.listening, port.connections = False, 0
    return NetworkStatus(directory, process, ports, warnings)


def _port_text(number: int, port: PortStatus) -> str:
    refused = f"refused: {_counts(port.refused)} (last: {port.last_refused})"
    refused = refused if port.refused else ""
    if not port.listening:
        return f"Port {number}: not listening; {port.lines} lines, {port.bytes} bytes received"
    if not port.accepted:
        return f"Waiting for connection on port {number} ... {refused}".rstrip()
    parts = [
        f"Port {number}: {port.connections} connections",
        f"{port.lines} lines",
        f"{port.bytes} bytes",
        f"backlog {port.backlog_bytes} bytes",
        f"dropped: {_counts(port.dropped) or 'none'}",
        f"kept: {port.kept_unterminated} unterminated" if port.kept_unterminated else "",
        f"truncated: {port.truncated}" if port.truncated else "",
        f"unconfirmed: {port.unconfirmed}" if port.unconfirmed else "",
        refused,
    ]
    return ", ".join(filter(None, parts))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)
