"""How far the lines of growing files can be read: offsets, rotation, truncation, limits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

from tutorial_pkg.connectors.file_lines.file_search import FoundFile
from tutorial_pkg.connectors.file_lines.line_file import CHECK_OF_NOTHING, LineFile, open_if_same

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrackedFile:
    """A file that a query has read from.

    `next` is the next unread byte, *behind* the last newline emitted. `check` is the digest of
    the bytes before it (see `LineFile.check_before`): names and inodes alone are used again.
    """

    path: str
    id: str
    next: int = 0
    check: str = CHECK_OF_NOTHING


@dataclass(frozen=True)
class FileOffset:
    """The next unread position of every file, under the number it got when it was first seen.

    A number is never used again, so that a new file under an old name, or with an old inode,
    cannot be taken for its predecessor. Deleted files leave; `seen` counts all there ever were.
    """

    files: Mapping[int, TrackedFile]
    seen: int = 0

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> FileOffset:
        files = {int(number): TrackedFile(**file) for number, file in json["files"].items()}
        return cls(files, json["seen"])

    def to_json(self) -> dict[str, Any]:
        files = {str(number): asdict(file) for number, file in self.files.items()}
        return {"files": files, "seen": self.seen}

    def next_of(self, number: int) -> int:
        """The next unread byte of file `number`: 0 for one that is not known yet."""
        return self.files[number].next if number in self.files else 0


class Tail:
    """One look at the files: which of them are known, and where their last whole line ends.

    `until` caps, if given, the sizes of files by their id, and leaves out new ones.
    """

    def __init__(
        self,
        begin: FileOffset,
        found: list[FoundFile],
        until: Mapping[str, int] | None,
        max_line_bytes: int,
    ) -> None:
        self._begin = begin
        self._unclaimed = {file.id: file for file in found}
        self._by_path = {file.path: file for file in found}
        self._beside = [file for file in found if not file.matches]
        self._until = until
        self._max_line_bytes = max_line_bytes

    def advanced(self) -> FileOffset:
        """`begin` with new files, moved on to all that can be read; itself if nothing is new."""
        followed = {number: self._follow(file) for number, file in self._begin.files.items()}
        known = {number: file for number, file in followed.items() if file}
        new = [file for file in map(self._start, self._unclaimed.values()) if file]
        if not new and not any(map(self._has_grown, known.items())):
            return self._begin
        for number in self._begin.files.keys() - known.keys():
            _warn_of_loss(self._begin.files[number])
        files = {**known, **dict(enumerate(new, self._begin.seen))}
        return FileOffset(files, self._begin.seen + len(new))

    def _has_grown(self, numbered: tuple[int, TrackedFile]) -> bool:
        number, file = numbered
        return file.next > self._begin.next_of(number)

    def _follow(self, tracked: TrackedFile) -> TrackedFile | None:
        for candidate in self._candidates(tracked):
            moved = candidate.id in self._unclaimed and self._moved(tracked, candidate)
            if moved:
                del self._unclaimed[candidate.id]
                return moved
        return None

    def _candidates(self, tracked: TrackedFile) -> Iterator[FoundFile]:
        """Where a known file may be now: renamed, in its place, or in a copy that was made
        before it was truncated, if that copy is not a file to be read of its own."""
        likely = (self._unclaimed.get(tracked.id), self._by_path.get(tracked.path))
        yield from filter(None, likely)
        yield from (file for file in self._beside if file.path.startswith(tracked.path))

    def _start(self, found: FoundFile) -> TrackedFile | None:
        """A new file is tracked before it has a line: it may be renamed before the next look."""
        too_late = self._until is not None and found.id not in self._until
        if too_late or not found.matches:
            return None
        return self._moved(TrackedFile(found.path, found.id), found)

    def _moved(self, tracked: TrackedFile, found: FoundFile) -> TrackedFile | None:
        """`tracked` at the end of the last whole line of `found`; None if that is another."""
        file = open_if_same(found.path, tracked.next, tracked.check, self._max_line_bytes)
        if not file:
            return None
        with file:
            end = file.last_line_end(tracked.next, self._size(found, tracked.next))
            check = file.check_before(end)
        # None: cut off since it was opened; the next look finds it as it is then.
        return TrackedFile(found.path, found.id, end, check) if check else None

    def _size(self, found: FoundFile, least: int) -> int:
        size = found.size if self._until is None else self._until.get(found.id, least)
        return max(least, min(found.size, size))


@dataclass(frozen=True)
class Limits:
    """How much one batch may take; None is no limit."""

    rows: int | None
    size: int | None

    def share(self, sharers: int) -> Limits:
        """An equal part for each, at least 1 while there is something left."""
        return Limits(*(None if left is None else -(-left // sharers) for left in astuple(self)))

    def less(self, rows: int, size: int) -> Limits:
        return Limits(
            None if self.rows is None else max(0, self.rows - rows),
            None if self.size is None else max(0, self.size - size),
        )


def limited(
    begin: FileOffset, available: FileOffset, limits: Limits, max_line_bytes: int
) -> FileOffset:
    """`available`, cut back to the limits, lines that start within `limits.size` bytes whole.

    Each file may take an equal share; what one with little to read leaves is shared by the others.
    """
    files = dict(available.files)
    unread = {number: files[number].next - begin.next_of(number) for number in files}
    pending = sorted((number for number in files if unread[number]), key=unread.__getitem__)
    for place, number in enumerate(pending):
        start, whole = begin.next_of(number), files[number]
        file = open_if_same(whole.path, whole.next, whole.check, max_line_bytes)
        if file:  # else it vanished a moment ago, and the batch will say so
            with file:
                end, rows = _cut(file, start, whole.next, limits.share(len(pending) - place))
                check = file.check_before(end)
            if check is None:  # cut off since it was opened: as above
                continue
            files[number] = replace(whole, next=end, check=check)
            limits = limits.less(rows, end - start)
    return FileOffset(files, available.seen)


def _cut(file: LineFile, start: int, stop: int, limits: Limits) -> tuple[int, int]:
    """Where to end within `limits`, and with how many lines (not counted if they are unlimited)."""
    if limits.size is not None and limits.size < stop - start:
        stop = file.line_end(start + limits.size - 1, stop) if limits.size else start
    return (stop, 0) if limits.rows is None else file.end_of_lines(start, stop, limits.rows)


def _warn_of_loss(file: TrackedFile) -> None:
    log.warning(
        "%s was deleted, truncated or rewritten. Lines that came behind byte %d and are gone "
        "were not read; what the file holds now is read from its start.",
        file.path,
        file.next,
    )
