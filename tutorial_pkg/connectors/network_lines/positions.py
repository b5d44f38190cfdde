"""How far each sender with a name has come; docs/formats/network_lines.md has the details."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tutorial_pkg.connectors.network_lines.payload import split
from tutorial_pkg.connectors.network_lines.protocol import RefusedError
from tutorial_pkg.durable_log.segments import SegmentWriter, newest_frames

MOST_NAMES = 10_000
MOST_ENTRIES = 10_000  # of one name
MOST_NAME_BYTES = 2 * 1024 * 1024
MOST_BYTES = 32 * 1024 * 1024  # of all names: half a segment, as each segment repeats them

Entries = Mapping[str, str | None]  # by key: JSON text, or None for a key that is deleted


@dataclass
class Sender:
    """The position of a name.

    Of two records for a name, perhaps in the logs of two ports, the one with the higher `count` is
    newer.
    """

    entries: dict[str, str] = field(default_factory=dict)
    count: int = 0
    size: int = 0

    def change(self, changes: Entries) -> None:
        self.size += self.growth(changes)
        for key, text in changes.items():
            self.entries.pop(key, None)
            if text is not None:
                self.entries[key] = text

    def growth(self, changes: Entries) -> int:
        return sum(
            _size(key, text) - _size(key, self.entries.get(key)) for key, text in changes.items()
        )

    def record(self, changes: Entries | None = None) -> dict[str, Any]:
        """Return what goes into a note: some changes, or all entries (`whole`)."""
        if changes is None:
            return {"count": self.count, "entries": self.entries, "whole": True}
        return {"count": self.count, "entries": changes}


class Positions:
    """The senders of one receiver, whichever port they use; safe for threads."""

    def __init__(self, logs: Iterable[SegmentWriter]) -> None:
        self._logs = list(logs)
        self._lock = threading.Lock()
        self._connected: set[str] = set()
        self._senders = _read(self._logs)
        self._count = max((sender.count for sender in self._senders.values()), default=0)

    @contextmanager
    def used(self, name: str) -> Iterator[Mapping[str, str]]:
        """Let a sender use a name, and return its position. Raises `RefusedError`."""
        with self._lock:
            if name in self._connected:
                text = f"another sender with the name {name!r} is connected; stop that one"
                raise RefusedError(text, "in_use")
            if len(self._senders.keys() | self._connected | {name}) > MOST_NAMES:
                raise RefusedError(
                    f"the receiver knows {MOST_NAMES} names already; use the same names again, or "
                    "start a receiver with a new folder"
                )
            self._connected.add(name)
        try:
            for log in self._logs:  # what it skips from now on must be on disk, in any port's log
                log.sync()
            sender = self._senders.get(name)
            yield dict(sender.entries) if sender else {}
        finally:
            with self._lock:
                self._connected.discard(name)

    @contextmanager
    def noted(
        self, log: SegmentWriter, changes: Mapping[str, Entries]
    ) -> Iterator[Mapping[str, Any]]:
        """Return the positions that the frame written meanwhile must have in its note.

        They are those that `changes` has, and all if the frame begins a segment. Raises
        `RefusedError` if a position would become too large.
        """
        if not changes and not (log.at_segment_start and self._senders):
            yield {}
            return
        with self._lock:  # so that no other log gets a copy of the position before its lines
            records = {name: self._apply(name, changes[name]) for name in changes}
            try:
                yield self._copies(log) if log.at_segment_start else records
            except OSError:  # the frame is not in the log, so no copy may have its changes
                self._senders = _read(self._logs)
                raise

    def _apply(self, name: str, entries: Entries) -> Mapping[str, Any]:
        is_new = name not in self._senders
        sender = Sender() if is_new else self._senders[name]
        growth = sender.growth(entries)
        if growth > 0:
            self._check_size(sender, growth, len(sender.entries.keys() | entries.keys()))
        self._count += 1
        sender.count = self._count
        sender.change(entries)
        self._senders[name] = sender
        return sender.record(None if is_new else entries)

    def _check_size(self, sender: Sender, growth: int, count: int) -> None:
        size = sender.size + growth
        total = growth + sum(other.size for other in self._senders.values())
        if count > MOST_ENTRIES or size > MOST_NAME_BYTES or total > MOST_BYTES:
            raise RefusedError(
                f"a position has at most {MOST_ENTRIES} entries and {MOST_NAME_BYTES} bytes, those "
                f"of all names {MOST_BYTES} bytes; this would be {count} entries and {size} bytes, "
                f"of {total}. Follow fewer files under one name"
            )

    def _copies(self, log: SegmentWriter) -> Mapping[str, Any]:
        for other in self._logs:  # no copy may reach the disk before the lines that it is about
            if other is not log:
                other.sync()
        return {name: sender.record() for name, sender in self._senders.items()}


def _read(logs: Iterable[SegmentWriter]) -> dict[str, Sender]:
    """Rebuild the positions from the newest segment of each log."""
    records = [
        (record["count"], name, record)
        for log in logs
        for _, payload in newest_frames(log.directory, log.end)
        for name, record in _records(split(payload)[1])
    ]
    senders: dict[str, Sender] = {}
    for count, name, record in sorted(records, key=lambda found: found[0]):
        known = None if record.get("whole") else senders.get(name)
        senders[name] = sender = known or Sender()
        sender.change(record["entries"])
        sender.count = count
    return senders


def _records(note: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield from note.get("positions", {}).items()
    for name, old in note.get("senders", {}).items():  # in logs of version 1: one text
        position = json.loads(old["position"])
        entries = position if isinstance(position, dict) else {}
        texts = {key: json.dumps(value) for key, value in entries.items()}
        yield name, {**old, "entries": texts, "whole": True}


def _size(key: str, text: str | None) -> int:
    """Return how much an entry takes in a note."""
    return 0 if text is None else len(json.dumps(key)) + len(json.dumps(text)) + 2
