"""Records in a store: which objects a stream has found, and which ones the sink's batches added.

A store cannot append or rename, but it can refuse to write a name that exists. So a record is an
object with its number as its name, such as `each/00000000000000000042`. If two writers want the
same number, the second one is refused, and reads what the first one has written.

Reading many small objects takes long, so neighbors are joined: `joined/FROM-TO` has the lines of
all records with these numbers. A joined object is up to four times as large as the next one, up to
`JOIN_BYTES`, so a line is copied only a few times. The single records stay: a slow writer must not
find its number free. They also replace a joined object that a power failure has damaged.

The sink's records are manifests. Once a folder has any, only the objects that they name count:

_manifests/objects              this folder has manifests: nothing else counts
_manifests/QUERY/each/BATCH     what one batch has added
_manifests/QUERY/joined/…       the same for many batches
_manifests/QUERY/open/BATCH-ID  what a task is about to write, so that it can be removed
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tutorial_pkg.connectors.store import ObjectInfo, Store, log, visible

JOIN_AFTER = 16  # records
JOIN_BYTES = 4_000_000
_GROWTH = 4
_DIGITS = 20

FOLDER = "_manifests"
MARK = f"{FOLDER}/objects"

Record = dict[str, Any]


class Stretch(NamedTuple):
    """An object that has the records with the numbers from `first` to `last`."""

    first: int
    last: int
    key: str
    size: int


class ObjectLog:
    """The records in `folder` of a store. Each is a dictionary with its `number`."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

    def append(self, record: Record) -> bool:
        """Return False if another writer has used this number for something else."""
        return self._store.create(self._key(record["number"]), _line(record))

    def read(self, number: int) -> Record | None:
        try:
            [record] = self._read(Stretch(number, number, self._key(number), 0))
        except FileNotFoundError:
            return None
        return record

    def records(self, first: int = 0, end: int | None = None) -> Iterator[Record]:
        """Yield the records from `first` on, in order, and the one before them.

        The record before may reach beyond `first`.
        """
        joined, singles = self._stretches()
        start = max((each.first for each in joined + singles if each.first <= first), default=first)
        for stretch in joined + singles:
            if stretch.first >= start and (end is None or stretch.first < end):
                yield from self._read(stretch)

    def after(self, number: int) -> Iterator[Record]:
        """Yield the records with larger numbers, with one listing."""
        for single in self._list("each", after=number):
            yield from self._read(single)

    def join(self) -> None:
        """Join the newest records, once there are enough of them."""
        joined, new = self._stretches()
        if len(new) < JOIN_AFTER:
            return
        size = sum(stretch.size for stretch in new)
        while joined and joined[-1].size < min(_GROWTH * size, JOIN_BYTES - size):
            new.insert(0, joined.pop())
            size += new[0].size
        lines = [_line(record) for stretch in new for record in self._read(stretch)]
        name = f"{new[0].first:0{_DIGITS}}-{new[-1].last:0{_DIGITS}}"
        self._store.create(f"{self._folder}/joined/{name}", b"".join(lines))

    def _key(self, number: int) -> str:
        return f"{self._folder}/each/{number:0{_DIGITS}}"

    def _list(self, kind: str, after: int = -1) -> list[Stretch]:
        place = self._key(after) if kind == "each" else None
        listed = self._store.listing(f"{self._folder}/{kind}", place)
        names = [info.key.rpartition("/")[2] for info in listed]
        return [
            Stretch(int(name[:_DIGITS]), int(name[-_DIGITS:]), info.key, info.size)
            for name, info in zip(names, listed, strict=True)
        ]

    def _stretches(self) -> tuple[list[Stretch], list[Stretch]]:
        """Return joined and single records that have each record once, as few as possible."""
        joined: list[Stretch] = []
        for stretch in sorted(self._list("joined"), key=lambda each: (each.first, -each.last)):
            if not joined or stretch.first > joined[-1].last:
                joined.append(stretch)
        return joined, self._list("each", after=joined[-1].last if joined else -1)

    def _read(self, stretch: Stretch) -> list[Record]:
        try:
            records = [json.loads(line) for line in self._store.read(stretch.key).splitlines()]
            if (records[0]["number"], records[-1]["number"]) == stretch[:2]:
                return records
        except (ValueError, LookupError):
            pass
        place = f"{self._store.url}/{stretch.key}"
        if stretch.first == stretch.last:
            raise RuntimeError(
                f"{place} is empty or damaged, as files may be after a power failure. Restore it "
                "from a backup. Without one: if no later file is next to it, delete it, and its "
                "batch is written again; else its rows are lost"
            )
        log.warning("%s is damaged; the single records are read instead", place)
        singles = self._list("each", after=stretch.first - 1)
        return [self._read(single)[0] for single in singles if single.last <= stretch.last]


def _line(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


# ---- Manifests -----------------------------------------------------------------------------------


class Content:
    """The objects of a folder that count. A manifest is read only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._marked = False
        self._read: dict[str, int] = {}  # of each query, its last batch

    def news(self, after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield objects that may be new: a listing, or what new manifests name."""
        if not self._marked:
            listed = self._store.listing(after=after)
            if not listed and after is None:
                self._store.check_folder()
            # Checked after the listing: a sink may have begun since, and uploaded what doesn't
            # count yet.
            self._marked = self._store.find(MARK) is not None
            if not self._marked:
                yield from visible(listed)
                return
        for query in sorted(self._store.list_folders(FOLDER)):
            manifests, last = ObjectLog(self._store, f"{FOLDER}/{query}"), self._read.get(query)
            for record in manifests.records() if last is None else manifests.after(last):
                self._read[query] = record["number"]
                for key, _, size in record["objects"]:  # a copy of the folder has other tags
                    yield ObjectInfo(key, "", size)
