"""One look at growing files: which are known, which are new, and how far each can be read."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import replace

from tutorial_pkg.connectors.file_lines.files import COMPRESSED, Listing, id_of, list_files
from tutorial_pkg.connectors.file_lines.line_file import (
    CutOffError,
    LineFile,
    TrackedFile,
    open_same,
)
from tutorial_pkg.connectors.file_lines.offset import FileOffset, Files, Notes
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.read_limit import Limits, Taken, shared

LISTINGS = 2  # a file that is renamed during a listing may be missing in it
MOST_SHARERS = 1000  # files in a batch with a limit: each is opened to see where its share ends
MANY_FILES = 10_000

log = logging.getLogger(__name__)
_warned_of_compressed: set[str] = set()  # paths: once in a process is enough


class Tail:
    """The files of a query, look after look.

    All progress is in the offsets. The state between two looks only saves work: a new `Tail` finds
    the same.
    """

    def __init__(
        self,
        options: OptionValues,
        notes: Notes,
        begin: FileOffset,
        until: Mapping[str, int] | None = None,
        also: Set[str] = frozenset(),
    ) -> None:
        """Start at an offset.

        Args:
            until: the size, by id, to which to read each file; no others are read.
            also: ids of files to read though `path` does not match them.
        """
        self.unread = 0  # bytes that the last batch left
        self._options, self._notes = options, notes
        self._until, self._also = until, set(also)
        self._absent = set[str]()  # of those
        self._begin = self._end = begin
        self._files: dict[int, TrackedFile | None] = {**notes.all_files(begin)}  # at `_begin`
        self._taken: Files = {}  # how they differ at `_end`
        self._ahead: dict[int, TrackedFile | None] = {}  # how they differ by now
        self._number_of = {file.id: n for n, file in self._files.items() if file}
        self._seen = begin.seen
        self._changed_at: dict[int, float] = {}
        # Ids to look at even if nothing has changed.
        self._again = set(self._number_of)
        self._listing = self._earlier = Listing()
        self._at: dict[str, str] = {}  # the path of each id
        self._finished = set[str]()  # ids of archives that were read to their end
        self._lost = set[int]()  # numbers that the last listing did not show
        self._idle_until = 0.0

    def ends_at(self, begin: FileOffset) -> bool:
        """Return whether `begin` is the offset that the last batch began or ended with."""
        return begin in (self._begin, self._end)

    def look(self, begin: FileOffset) -> FileOffset:
        """Return `begin` with new files, moved on to all that can be read; itself if no news.

        With very many files, an idle query spends at most a fifth of its time looking.
        """
        self._move_to(begin)
        started = time.monotonic()
        if not self._again and started < self._idle_until:
            return begin
        touched, self._again, lost = self._again, set[str](), list[int]()
        self._earlier, self._lost = self._listing, set()
        for _ in range(LISTINGS):
            touched |= self._list()
            gone = self._number_of.keys() - self._at.keys() if touched else set()
            numbers = {self._number_of[id_] for id_ in self._number_of.keys() & touched | gone}
            lost = [number for number in sorted(numbers) if not self._follow(number)]
            self._lost = set(lost)
            if not lost:
                break
        for number in lost:
            file = self._now(number)
            if file and file.id in self._at:  # cut off or rewritten: what it holds is a new file
                self._forget(number)
        self._start_new(touched)
        # What is tracked, or twice not there, is forgotten: another file may get its id.
        absent = self._also - self._at.keys()
        self._also -= self._number_of.keys() | (absent & self._absent)
        self._absent = absent
        available = self._available(lost)
        if available is begin and len(self._listing.files) > MANY_FILES:
            ended = time.monotonic()
            self._idle_until = ended + 4 * (ended - started)
        return available

    def take(self, available: FileOffset, limits: Limits) -> FileOffset:
        """Return what a batch takes of `available`; the next look continues from there."""
        whole = {number: file for number, file in self._ahead.items() if file}
        taken = whole if limits == Limits() else self._limited(whole, limits)
        self.unread = sum(file.next - taken[number].next for number, file in whole.items())
        self._taken = {**self._ahead, **taken}
        available = replace(available, files={**available.files, **taken})
        since = time.monotonic() - self._options.restAfter
        resting = [n for n in available.files if self._changed_at.get(n, since) <= since]
        self._end = self._notes.fold(available, resting)
        return self._end

    def known_ids(self) -> Set[str]:
        """Return the ids of all tracked files, also of renamed ones."""
        return self._number_of.keys() | self._also

    # ---- From one look to the next

    def _move_to(self, begin: FileOffset) -> None:
        if begin is self._begin:
            return
        if begin == self._end:
            self._files |= self._taken
            self._ahead = {n: f for n, f in self._ahead.items() if f != self._files.get(n)}
        self._begin = begin

    def _list(self) -> set[str]:
        """Look at the directories, and return the ids of files that changed."""
        before, self._listing = self._listing, list_files(self._options.path)
        if self._listing.compressed and self._options.path not in _warned_of_compressed:
            _warned_of_compressed.add(self._options.path)
            log.warning(
                "%s and other compressed files that `path` matches are left out.",
                min(self._listing.compressed),
            )
        changed = self._listing.changed_ids(before)
        if changed:
            # Of several names of one file, one that matches.
            paths = sorted(self._listing.files, key=self._listing.matching.__contains__)
            files = self._listing.files
            self._at = {id_of(files[path]): path for path in paths}
        return changed

    def _now(self, number: int) -> TrackedFile | None:
        return self._ahead[number] if number in self._ahead else self._files.get(number)

    # ---- Files that are known

    def _follow(self, number: int) -> bool:
        """Move a known file on to its last whole line; return False if it is gone or cut off."""
        now = self._now(number)
        if now is None:
            return True
        try:
            moved = self._find(self._files.get(number) or now.at_start(), now.id)
        except CutOffError:  # the next look sorts it out
            self._again.add(now.id)
            return True
        if moved is None:
            return False
        seen = self._earlier.files.get(moved.path)
        if seen and moved.next and not (now.next or now.head):  # nothing to recognize a copy by
            self._warn_of_skipped(moved.path, seen[3])
        if now.path != moved.path and moved.path not in self._listing.matching:
            self._warn_of_skipped(now.path, self._listing.files[moved.path][3])
        before = self._files.get(number)
        if moved.path.endswith(COMPRESSED) and before and before.next == moved.next:
            self._finished.add(moved.id)  # each look would unpack it again
            moved = None
        elif moved.next > now.next and self._earlier.files:
            self._changed_at[number] = time.monotonic()
        self._set(number, moved)
        return True

    def _find(self, file: TrackedFile, last_id: str) -> TrackedFile | None:
        """Return a file moved on to its last whole line, wherever its lines are now."""
        path = self._at.get(file.id)
        moved = self._moved(file, path, file.id) if path else None
        if moved or not (file.next or file.head):  # else nothing is known to recognize it by
            return moved
        for place in (file.path, *self._listing.longer_names(file.path)):
            status = self._listing.files.get(place)
            # A lost file's id may have been reused for the copy of another.
            number = status and self._number_of.get(id_of(status))
            if status and (id_of(status) == last_id or number is None or number in self._lost):
                moved = self._moved(file, place, id_of(status))
                if moved:
                    return moved
        return None

    def _moved(self, file: TrackedFile, path: str, id_: str) -> TrackedFile | None:
        lines = open_same(path, file, self._options.maxLineBytes)
        if lines is None:
            return None
        with lines:
            moved = lines.tracked(self._end_of_lines(lines, file.next))
            if lines.id != id_ or not lines.holds(file):
                raise CutOffError(path)
        return moved

    def _forget(self, number: int) -> None:
        now = self._now(number)
        if now is None:
            return
        file = self._files.get(number) or now.at_start()
        status = self._earlier.files.get(file.path)
        # If all of it was read, its end is ordinary rotation.
        if status is None or id_of(status) != file.id or status[2] != file.next:
            log.warning(
                "%s was deleted, truncated or rewritten: anything after byte %d was not read. "
                "What the file holds now is read from its start.",
                file.path,
                file.next,
            )
        elif file.path in self._listing.matching or file.path not in self._listing.files:
            self._warn_of_skipped(file.path, status[3])
        self._set(number, None)

    def _set(self, number: int, moved: TrackedFile | None) -> None:
        old = self._now(number)
        if old and self._number_of.get(old.id) == number:
            del self._number_of[old.id]
        if moved:
            self._number_of[moved.id] = number
        if moved != old:
            self._ahead[number] = moved

    # ---- Files that are new

    def _start_new(self, touched: set[str]) -> None:
        """Track new files even before they have a line: the next look may find them renamed."""
        new = touched - self._number_of.keys()
        for path, id_ in sorted((self._at[id_], id_) for id_ in new if id_ in self._at):
            also = id_ in self._also and not path.endswith(COMPRESSED)
            is_ours = path in self._listing.matching or also
            if is_ours and (self._until is None or id_ in self._until):
                self._start(path, id_)

    def _start(self, path: str, id_: str) -> None:
        try:
            file = self._moved(TrackedFile(path, id_), path, id_)
        except CutOffError:
            file = None
        if file is None:  # the next look sorts it out
            self._again.add(id_)
            return
        self._ahead[self._seen] = file
        self._number_of[id_] = self._seen
        self._seen += 1

    def _end_of_lines(self, lines: LineFile, start: int) -> int:
        stop = lines.size
        if self._until is not None and not lines.path.endswith(COMPRESSED):
            stop = max(start, min(stop, self._until.get(lines.id, start)))
        return lines.last_line_end(start, stop)

    # ---- The result of a look

    def _available(self, lost: list[int]) -> FileOffset:
        """Return the offset of everything.

        Lost files are forgotten only when there is news: a disk may be mounted again.
        """
        if not any(map(self._is_news, self._ahead)):
            return self._begin
        for number in lost:
            self._forget(number)
        files = {**self._begin.files, **self._ahead}.items()
        # Only a file in a note has to be hidden.
        known = {number: file for number, file in files if file or self._begin.folded}
        return replace(self._begin, files=known, seen=self._seen)

    def _is_news(self, number: int) -> bool:
        file, before = self._ahead[number], self._files.get(number)
        return before is None or (file is not None and file.next > before.next)

    def _limited(self, whole: Mapping[int, TrackedFile], limits: Limits) -> dict[int, TrackedFile]:
        """Cut files back to the limits, with the last line of a share whole."""
        starts = {number: self._start_of(number, file) for number, file in whole.items()}
        unread = {number: file.next - starts[number].next for number, file in whole.items()}
        pending = sorted(number for number in whole if unread[number])[:MOST_SHARERS]
        waiting = {number: unread[number] for number in pending}
        return starts | shared(
            waiting, limits, lambda number, share: self._share(starts[number], whole[number], share)
        )

    def _start_of(self, number: int, file: TrackedFile) -> TrackedFile:
        before = self._files.get(number) or file.at_start()
        return file._replace(next=before.next, check=before.check)

    def _share(self, start: TrackedFile, whole: TrackedFile, limits: Limits) -> Taken:
        """Return where to end within `limits`, and the lines until there if they are limited."""
        if 0 in (limits.rows, limits.size):
            return Taken(start)
        lines = open_same(whole.path, whole, self._options.maxLineBytes)
        if lines is None:  # rotated a moment ago: the next look finds it
            return Taken(start)
        with lines, suppress(CutOffError):
            end, rows = whole.next, 0
            if limits.size is not None and limits.size < end - start.next:
                end = lines.line_end(start.next + limits.size - 1, end)
            if limits.rows is not None:
                end, rows = lines.end_of_lines(start.next, end, limits.rows)
            check = lines.tracked(end).check
            if lines.holds(whole):
                return Taken(whole._replace(next=end, check=check), rows, end - start.next)
        return Taken(start)

    # ---- Warnings

    def _warn_of_skipped(self, path: str, since: int) -> None:
        """Warn of files that came and went under a name between two looks."""
        files = self._listing.files
        skipped = [
            name
            for name in self._listing.longer_names(path)
            if name not in self._listing.matching
            and id_of(files[name]) not in self._number_of.keys() | self._finished
            and files[name][3] > since
        ]
        if skipped:
            log.warning(
                "%s was rotated more than once since the last look. Not read: %s. A `path` that "
                "also matches rotated files, such as `app.log*`, reads them.",
                path,
                ", ".join(skipped),
            )
