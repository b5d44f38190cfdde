"""The log of one port, and what is counted there; the threads of its clients share it."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from tutorial_pkg.connectors.network_lines.connection import Connection
from tutorial_pkg.connectors.network_lines.payload import with_note
from tutorial_pkg.connectors.network_lines.positions import Change, Positions
from tutorial_pkg.connectors.network_lines.status import PortStatus
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.durable_log.segments import SegmentWriter

UNLIMITED = 2**31


@dataclass(frozen=True)
class Block:
    """Lines that go into the log together, and the reply that the client gets once on disk."""

    lines: bytes
    rows: int
    reply: bytes = b""
    change: Change | None = None  # of the position of a sender with a name
    lengths: list[int] | None = None  # of rows that contain newlines


class PortLog:
    """What the protocols know of their port: its options, senders, log and counters."""

    def __init__(
        self,
        log: SegmentWriter,
        options: OptionValues,
        positions: Positions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options, self.positions = options, positions
        self.frame_rows = options.maxRowsPerTrigger or UNLIMITED
        self.frame_bytes = options.maxBytesPerTrigger or UNLIMITED
        self.status = PortStatus()
        self._log, self._clock = log, clock
        self._lock = threading.Lock()

    def append(self, block: Block, connection: Connection) -> None:
        """Write a block as one frame. Raises `OSError`, for instance when the disk is full."""
        client = connection.owner.client
        with self._lock, self.positions.noted(self._log, block.change) as positions:
            note = {"client": client, "positions": positions, "lengths": block.lengths}
            payload = with_note(block.lines, **note)
            self._log.append(payload, block.rows, int(self._clock() * 1_000_000))
            self.status.bytes += len(block.lines)
            self.status.lines += block.rows

    def sync(self) -> None:
        """Put everything in the log on disk. Raises `OSError`."""
        self._log.sync()

    def drop(self, connection: Connection, reason: str) -> None:
        """Count a line that is dropped."""
        connection.dropped[reason] += 1
        with self._lock:
            self.status.dropped[reason] += 1

    def refuse(self, reason: str, report: str) -> None:
        """Count a client that is refused."""
        with self._lock:
            self.status.refused[reason] = self.status.refused.get(reason, 0) + 1
            self.status.last_refused = report

    def count(self, **more: int) -> None:
        """Add to counters of the status."""
        with self._lock:
            for name, number in more.items():
                setattr(self.status, name, getattr(self.status, name) + number)

    def snapshot(self, **fields: int) -> PortStatus:
        """Return a copy of the status, after setting some fields."""
        with self._lock:
            for name, value in fields.items():
                setattr(self.status, name, value)
            return copy.deepcopy(self.status)
