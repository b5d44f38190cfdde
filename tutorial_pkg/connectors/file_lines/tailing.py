"""One look at growing files: which are known, which are new, and how far each can be read."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace

from tutorial_pkg.connectors.file_lines.files import COMPRESSED, Listing, id_of, list_files
from tutorial_pkg.connectors.file_lines.line_file import CutOffError, TrackedFile, open_same
from tutorial_pkg.connectors.file_lines.offset import FileOffset, Notes
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.read_limit import Limits, Taken, shared

LISTINGS = 2  # a file that is renamed during a listing may be missing in it
MOST_SHARERS = 1000  # files in a batch with a limit: each is opened to see where its share ends
MANY_FILES = 10_000

log = logging.getLogger(__name__)
_warned_of_compressed: set[str] = set()  # paths: once in a process is enough


class Tail:
    """The files of a query, look after look, from one `offset` to the next.

    All progress is in the offset. The state between two looks only saves work: a new `Tail` finds
    the same.
    """

    def __init__(
        self,
        options: OptionValues,
        notes: Notes,
        offset: FileOffset,
        until: Mapping[str, int] | None = None,
        also: Set[str] = frozenset(),
    ) -> None:
        """Start at an offset.

        Args:
            until: the size, by id, to which to read each file; no others are read.
            also: ids of files to read though `path` does not match them.
        """
        self.offset = offset
        self._options, self._notes = options, notes
        self._until, self._also = until, set(also)
        # The files by number, as the last look saw them, and at the offset if that differs.
        self._files = notes.all_files(offset)
        self._starts: dict[int, TrackedFile] = {}
        self._number_of = {file.id: number for number, file in self._files.items()}
        self._seen = offset.seen
        self._grown_at: dict[int, float] = {}
        self._listing = self._earlier = Listing()
        self._again = set(self._number_of)  # ids to look at even if nothing has changed
        self._finished = set[str]()  # ids of archives that were read to their end
        self._lost = set[int]()  # numbers that the last listing did not show
        self._idle_until = 0.0

    @property
    def unread(self) -> int:
        """The bytes after the offset, as the last look saw them."""
        starts = {n: start for n, start in self._starts.items() if n in self._files}
        return sum(self._files[number].next - start.next for number, start in starts.items())

    def known_ids(self) -> Set[str]:
        """Return the ids of all tracked files, also of renamed ones."""
        return self._number_of.keys() | self._also

    def look(self) -> bool:
        """Look at the directories, and return whether there are new files or lines.

        With very many files, an idle query spends at most a fifth of its time looking.
        """
        started = time.monotonic()
        if not self._again and started < self._idle_until:
            return False
        touched, self._again = self._again, set()
        self._earlier, self._lost = self._listing, set()
        for _ in range(LISTINGS):
            touched |= self._list()
            known, paths = self._number_of.keys(), self._listing.path_of.keys()
            ids = known & touched | (known - paths if touched else set())
            numbers = sorted(self._number_of[id_] for id_ in ids)
            self._lost = {number for number in numbers if not self._follow(number)}
            if not (self._lost or self._also - paths):
                break
        for number in sorted(self._lost):  # cut off or rewritten: what it holds is a new file
            if self._files[number].id in paths:
                self._forget(number)
        self._start_new(touched)
        # What is tracked or gone is forgotten: another file may get its id.
        self._also = (self._also & paths) - self._number_of.keys()
        is_news = self._seen > self.offset.seen or self.unread > 0
        if is_news:  # otherwise lost files may come back: a disk may be mounted again
            for number in sorted(self._lost & self._files.keys()):
                self._forget(number)
        elif len(self._listing.files) > MANY_FILES:
            ended = time.monotonic()
            self._idle_until = ended + 4 * (ended - started)
        return is_news

    def take(self, limits: Limits) -> FileOffset:
        """Return the offset after a batch within `limits`, and continue from there."""
        ends = {number: self._files.get(number) for number in self._starts}
        taken = ends.copy()
        if limits != Limits():
            taken |= self._limited(limits)
        self._starts = {n: file for n, file in taken.items() if file and file != ends[n]}
        # Only a file in a note has to be hidden when it is forgotten.
        files = {**self.offset.files, **taken}.items()
        known = {number: file for number, file in files if file or self.offset.folded}
        since = time.monotonic() - self._options.restAfter
        resting = [number for number in known if self._grown_at.get(number, since) <= since]
        offset = replace(self.offset, files=known, seen=self._seen)
        self.offset = self._notes.fold(offset, resting)
        return self.offset

    def _list(self) -> set[str]:
        """List the directories, and return the ids of files that changed."""
        listing = list_files(self._options.path)
        if listing.compressed and self._options.path not in _warned_of_compressed:
            _warned_of_compressed.add(self._options.path)
            log.warning("%s and other compressed files are left out.", min(listing.compressed))
        changed = listing.changed_ids(self._listing)
        if changed:
            self._listing = listing
        return changed

    # ---- Files that are known

    def _start_of(self, number: int) -> TrackedFile:
        """Return a file as the last look saw it, at its position in the offset."""
        file = self._files[number]
        start = self._starts.get(number, file)
        return file._replace(next=start.next, check=start.check)

    def _follow(self, number: int) -> bool:
        """Move a file on to its last whole line; return False if it is gone or cut off."""
        now, start = self._files[number], self._start_of(number)
        known = start if start.next or start.head else now  # nothing recognizes an empty start
        try:
            places = (self._moved(known, path, start.next) for path in self._places(number))
            moved = next((file for file in places if file), None)
        except CutOffError:  # the next look sorts it out
            self._again.add(now.id)
            return True
        if moved is None:
            return False
        seen = self._earlier.files.get(moved.path)
        is_first_content = moved.next and not (now.next or now.head)
        if seen and is_first_content and id_of(seen) == now.id:  # nothing to recognize a copy by
            self._warn_of_skipped(moved.path, seen[3])
        if now.path != moved.path and moved.path not in self._listing.matching:
            self._warn_of_skipped(now.path, self._listing.files[moved.path][3])
        if moved.next > now.next and self._earlier.files and number < self.offset.seen:
            self._grown_at[number] = time.monotonic()
        if moved.path.endswith(COMPRESSED) and moved.next == start.next:
            self._finished.add(moved.id)  # each look would unpack it again
            self._set(number, None)
        else:
            self._set(number, moved)
        return True

    def _places(self, number: int) -> Iterator[str]:
        """Yield the paths where the lines of a file may be by now."""
        file = self._files[number]
        if file.id in self._listing.path_of:
            yield self._listing.path_of[file.id]
        if not (file.next or file.head):  # nothing is known to recognize it by
            return
        for path in (file.path, *self._listing.longer_names(file.path)):
            status = self._listing.files.get(path)
            owner = status and self._number_of.get(id_of(status), number)
            # A lost file's id may have been reused for the copy of another.
            if status and (owner == number or owner in self._lost):
                yield path

    def _moved(self, file: TrackedFile, path: str, start: int) -> TrackedFile | None:
        lines = open_same(path, file, self._options.maxLineBytes)
        if lines is None:
            return None
        with lines:
            stop = lines.size
            if self._until is not None and not path.endswith(COMPRESSED):
                stop = max(start, min(stop, self._until.get(lines.id, 0)))
            moved = lines.tracked(lines.last_line_end(start, stop))
            if lines.id != id_of(self._listing.files[path]) or not lines.holds(file):
                raise CutOffError(path)
        return moved

    def _forget(self, number: int) -> None:
        file = self._start_of(number)
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
        old = self._files.pop(number)
        if self._number_of.get(old.id) == number:
            del self._number_of[old.id]
        if moved != old:
            self._starts.setdefault(number, old)
        if moved:
            self._files[number] = moved
            self._number_of[moved.id] = number

    # ---- Files that are new

    def _start_new(self, touched: set[str]) -> None:
        """Track new files even before they have a line: the next look may find them renamed."""
        paths = self._listing.path_of
        new = (touched & paths.keys()) - self._number_of.keys()
        for path, id_ in sorted((paths[id_], id_) for id_ in new):
            also = id_ in self._also and not path.endswith(COMPRESSED)
            is_ours = path in self._listing.matching or also
            if is_ours and (self._until is None or id_ in self._until):
                self._files[self._seen] = self._starts[self._seen] = TrackedFile(path, id_)
                self._number_of[id_] = self._seen
                self._seen += 1
                self._follow(self._seen - 1)

    # ---- Limits

    def _limited(self, limits: Limits) -> dict[int, TrackedFile]:
        """Cut files back to the limits, with the last line of a share whole."""
        starts = {n: self._start_of(n) for n in self._starts if n in self._files}
        unread = {number: self._files[number].next - file.next for number, file in starts.items()}
        pending = sorted(number for number in unread if unread[number])[:MOST_SHARERS]
        waiting = {number: unread[number] for number in pending}
        return starts | shared(waiting, limits, self._share)

    def _share(self, number: int, limits: Limits) -> Taken:
        """Return where to end within `limits`, and the lines until there if they are limited."""
        start, whole = self._start_of(number), self._files[number]
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
            part = lines.tracked(end)
            if lines.holds(whole):
                return Taken(part, rows, end - start.next)
        return Taken(start)

    # ---- Warnings

    def _warn_of_skipped(self, path: str, since: int) -> None:
        """Warn of files that came and went under a name between two looks."""
        listing, known = self._listing, self._number_of.keys() | self._finished
        skipped = [
            name
            for name in listing.longer_names(path)
            if name not in listing.matching
            and id_of(listing.files[name]) not in known
            and listing.files[name][3] > since
        ]
        if skipped:
            log.warning(
                "%s was rotated more than once since the last look. Not read: %s. A `path` that "
                "also matches rotated files, such as `app.log*`, reads them.",
                path,
                ", ".join(skipped),
            )
