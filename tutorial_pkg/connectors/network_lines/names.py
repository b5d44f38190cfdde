"""What the receiver knows of senders that have a name: how far each has come.

A sender's position is written into the log in the same frame as the lines before it (`notes`), so
the two cannot differ, whatever dies. The first frame of each segment repeats all positions: the
newest segment is never deleted, so it tells everything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tutorial_pkg.connectors.network_lines.connection import RefusedError
from tutorial_pkg.connectors.network_lines.notes import split
from tutorial_pkg.durable_log.segments import SegmentWriter, newest_frames

MOST_NAMES = 10_000
MOST_POSITION_BYTES = 1024 * 1024  # of one sender, as JSON
MOST_BYTES = 64 * MOST_POSITION_BYTES  # of all


@dataclass(frozen=True)
class Sender:
    """Where a sender stands: `position` is JSON of its own that only it understands.

    `client` is who its certificate said it was, `seen` when it sent last, in seconds since 1970.
    Of two entries for one name, the one with the higher `count` is newer: all names share one
    count, so it goes on for a name that was forgotten, and whose older entries may be in a log.
    """

    position: str = "null"
    client: str | None = None
    seen: float = 0.0
    count: int = 0


class Names:
    """All senders of one listener, whatever port they are connected to; safe for its threads."""

    def __init__(
        self,
        logs: Iterable[SegmentWriter],
        forget_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._forget_seconds, self._clock = forget_seconds, clock
        self._lock = threading.Lock()
        self._active: set[str] = set()
        self._known: dict[str, Sender] = {}
        self._count = 0
        for log in logs:
            self._read(log)

    def begin(self, name: str, client: str | None) -> Sender:
        """A sender connects: return what is known of it. Raises `RefusedError`."""
        with self._lock:
            self._forget()
            known = self._known.get(name, Sender(client=client))
            if name in self._active:
                raise RefusedError(
                    "in_use",
                    f"another sender with the name {name!r} is connected; stop that one, or choose "
                    "another name",
                )
            if known.client != client:
                raise RefusedError(
                    "sender",
                    f"the name {name!r} belongs to the client {known.client!r}, and this one is "
                    f"{client!r}; choose another name",
                )
            self._check_room(name)
            self._active.add(name)
            return known

    def end(self, name: str) -> None:
        """A sender that `begin` has let in is gone; its name is free for the next connection."""
        with self._lock:
            self._active.discard(name)

    def append(
        self,
        log: SegmentWriter,
        name: str,
        client: str | None,
        position: str,
        write: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """Have `write(senders)` put lines into `log` with the position behind them."""
        with self._lock:
            self._count += 1
            moved = {name: Sender(position, client, self._clock(), self._count)}
            write(_to_json({**self._all_for(log), **moved}))
            self._known.update(moved)

    def all_for(self, log: SegmentWriter) -> dict[str, Any]:
        """What a frame without a name must contain: all positions, if it begins a segment."""
        if not log.at_segment_start or not self._known:
            return {}
        with self._lock:
            return _to_json(self._all_for(log))

    def is_getting_old(self, name: str) -> bool:
        """Whether the log should hear again that a sender is still there."""
        known = self._known.get(name)
        return known is not None and self._clock() - known.seen > self._forget_seconds / 4

    def position(self, name: str) -> str:
        return self._known.get(name, Sender()).position

    def _all_for(self, log: SegmentWriter) -> dict[str, Sender]:
        if not log.at_segment_start:
            return {}
        self._forget()
        return self._known

    def _forget(self) -> None:
        now = self._clock()
        for name in self._active & self._known.keys():
            self._known[name] = replace(self._known[name], seen=now)
        last = now - self._forget_seconds
        self._known = {name: each for name, each in self._known.items() if each.seen >= last}

    def _check_room(self, name: str) -> None:
        names = len(self._known.keys() | self._active | {name})
        size = sum(len(each.position) for each in self._known.values())
        if names > MOST_NAMES or size > MOST_BYTES:
            raise RefusedError(
                "sender",
                f"the receiver knows {len(self._known)} names already, with positions of {size} "
                "bytes; use fewer names, or have it forget unused ones sooner (option "
                "`forgetNamesAfter`)",
            )

    def _read(self, log: SegmentWriter) -> None:
        for _, payload in newest_frames(log.directory, log.end):
            for name, fields in split(payload)[1].get("senders", {}).items():
                found = Sender(**fields)
                self._count = max(self._count, found.count)
                if found.count > self._known.get(name, Sender()).count:
                    self._known[name] = found


def _to_json(senders: Mapping[str, Sender]) -> dict[str, Any]:
    return {name: asdict(each) for name, each in senders.items()}
