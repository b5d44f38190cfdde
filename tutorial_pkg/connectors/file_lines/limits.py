"""How much of what could be read one batch takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, replace

from tutorial_pkg.connectors.file_lines.line_file import (
    CHECK_OF_NOTHING,
    CutOffError,
    LineFile,
)
from tutorial_pkg.connectors.file_lines.offset import TrackedFile
from tutorial_pkg.connectors.file_lines.rotation import NotSettledError, open_found

MOST_SHARERS = 1000  # files in a batch: each is opened to see where its share ends


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
    ahead: Mapping[int, TrackedFile],
    begin_of: Callable[[int], TrackedFile | None],
    limits: Limits,
    most: int,
) -> dict[int, TrackedFile]:
    """`ahead`, cut back to the limits, lines that start within `limits.size` bytes whole.

    Each file may take an equal share; what one with little to read leaves is shared by the others.
    Of very many files the older ones come first.
    """
    files = {number: held_back(file, begin_of(number)) for number, file in ahead.items()}
    unread = {number: ahead[number].next - files[number].next for number in files}
    pending = sorted(number for number in files if unread[number])[:MOST_SHARERS]
    for place, number in enumerate(sorted(pending, key=unread.__getitem__)):
        begin = files[number]
        share = limits.share(len(pending) - place)
        files[number], rows = _share(begin, ahead[number], share, most)
        limits = limits.less(rows, files[number].next - begin.next)
    return files


def held_back(file: TrackedFile, begin: TrackedFile | None) -> TrackedFile:
    """A file as it is, at the position where `begin` has it."""
    if begin is None:
        return replace(file, next=0, check=CHECK_OF_NOTHING)
    return replace(file, next=begin.next, check=begin.check)


def _share(
    begin: TrackedFile, whole: TrackedFile, limits: Limits, most: int
) -> tuple[TrackedFile, int]:
    """Where to end within `limits`, and with how many lines (not counted if they are unlimited)."""
    if 0 in (limits.rows, limits.size):
        return begin, 0
    try:
        with open_found(whole, most) as file:
            end, rows = _cut(file, begin.next, whole.next, limits)
            check = file.check_before(end)
            if check and file.holds(whole.next, whole.check, whole.head):
                return replace(whole, next=end, check=check), rows
    except (NotSettledError, CutOffError):
        pass  # rotated a moment ago: it takes part again when the next look has found it
    return begin, 0


def _cut(file: LineFile, start: int, stop: int, limits: Limits) -> tuple[int, int]:
    if limits.size is not None and limits.size < stop - start:
        stop = file.line_end(start + limits.size - 1, stop)
    return (stop, 0) if limits.rows is None else file.end_of_lines(start, stop, limits.rows)
