"""The tape of a stream: all objects that it has found, in the order in which they were found.

A stream's position is a number on this tape, so its offset is small however many objects there
are. The tape is recorded in a store before an offset refers to it, and never changes. So a position
has the same meaning after a restart, in a second driver of the query, and in tasks.

An object's *length* on the tape is some for opening it, and one for each block of `BLOCK` bytes.
So equal parts of the tape are about equal work, and large objects are cut.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.objects.object_log import Content, ObjectLog
from tutorial_pkg.connectors.store import ObjectInfo, ReplacedError, Store, log

BLOCK = 1024
OPENING = 100  # opening an object takes about as long as reading this many blocks
RECORD_OBJECTS = 2_000  # in a record: some 200 kB


class Part(NamedTuple):
    """The bytes of an object from `start` up to `end`: work for a task."""

    info: ObjectInfo
    start: int
    end: int


def length(info: ObjectInfo) -> int:
    """Return how much of the tape an object takes."""
    return OPENING + -(-info.size // BLOCK)


def parts(places: Iterable[tuple[int, ObjectInfo]], start: int, end: int) -> Iterator[Part]:
    """Yield what is between two places of the tape. `places` says where objects begin."""
    for place, info in places:
        first, stop = (_byte(info, border - place) for border in (start, end))
        if first < stop or (info.size == 0 and start <= place < end):
            yield Part(info, first, stop)


def _byte(info: ObjectInfo, place: int) -> int:
    return min(info.size, max(0, place - OPENING) * BLOCK)


class Tape:
    """The recorded tape of one query. Its `name` is in the query's offsets."""

    def __init__(self, options: OptionValues, name: str, make: bool = False) -> None:
        self._options, self._name = options, name
        self._store = Store(options, options.notes or f"{options.path}/_found", make)
        self._log = ObjectLog(self._store, name)

    def places(self, start: int, end: int) -> Iterator[tuple[int, ObjectInfo]]:
        """Yield where the objects between two places begin, and some neighbors.

        Raises `RuntimeError` if the tape ends before `end`.
        """
        place = 0
        for record in self._log.records(start, end):
            place = record["number"]
            for fields in record["objects"]:
                info = ObjectInfo(*fields)
                yield place, info
                place += length(info)
        self.check_end(place, end)

    def check_end(self, end: int, expected: int) -> None:
        """Raise `RuntimeError` if the tape ends before the query's position."""
        if end < expected:
            raise RuntimeError(
                f"the record `{self._name}` of the objects that this query has found at "
                f"{self._options.path} is missing or an older copy: it ends at {end}, and the "
                f"query is at {expected}. Restore it, set the option `notes` to where it is, or "
                "start with a new checkpoint"
            )


class Search(Tape):
    """Looks for new objects, and records them on the tape."""

    def __init__(self, options: OptionValues, name: str, start: int = 0) -> None:
        self._content = Content(Store(options, options.path))
        super().__init__(options, name, make=True)
        self._store.check_conditional_writes("_check")
        self._known: dict[str, str] = {}
        self._end, self._next_look = 0, 0.0
        self._read_new()
        self.check_end(self._end, start)

    def look(self) -> int:
        """Return the tape's end. Every `lookSeconds`, list the objects, and record new ones."""
        if time.monotonic() < self._next_look:
            return self._end
        after = max(self._known, default=None) if self._options.keysGrow else None
        listed = [info for info in self._content.news(after) if matches(self._options, info)]
        new = [info for info in listed if self._is_new(info)]
        while new:
            objects = new[:RECORD_OBJECTS]
            end = self._end + sum(map(length, objects))
            if self._log.append({"number": self._end, "end": end, "objects": objects}):
                self._learn(objects, end)
                self._log.join()
                new = new[RECORD_OBJECTS:]
            else:  # another driver of this query was faster
                self._read_new()
                new = [info for info in new if self._is_new(info)]
        self._next_look = time.monotonic() + self._options.lookSeconds
        return self._end

    def _read_new(self) -> None:
        """Learn what is on the tape: at first everything, later what another driver has added."""
        for record in self._log.records(self._end):
            if record["number"] >= self._end:
                self._learn([ObjectInfo(*fields) for fields in record["objects"]], record["end"])

    def _learn(self, objects: list[ObjectInfo], end: int) -> None:
        self._known.update((info.key, info.tag) for info in objects)
        self._end = end

    def _is_new(self, info: ObjectInfo) -> bool:
        known, replaced = self._known.get(info.key), self._options.replaced
        if known is None or not info.tag or known == info.tag:
            return known is None
        text = (
            f"`{info.key}` was replaced after it was found, and option `replaced` is {replaced}: "
            "write new objects under new names"
        )
        if replaced == "refuse":
            raise ReplacedError(text)
        log.warning("%s: %s", self._options.path, text)
        if replaced == "report":
            self._known[info.key] = info.tag
        return bool(replaced == "again")


def matches(options: OptionValues, info: ObjectInfo) -> bool:
    return fnmatch.fnmatchcase(info.key.rpartition("/")[2], options.glob)
