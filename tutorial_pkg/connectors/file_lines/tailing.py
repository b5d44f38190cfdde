"""One look at growing files: which are known, which are new, and how far each can be read."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from tutorial_pkg.connectors.file_lines.file_search import FoundFile, found_with
from tutorial_pkg.connectors.file_lines.folding import FoldedFiles
from tutorial_pkg.connectors.file_lines.limits import held_back, limited
from tutorial_pkg.connectors.file_lines.line_file import CHECK_OF_NOTHING, LineFile
from tutorial_pkg.connectors.file_lines.offset import FileOffset, TrackedFile
from tutorial_pkg.connectors.file_lines.rotation import (
    LISTINGS,
    NotSettledError,
    candidates,
    moved_on,
    open_found,
    tracked_to,
    warn_of_loss,
)
from tutorial_pkg.connectors.file_lines.watch import Ids, Watch
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.read_limit import Limits

_NO_HEAD = "0" * len(CHECK_OF_NOTHING)
_LONG = 1 << 20  # bytes of a half line, from which on it pays to note where its search ended

log = logging.getLogger(__name__)


class Tail:
    """The files of a query, look after look.

    All progress is in the offsets. What is kept from one look to the next (which files were
    there, and what they were like) only spares questions: a new `Tail` finds the same.
    """

    def __init__(self, options: OptionValues, folded: FoldedFiles) -> None:
        self.unread = 0  # bytes that the last batch left, of what could be read
        self._options = options
        self._folded = folded
        self._long_lines = LongLines(options.maxLineBytes)
        self._until: Mapping[str, int] | None = None
        self._ahead: dict[int, TrackedFile | None] = {}  # what `_begin` does not say yet
        self._missing: set[int] = set()
        self._again: set[str] = set()
        self._begin = self._end = FileOffset({})
        self._begin_anew(self._begin)

    def stop_at(self, until: Mapping[str, int]) -> None:
        """From now on read files, by their ids, only to these sizes, and no new ones."""
        self._until = until

    def look(self, begin: FileOffset) -> FileOffset:
        """`begin` with new files, moved on to all that can be read; itself if nothing is new."""
        expected = self._go_on_from(begin)
        touched = self._watch.look(self._first_look) | dict.fromkeys(expected | self._again)
        self._again.clear()
        cut_off = [n for n in sorted(self._tracked(touched)) if not self._follow(n)]
        touched |= self._find_copies(cut_off)
        self._start(touched)
        return self._available()

    def taken(self, available: FileOffset, limits: Limits) -> FileOffset:
        """What a batch takes of it, with files at rest folded; the next look goes on from there."""
        self.unread = 0
        if limits != Limits():
            whole = {number: file for number, file in self._ahead.items() if file}
            some = limited(whole, self._before, limits, self._options.maxLineBytes)
            self.unread = sum(file.next - some[number].next for number, file in whole.items())
            available = replace(available, files={**available.files, **some})
        restless = self._watch.restless()
        files = available.files.items()
        at_rest = [n for n, file in files if not file or file.id not in restless]
        self._end = self._folded.folded(available, at_rest)
        return self._end

    # ---- From one look to the next

    def _go_on_from(self, begin: FileOffset) -> set[str]:
        """The ids to look at, though nothing may have changed: all, after any other offset than
        the last one."""
        if begin not in (self._begin, self._end):
            return self._begin_anew(begin)
        self._begin = begin
        ahead = self._ahead.items()
        self._ahead = {number: file for number, file in ahead if file != self._before(number)}
        return set()

    def _begin_anew(self, begin: FileOffset) -> set[str]:
        self._begin = self._end = begin
        known = self._folded.all_of(begin).items()
        self._number_of = {file.id: number for number, file in known}
        self._seen = begin.seen
        self._ahead, self._missing, self._again = {}, set(), set()
        self._ends = Ends()
        is_tracked = self._number_of.__contains__  # no method of its own: none waits for collection
        self._watch = Watch(self._options.path, is_tracked, self._options.restAfter)
        return set(self._number_of)

    def _before(self, number: int) -> TrackedFile | None:
        return self._folded.find(self._begin, number)

    def _now(self, number: int) -> TrackedFile | None:
        return self._ahead[number] if number in self._ahead else self._before(number)

    # ---- Files that are known

    def _tracked(self, touched: Ids) -> set[int]:
        """The numbers of known files among `touched`, to which more listings may add, and of
        those that are missing."""
        for _ in range(LISTINGS - 1):
            if all(map(self._watch.find, touched.keys() & self._number_of.keys())):
                break
            touched |= self._watch.look(self._first_look, anew=True)
        numbers = {self._number_of[id_] for id_ in touched if id_ in self._number_of}
        return numbers | self._missing if touched else set()

    def _follow(self, number: int) -> bool:
        """Whether a file goes on, or is missing; not if it was cut off and has no copy."""
        tracked = self._now(number)
        if tracked is None:
            return True
        self._missing.discard(number)
        try:
            moved = self._moved(tracked) or self._moved(held_back(tracked, self._before(number)))
        except NotSettledError:
            self._again.add(tracked.id)
            return True
        if moved:
            self._set(number, moved)
        elif not self._watch.find(tracked.id):
            self._missing.add(number)  # until the offset moves: a disk may be mounted again
        return bool(moved) or number in self._missing

    def _find_copies(self, cut_off: list[int]) -> Ids:
        """Follow files that were cut off into copies made after the names were listed.

        Returns the ids of what changed meanwhile. A file that has no copy then has lost lines.
        """
        touched: Ids = {}
        for _ in range(LISTINGS - 1):
            if cut_off:
                touched |= self._watch.look(self._first_look, anew=True)
                cut_off = [number for number in cut_off if not self._follow(number)]
        for number in cut_off:
            self._set(number, None)
        self._again |= touched.keys() & self._number_of.keys()
        return touched

    def _moved(self, tracked: TrackedFile) -> TrackedFile | None:
        places = candidates(tracked, self._watch, lambda id_: id_ not in self._number_of)
        moved = (self._moved_to(found, tracked) for found in places)
        return next(filter(None, moved), None)

    def _moved_to(self, found: FoundFile, tracked: TrackedFile) -> TrackedFile | None:
        return moved_on(tracked, found, self._end_of_lines, self._options.maxLineBytes)

    def _end_of_lines(self, file: LineFile, start: int) -> int:
        stop = file.size
        if self._until is not None:
            stop = min(stop, self._until.get(file.id, start))
        return self._long_lines.end(file, start, max(start, stop))

    def _set(self, number: int, moved: TrackedFile | None) -> None:
        old = self._now(number)
        if old is None:
            return
        if self._number_of.get(old.id) == number:
            del self._number_of[old.id]
        if moved:
            self._number_of[moved.id] = number
            self._watch.also_watch(moved.path)
        else:
            warn_of_loss(old)
        if moved != old:
            self._ahead[number] = moved

    # ---- Files that are new

    def _start(self, touched: Ids) -> None:
        """New files are tracked before they have a line: they may be renamed before the next look.

        Their numbers are made after all else: between objects that soon go into a note, they would
        keep its memory in use.
        """
        new = {}
        for id_, end, check, head in self._ends:
            if (path := touched.get(id_)) and self._is_new(id_):
                new[id_] = TrackedFile(path, id_, end, check, head)
        for id_ in touched:
            if id_ not in new and self._is_new(id_) and (file := self._begun(id_)):
                new[id_] = file
        self._ends = Ends()
        for number, (id_, file) in enumerate(new.items(), self._seen):
            self._ahead[number] = file
            self._number_of[id_] = number
        self._seen += len(new)

    def _first_look(self, path: str) -> FoundFile | None:
        """What is at a new path, with its end noted: each of very many files is opened once."""
        try:
            with LineFile(path, self._options.maxLineBytes) as file:
                end = self._end_of_lines(file, 0)
                check = file.check_of_end(end)
                if check:
                    self._ends.add(file.id, end, check, file.head())
                return found_with(file.status, path, file.id, matches=True)
        except FileNotFoundError:  # renamed or replaced since it was listed
            return None

    def _is_new(self, id_: str) -> bool:
        too_late = self._until is not None and id_ not in self._until
        return not too_late and id_ not in self._number_of

    def _begun(self, id_: str) -> TrackedFile | None:
        found = self._watch.find(id_)
        if not found or not found.matches:
            return None
        try:
            with open_found(found.path, id_, self._options.maxLineBytes) as file:
                return tracked_to(self._end_of_lines(file, 0), file)
        except NotSettledError:
            self._again.add(id_)
            return None

    # ---- What comes of it

    def _available(self) -> FileOffset:
        if not any(map(self._is_news, self._ahead)):
            return self._begin
        for number in sorted(self._missing):
            self._set(number, None)
        self._missing.clear()
        files = {**self._begin.files, **self._ahead}
        return self._folded.without_forgotten(replace(self._begin, files=files, seen=self._seen))

    def _is_news(self, number: int) -> bool:
        file, before = self._ahead[number], self._before(number)
        return before is None or (file is not None and file.next > before.next)


class Ends:
    """Where the lines of new files end, in columns: there may be very many, and objects would lie
    in memory between those that stay, and keep it in use."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._ends = array("q")
        self._digests = bytearray()

    def add(self, id_: str, end: int, check: str, head: str | None) -> None:
        self._ids.append(id_)
        self._ends.append(end)
        self._digests += bytes.fromhex(check + (head or _NO_HEAD))

    def __iter__(self) -> Iterator[tuple[str, int, str, str | None]]:
        size = len(_NO_HEAD) // 2
        for id_, end, at in zip(self._ids, self._ends, count(step=2 * size), strict=False):
            check = self._digests[at : at + size].hex()
            head = self._digests[at + size : at + 2 * size].hex()
            yield id_, end, check, None if head == _NO_HEAD else head


class LongLines:
    """Finds where whole lines end, and looks at each byte of a long half line once.

    A half line may have more than `most` bytes: its file may be cut off or rotated before it
    ends, so a warning is all. When its newline comes, reading it is an error.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._searched: dict[str, tuple[int, int]] = {}  # by id: where a half line is, to what end

    def end(self, file: LineFile, start: int, stop: int) -> int:
        """Behind the last newline in `start`..`stop`; `start` if there is none."""
        begun, searched = self._searched.pop(file.id, (start, start))
        if begun != start or searched > stop:
            searched = start
        found = file.last_line_end(searched, stop)
        end = found if found > searched else start
        if stop - end > _LONG:
            self._searched[file.id] = (end, stop)
        if stop - end > self._most >= searched - end:
            self._warn(file.path, end)
        return end

    def _warn(self, path: str, position: int) -> None:
        log.warning(
            "%s has no newline within %d bytes from byte %d. Nothing after that is read before "
            "one comes; then option `maxLineBytes` must allow for a line that long.",
            path,
            self._most,
            position,
        )
