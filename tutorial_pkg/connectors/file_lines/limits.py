"""How much of what could be read one batch takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tutorial_pkg.connectors.file_lines.line_file import (
    CHECK_OF_NOTHING,
    CutOffError,
    LineFile,
)
from tutorial_pkg.connectors.file_lines.offset import TrackedFile
from tutorial_pkg.connectors.file_lines.rotation import NotSettledError, open_found
from tutorial_pkg.core.read_limit import Limits, Taken, shared

MOST_SHARERS = 1000  # files in a batch: each is opened to see where its share ends


def limited(
    ahead: Mapping[int, TrackedFile],
    begin_of: Callable[[int], TrackedFile | None],
    limits: Limits,
    most: int,
) -> dict[int, TrackedFile]:
    """`ahead`, cut back to the limits, lines that start within `limits.size` bytes whole.

    Of very many files the older ones come first.
    """
    files = {number: held_back(file, begin_of(number)) for number, file in ahead.items()}
    unread = {number: ahead[number].next - files[number].next for number in files}
    pending = sorted(number for number in files if unread[number])[:MOST_SHARERS]
    waiting = {number: unread[number] for number in pending}
    return files | shared(
        waiting, limits, lambda number, share: _share(files[number], ahead[number], share, most)
    )


def held_back(file: TrackedFile, begin: TrackedFile | None) -> TrackedFile:
    """A file as it is, at the position where `begin` has it."""
    if begin is None:
        return file._replace(next=0, check=CHECK_OF_NOTHING)
    return file._replace(next=begin.next, check=begin.check)


def _share(begin: TrackedFile, whole: TrackedFile, limits: Limits, most: int) -> Taken:
    """Where to end within `limits`, and with how many lines (not counted if they are unlimited)."""
    if 0 in (limits.rows, limits.size):
        return Taken(begin)
    try:
        with open_found(whole.path, whole.id, most) as file:
            end, rows = _cut(file, begin.next, whole.next, limits)
            check = file.check_before(end)
            if check and file.holds(whole.next, whole.check, whole.head):
                return Taken(whole._replace(next=end, check=check), rows, end - begin.next)
    except (NotSettledError, CutOffError):
        pass  # rotated a moment ago: it takes part again when the next look has found it
    return Taken(begin)


def _cut(file: LineFile, start: int, stop: int, limits: Limits) -> tuple[int, int]:
    if limits.size is not None and limits.size < stop - start:
        stop = file.line_end(start + limits.size - 1, stop)
    return (stop, 0) if limits.rows is None else file.end_of_lines(start, stop, limits.rows)
