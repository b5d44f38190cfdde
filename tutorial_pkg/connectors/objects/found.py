"""What a stream has found so far, and in which order: a log that gives every object its place.

The position of a stream is a number on one long tape: all objects, one behind the other, in the
order in which they were found. The tape is noted in a store before an offset names a place on it,
and never changes. So a position means the same for ever: to a query that starts again, to two
drivers of it, and to tasks. However many objects there are, it is one number.

An object has a *length* on the tape: some for existing at all, and one for each block of `BLOCK`
bytes. So equal parts of the tape are about equal work, and large objects are cut.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from tutorial_pkg.builder import OptionValues
from tutorial_pkg.connectors.objects.manifests import Content
from tutorial_pkg.connectors.objects.object_log import ObjectLog
from tutorial_pkg.connectors.store import Found, ReplacedError, Store, log

BLOCK = 1024
OPENING = 100  # opening an object takes about as long as reading this many blocks
AT_ONCE = 2_000  # objects in a record: some 200 kB


class Part(NamedTuple):
    """Bytes of an object, from `begin` up to `end`: the work of a task."""

    found: Found
    begin: int
    end: int


def length(found: Found) -> int:
    """How much of the tape an object takes."""
    return OPENING + -(-found.size // BLOCK)


def parts(places: Iterable[tuple[int, Found]], start: int, end: int) -> Iterator[Part]:
    """What lies between two places of the tape; `places` says where objects begin."""
    for place, found in places:
        begin, stop = (_byte(found, each - place) for each in (start, end))
        if begin < stop or (found.size == 0 and start <= place < end):
            yield Part(found, begin, stop)


def _byte(found: Found, place: int) -> int:
    return min(found.size, max(0, place - OPENING) * BLOCK)


class Tape:
    """The notes of what one query has found; their `name` is in its offsets."""

    def __init__(self, options: OptionValues, name: str) -> None:
        where = options.notes or f"{options.path}/_found"
        self._log = ObjectLog(Store(options, where, make=True), name)
        self.end = 0

    def unread(self) -> Iterator[Found]:
        """Objects behind `end`, which is the end of the tape then: at first all of them, later what
        another driver of this query has added."""
        for record in self._log.records(self.end):
            if record["number"] >= self.end:
                yield from (Found(*each) for each in record["objects"])
                self.end = record["end"]

    def add(self, new: list[Found]) -> bool:
        """False if another driver was faster: read what it has added, and try again."""
        rest = iter(new)
        while some := list(islice(rest, AT_ONCE)):
            end = self.end + sum(map(length, some))
            if not self._log.append({"number": self.end, "end": end, "objects": some}):
                return False
            self.end = end
            self._log.join()
        return True

    def places(self, start: int, end: int) -> Iterator[tuple[int, Found]]:
        """Where the objects between two places begin, and perhaps some before and behind them."""
        for record in self._log.records(start, end):
            place = record["number"]
            for each in record["objects"]:
                found = Found(*each)
                yield place, found
                place += length(found)


class Search:
    """Looks for new objects, and puts them on the tape."""

    def __init__(self, options: OptionValues, name: str, start: int = 0) -> None:
        """Raises `RuntimeError` for a tape that does not go as far as `start`."""
        self._options = options
        self._content = Content(Store(options, options.path))
        self._tape = Tape(options, name)
        self._known: dict[str, str] = {}
        self._warned: set[Found] = set()
        self._largest: str | None = None
        self._learn(self._tape.unread())
        if self._tape.end < start:
            raise RuntimeError(
                f"the notes `{name}` of what this query has found at {options.path} are gone, or "
                f"an older copy: they end at {self._tape.end}, and the query is at {start}. Put "
                "them back, let option `notes` name where they are, or start with a new checkpoint"
            )

    def look(self) -> int:
        """One listing; the end of the tape. Raises `ReplacedError`."""
        after = self._largest if self._options.keysGrow else None
        listed = [each for each in self._content.news(after) if matches(self._options, each)]
        while new := [each for each in listed if self._is_new(each)]:
            if self._tape.add(new):
                self._learn(new)
                break
            self._learn(self._tape.unread())
        return self._tape.end

    def _learn(self, found: Iterable[Found]) -> None:
        for each in found:
            self._known[each.key] = each.tag
            self._largest = max(self._largest or "", each.key)

    def _is_new(self, found: Found) -> bool:
        known = self._known.get(found.key)
        if known is None or known == found.tag:
            return known is None
        if self._options.replaced == "refuse":
            raise ReplacedError(f"`{found.key}` was replaced after it was found: {HINT}")
        again: bool = self._options.replaced == "again"
        if found not in self._warned:
            self._warned.add(found)
            then = "it is read again" if again else f"its new content is not read: {HINT}"
            log.warning("%s: `%s` was replaced; %s", self._options.path, found.key, then)
        return again


HINT = "option `replaced` says what to do with such objects; write new ones under new names"


def matches(options: OptionValues, found: Found) -> bool:
    """Whether the query wants this object."""
    return fnmatch.fnmatchcase(found.key.rpartition("/")[2], options.glob)
