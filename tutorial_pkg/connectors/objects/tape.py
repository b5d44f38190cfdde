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
        store = Store(options, options.notes or f"{options.path}/_found", make)
        if make:
            store.check_conditional_writes("_check")
        self._log = ObjectLog(store, name)
        self.end = 0

    def read_new(self) -> Iterator[ObjectInfo]:
        """Yield the objects after `end`, and move `end` behind them.

        At first these are all; later, those that another driver of this query has added.
        """
        for record in self._log.records(self.end):
            if record["number"] >= self.end:
                yield from (ObjectInfo(*fields) for fields in record["objects"])
                self.end = record["end"]

    def add(self, objects: list[ObjectInfo]) -> bool:
        """Return False if another driver was faster; read what it has added, and try again."""
        end = self.end + sum(map(length, objects))
        if not self._log.append({"number": self.end, "end": end, "objects": objects}):
            return False
        self.end = end
        self._log.join()
        return True

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


class Search:
    """Looks for new objects, and records them on the tape."""

    def __init__(self, options: OptionValues, name: str, start: int = 0) -> None:
        self._options = options
        self._content = Content(Store(options, options.path))
        self._tape = Tape(options, name, make=True)
        self._known: dict[str, str] = {}
        self._next_look = 0.0
        self._learn(self._tape.read_new())
        self._tape.check_end(self._tape.end, start)

    def look(self) -> int:
        """Return the tape's end. Every `lookSeconds`, list the objects, and record new ones."""
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + self._options.lookSeconds
        return self._tape.end

    def _look(self) -> None:
        after = max(self._known, default=None) if self._options.keysGrow else None
        listed = [info for info in self._content.news(after) if matches(self._options, info)]
        new = [info for info in listed if self._is_new(info)]
        while new:
            record = new[:RECORD_OBJECTS]
            if self._tape.add(record):
                self._learn(record)
                new = new[RECORD_OBJECTS:]
            else:
                self._learn(self._tape.read_new())
                new = [info for info in new if self._is_new(info)]

    def _learn(self, objects: Iterable[ObjectInfo]) -> None:
        self._known.update((info.key, info.tag) for info in objects)

    def _is_new(self, info: ObjectInfo) -> bool:
        known = self._known.get(info.key)
        if known is None or not info.tag or known == info.tag:
            return known is None
        if self._options.replaced == "refuse":
            raise ReplacedError(f"`{info.key}` was replaced after it was found: {HINT}")
        again: bool = self._options.replaced == "again"
        then = "it is read again" if again else f"its new content is not read: {HINT}"
        log.warning("%s: `%s` was replaced; %s", self._options.path, info.key, then)
        if not again:
            self._known[info.key] = info.tag
        return again


HINT = "option `replaced` says what to do with such objects; write new ones under new names"


def matches(options: OptionValues, info: ObjectInfo) -> bool:
    return fnmatch.fnmatchcase(info.key.rpartition("/")[2], options.glob)
