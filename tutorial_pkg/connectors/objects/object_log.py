"""A log in a store: numbered records that are never changed, and of which one writer wins.

A store cannot append, and cannot rename. It can refuse to write a name that is taken. So a record
is an object with its number as its name: `0000000042`. If two writers want one number, the second
one learns that it is late, and reads what the first one has written. What a number stands for never
changes, so whoever keeps a number keeps everything below it.

Many small objects take long to read, so neighbours are joined: `joined/FROM-TO` has the lines of
all records from one number to another. Each is some times as large as the next one, up to
`JOIN_BYTES`; so there are few, and a line is copied a few times only. The records stay: a writer
that was held up must not find its number free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tutorial_pkg.connectors.store import Store

JOIN_AFTER = 16  # records
JOIN_BYTES = 4_000_000
_GROWTH = 4
_DIGITS = 20

Record = dict[str, Any]


class Stretch(NamedTuple):
    """An object that has the records with the numbers from `first` to `last`."""

    first: int
    last: int
    key: str
    size: int


class ObjectLog:
    """The records in `folder` of a store; each is a dictionary with its `number`."""

    def __init__(self, store: Store, folder: str = "") -> None:
        self._store, self._folder = store, f"{folder}/" if folder else ""

    def append(self, record: Record) -> bool:
        """False if another writer has taken the number for something else."""
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        return self._store.create(self._key(record["number"]), line)

    def read(self, number: int) -> Record | None:
        """The record with this number, if there is one."""
        try:
            record: Record = json.loads(self._store.read(self._key(number)))
        except FileNotFoundError:
            return None
        return record

    def records(self, first: int = 0, end: int | None = None) -> Iterator[Record]:
        """Those from `first` on, in order; the one before, too, as it may reach beyond `first`."""
        stretches = self._stretches()
        begin = max((each.first for each in stretches if each.first <= first), default=first)
        for stretch in stretches:
            if stretch.first >= begin and (end is None or stretch.first < end):
                for line in self._store.read(stretch.key).splitlines():
                    yield json.loads(line)

    def after(self, number: int) -> Iterator[Record]:
        """Those with larger numbers: one listing, from there on."""
        for found in self._store.listed(f"{self._folder}each", self._key(number)):
            yield json.loads(self._store.read(found.key))

    def join(self) -> None:
        """Join the newest records, if that is worth it."""
        stretches = self._stretches()
        place = len(stretches)
        while place and stretches[place - 1].first == stretches[place - 1].last:
            place -= 1
        if len(stretches) - place < JOIN_AFTER:
            return
        size = sum(each.size for each in stretches[place:])
        while place and stretches[place - 1].size < min(_GROWTH * size, JOIN_BYTES - size):
            place -= 1
            size += stretches[place].size
        joined = stretches[place:]
        lines = b"".join(self._store.read(each.key) for each in joined)
        name = f"{joined[0].first:0{_DIGITS}}-{joined[-1].last:0{_DIGITS}}"
        self._store.create(f"{self._folder}joined/{name}", lines)

    def _key(self, number: int) -> str:
        return f"{self._folder}each/{number:0{_DIGITS}}"

    def _stretches(self) -> list[Stretch]:
        """Each record once, in as few objects as there are."""
        joined = [
            Stretch(int(name[:_DIGITS]), int(name[-_DIGITS:]), each.key, each.size)
            for each in self._store.listed(f"{self._folder}joined")
            for name in [each.key.rpartition("/")[2]]
        ]
        chosen: list[Stretch] = []
        for stretch in sorted(joined, key=lambda each: (each.first, -each.last)):
            if not chosen or stretch.first > chosen[-1].last:
                chosen.append(stretch)
        after = self._key(chosen[-1].last) if chosen else None
        for each in self._store.listed(f"{self._folder}each", after):
            number = int(each.key.rpartition("/")[2])
            chosen.append(Stretch(number, number, each.key, each.size))
        return chosen
