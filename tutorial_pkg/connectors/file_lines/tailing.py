"""One look at growing files: which are known, which are new, and how far each can be read."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path

from tutorial_pkg.connectors.file_lines.files import (
    COMPRESSED,
    Listing,
    id_of,
    list_files,
    siblings,
)
from tutorial_pkg.connectors.file_lines.line_file import CutOffError, LineFile
from tutorial_pkg.connectors.file_lines.notes import Notes
from tutorial_pkg.connectors.file_lines.offset import FileOffset, TrackedFile
from tutorial_pkg.connectors.file_lines.rotation import open_same
from tutorial_pkg.core.options import OptionValues
from tutorial_pkg.core.read_limit import Limits, Taken, shared

LISTINGS = 2  # a file that is renamed during a listing may be missing in it
MOST_SHARERS = 1000  # files in a batch with a limit: each is opened to see where its share ends
MANY_FILES = 10_000
_LONG = 1 << 20  # bytes of an unfinished line above which its search is not repeated

log = logging.getLogger(__name__)
_warned_of_compressed: set[str] = set()  # paths: once in a process is enough


class NotSettledError(Exception):
    """A file was renamed, cut off or rewritten during a look; the next look sorts it out."""


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
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """Start at an offset.

        Args:
            until: the size, by id, to which to read each file; no others are read.
            also: ids of files to read though `path` does not match them.
            kept: paths, by id, at which files are found after they were deleted.
        """
        self.unread = 0  # bytes that the last batch left
        self._also, self._kept = also, {} if kept is None else kept
        self._options, self._notes, self._until = options, notes, until
        self._begin = self._end = begin
        known = notes.all_files(begin).items()
        self._number_of = {file.id: number for number, file in known}
        self._seen = begin.seen
        self._ahead: dict[int, TrackedFile | None] = {}  # positions that differ from `_begin`
        self._missing: set[int] = set()
        # Ids to look at even if nothing has changed.
        self._again = self._number_of.keys() | self._kept.keys()
        self._active: dict[str, float] = {}  # when a file was last seen to change
        self._listing = self._earlier = Listing({}, {}, [])
        self._at = dict(self._kept)  # the path of each id
        self._names: list[str] = []  # these paths in order
        self._searched: dict[str, tuple[int, int]] = {}  # half lines: start, searched up to
        self._idle_until = 0.0

    def ends_at(self, begin: FileOffset) -> bool:
        """Return whether `begin` is the offset that the last batch began or ended with."""
        return begin in (self._begin, self._end)

    def look(self, begin: FileOffset) -> FileOffset:
        """Return `begin` with new files, moved on to all that can be read; itself if no news.

        With very many files, an idle query spends at most a fifth of its time looking.
        """
        if begin is not self._begin:
            self._begin = begin
            ahead = self._ahead.items()
            self._ahead = {n: file for n, file in ahead if file != self._before(n)}
        started = time.monotonic()
        if not self._again and started < self._idle_until:
            return begin
        touched, self._again, lost = self._again, set(), []
        self._earlier = self._listing
        for _ in range(LISTINGS):
            touched |= self._list()
            lost = [number for number in self._known(touched) if not self._follow(number)]
            if not lost:
                break
        for number in lost:
            self._lose(number)
        self._start_new(touched)
        available = self._available()
        if available is begin and len(self._at) > MANY_FILES:
            now = time.monotonic()
            self._idle_until = now + 4 * (now - started)
        return available

    def take(self, available: FileOffset, limits: Limits) -> FileOffset:
        """Return what a batch takes of `available`; the next look continues from there."""
        self.unread = 0
        if limits != Limits():
            whole = {number: file for number, file in self._ahead.items() if file}
            some = self._limited(whole, limits)
            self.unread = sum(file.next - some[number].next for number, file in whole.items())
            available = replace(available, files={**available.files, **some})
        files = available.files.items()
        resting = [number for number, file in files if not file or not self._is_active(file.id)]
        self._end = self._notes.fold(available, resting)
        return self._end

    def known_ids(self) -> Set[str]:
        """Return the ids of all tracked files, also of renamed ones."""
        return self._number_of.keys() | self._also

    def unread_files(self) -> list[TrackedFile]:
        """Return the files that have lines which no batch has taken yet."""
        return [file for number, file in self._ahead.items() if file and self._is_news(number)]

    # ---- From one look to the next

    def _list(self) -> set[str]:
        """Look at the directories, and return the ids of files that changed."""
        before = self._listing
        self._listing = list_files(self._options.path, self._number_of.__contains__)
        if self._listing.compressed and self._options.path not in _warned_of_compressed:
            _warned_of_compressed.add(self._options.path)
            log.warning(
                "%s and other compressed files that `path` matches are left out.",
                min(self._listing.compressed),
            )
        changed = self._listing.changed_ids(before)
        if changed:
            everything = {**self._listing.beside, **self._listing.matching}
            self._at = {**self._kept, **{id_of(status): p for p, status in everything.items()}}
            self._names = []
        if before.matching:
            self._active |= dict.fromkeys(changed & self._number_of.keys(), time.monotonic())
        return changed

    def _is_active(self, id_: str) -> bool:
        changed_at = self._active.get(id_)
        if changed_at is None or time.monotonic() - changed_at > self._options.restAfter:
            self._active.pop(id_, None)
            return False
        return True

    def _before(self, number: int) -> TrackedFile | None:
        return self._notes.find(self._begin, number)

    def _now(self, number: int) -> TrackedFile | None:
        return self._ahead[number] if number in self._ahead else self._before(number)

    # ---- Files that are known

    def _known(self, touched: set[str]) -> list[int]:
        numbers = {self._number_of[id_] for id_ in touched if id_ in self._number_of}
        return sorted(numbers | self._missing if touched else numbers)

    def _follow(self, number: int) -> bool:
        """Move a known file on to its last whole line; return False if it is gone or cut off."""
        now = self._now(number)
        if now is None:
            return True
        try:
            moved = self._find(self._before(number) or now.at_start())
        except NotSettledError:
            self._again.add(now.id)
            return True
        if moved is None:
            return False
        self._missing.discard(number)
        if moved.path in self._listing.beside and now.path != moved.path:
            self._warn_of_skipped(now, moved)
        self._set(number, moved)
        return True

    def _find(self, file: TrackedFile) -> TrackedFile | None:
        """Return a file moved on to its last whole line, wherever its lines are now."""
        path = self._at.get(file.id)
        moved = self._moved(file, path, file.id) if path else None
        if moved or not (file.next or file.head):  # else nothing is known to recognize it by
            return moved
        for place in (file.path, *siblings(file.path, self._sorted_names())):
            status = self._listing.status(place)
            if status and id_of(status) not in self._number_of:
                moved = self._moved(file, place, id_of(status))
                if moved:
                    return moved
        return None

    def _moved(self, file: TrackedFile, path: str, id_: str) -> TrackedFile | None:
        lines = open_same(path, file, self._options.maxLineBytes)
        if lines is None:
            return None
        with lines:
            if lines.id != id_:
                raise NotSettledError
            end = self._end_of_lines(lines, file.next)
            if end == file.next and file.head:
                return file._replace(path=path, id=id_)
            moved = _tracked(lines, end)
            if not lines.holds(file.next, file.check, file.head):
                raise NotSettledError
        return moved

    def _lose(self, number: int) -> None:
        """Record that no listing has shown a file's lines any more."""
        file = self._now(number)
        if file and file.id not in self._at:  # until there is news: a disk may be mounted again
            self._missing.add(number)
        elif file:
            self._forget(number, file)

    def _forget(self, number: int, now: TrackedFile) -> None:
        file = self._before(number) or now.at_start()
        status = self._earlier.status(file.path)
        size = status[2] if status and id_of(status) == file.id else None
        if size != file.next:  # else all of it was read, and its end is ordinary rotation
            _warn_of_loss(file, size)
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
        paths = {self._at[id_]: id_ for id_ in touched - self._number_of.keys() if id_ in self._at}
        for path, id_ in sorted(paths.items()):
            is_ours = path in self._listing.matching or id_ in self._also
            if is_ours and (self._until is None or id_ in self._until):
                self._start(path, id_)

    def _start(self, path: str, id_: str) -> None:
        try:
            with LineFile(path, self._options.maxLineBytes) as lines:
                if lines.id != id_:
                    raise NotSettledError
                file = _tracked(lines, self._end_of_lines(lines, 0))
        except (FileNotFoundError, NotSettledError):
            self._again.add(id_)
            return
        self._ahead[self._seen] = file
        self._number_of[id_] = self._seen
        self._seen += 1

    def _end_of_lines(self, lines: LineFile, start: int) -> int:
        """Return the end of the last whole line; look at each byte of a long half line once."""
        stop = lines.size
        if self._until is not None and not lines.path.endswith(COMPRESSED):
            stop = max(start, min(stop, self._until.get(lines.id, start)))
        line, searched = self._searched.pop(lines.id, (start, start))
        if line != start or searched > stop:
            searched = start
        end = lines.last_line_end(searched, stop)
        end = end if end > searched else start
        if stop - end > _LONG:
            self._searched[lines.id] = (end, stop)
        if stop - end > self._options.maxLineBytes >= searched - end:
            _warn_of_half_line(lines.path, end, self._options.maxLineBytes)
        return end

    # ---- The result of a look

    def _available(self) -> FileOffset:
        if not any(map(self._is_news, self._ahead)):
            return self._begin
        for number in sorted(self._missing):
            if file := self._now(number):
                self._forget(number, file)
        self._missing.clear()
        files = {**self._begin.files, **self._ahead}.items()
        find = self._notes.find_folded
        needed = {n: file for n, file in files if file or find(self._begin, n)}
        return replace(self._begin, files=needed, seen=self._seen)

    def _is_news(self, number: int) -> bool:
        file, before = self._ahead[number], self._before(number)
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
        before = self._before(number)
        if before is None:
            return file.at_start()
        return file._replace(next=before.next, check=before.check)

    def _share(self, start: TrackedFile, whole: TrackedFile, limits: Limits) -> Taken:
        """Return where to end within `limits`, and the lines until there if they are limited."""
        if 0 in (limits.rows, limits.size):
            return Taken(start)
        lines = open_same(whole.path, whole, self._options.maxLineBytes)
        if lines is None:  # rotated a moment ago: the next look finds it
            return Taken(start)
        with lines:
            try:
                end, rows = _cut(lines, start.next, whole.next, limits)
            except CutOffError:
                return Taken(start)
            check = lines.check_before(end)
            if not check or not lines.holds(whole.next, whole.check, whole.head):
                return Taken(start)
        return Taken(whole._replace(next=end, check=check), rows, end - start.next)

    # ---- Small things

    def _sorted_names(self) -> list[str]:
        self._names = self._names or sorted(self._at.values())
        return self._names

    def _warn_of_skipped(self, before: TrackedFile, renamed: TrackedFile) -> None:
        """Warn of files that came and went under a name between two looks."""
        sizes = {}
        try:
            rotated_at = Path(renamed.path).stat().st_mtime_ns
            for path in siblings(before.path, self._sorted_names()):
                status = self._listing.beside.get(path)
                if status and id_of(status) not in self._number_of:
                    details = Path(path).stat()
                    if details.st_mtime_ns > rotated_at:
                        sizes[path] = details.st_size
        except FileNotFoundError:  # rotated once more: the next look tries again
            return
        if sizes:
            log.warning(
                "%s was rotated more than once since the last look. Not read: %d files, %d bytes "
                "(%s). A `path` that also matches rotated files, such as `app.log*`, reads them.",
                before.path,
                len(sizes),
                sum(sizes.values()),
                ", ".join(sizes),
            )


def _tracked(lines: LineFile, end: int) -> TrackedFile:
    check = lines.check_before(end)
    if check is None:  # shorter by now
        raise NotSettledError
    return TrackedFile(lines.path, lines.id, end, check, lines.head())


def _cut(lines: LineFile, start: int, stop: int, limits: Limits) -> tuple[int, int]:
    if limits.size is not None and limits.size < stop - start:
        stop = lines.line_end(start + limits.size - 1, stop)
    return (stop, 0) if limits.rows is None else lines.end_of_lines(start, stop, limits.rows)


def _warn_of_loss(file: TrackedFile, size: int | None) -> None:
    count = f"{size - file.next} bytes or more" if size and size > file.next else "what came"
    log.warning(
        "%s was deleted, truncated or rewritten, and %s after byte %d were not read. What the file "
        "holds now is read from its start.",
        file.path,
        count,
        file.next,
    )


def _warn_of_half_line(path: str, position: int, most: int) -> None:
    log.warning(
        "%s has no newline within %d bytes from byte %d. Once one comes, the line is skipped if "
        "option `maxLineBytes` still does not allow for it.",
        path,
        most,
        position,
    )
