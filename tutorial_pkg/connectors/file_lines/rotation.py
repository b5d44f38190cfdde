"""What happens when a file is rotated: where its lines are then, and when they count as lost.

*Renamed*: the same inode under another name. Between listing a directory and opening a file a
name may get another file, so what counts is the inode of the *opened* file; and a listing may
miss a file that is renamed meanwhile, so one counts as gone only when several listings miss it.

*Replaced* by a file with the same bytes (an editor, rsync, a backup): another inode, same name.

*Truncated* (`copytruncate`): the same inode with other bytes, or fewer. What was not read yet is
in the copy beside it. Between copying and truncating, the writer itself loses lines.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tutorial_pkg.connectors.file_lines.file_search import FoundFile, names_in
from tutorial_pkg.connectors.file_lines.line_file import CHECK_OF_NOTHING, LineFile
from tutorial_pkg.connectors.file_lines.offset import TrackedFile
from tutorial_pkg.connectors.file_lines.watch import Watch
from tutorial_pkg.core.places import unseen_text

LISTINGS = 3  # that must miss a file: it is not renamed during each of them

log = logging.getLogger(__name__)


# ---- Planning: where a known file is now --------------------------------------------------------


class NotSettledError(Exception):
    """A file was renamed, cut off or rewritten while it was looked at; the next look will show."""


def candidates(
    tracked: TrackedFile, watch: Watch, is_free: Callable[[str], bool]
) -> Iterator[FoundFile]:
    """Where a file's unread bytes may be, the likeliest first: each must still be looked into.

    Only a file of which something is known can be found again under another inode.
    """
    same = watch.find(tracked.id)
    if same:
        yield same
    if tracked.next or tracked.head:
        replacing = watch.at(tracked.path)
        likely = (replacing, *copies_of(tracked.path, watch.beside()))
        yield from (file for file in likely if file and is_free(file.id))


def copies_of(path: str, beside: list[FoundFile]) -> list[FoundFile]:
    """Files whose names go on from that of `path`, among such in the order of their names."""
    first = bisect_left(beside, path, key=lambda file: file.path)
    copies = []
    for file in beside[first:]:
        if not file.path.startswith(path):
            break
        copies.append(file)
    return copies


def moved_on(
    tracked: TrackedFile, found: FoundFile, end_of_lines: Callable[[LineFile, int], int], most: int
) -> TrackedFile | None:
    """`tracked` at the end of the whole lines of `found`; None if these are another file's.

    Raises `NotSettledError` if that changes meanwhile.
    """
    with open_found(found.path, found.id, most) as file:
        if not file.holds(tracked.next, tracked.check, tracked.head):
            return None
        end = end_of_lines(file, tracked.next)
        if end == tracked.next and tracked.head:
            return tracked._replace(path=found.path, id=found.id)
        moved = tracked_to(end, file)
        if not file.holds(tracked.next, tracked.check, tracked.head):
            raise NotSettledError
    return moved


def tracked_to(end: int, file: LineFile) -> TrackedFile:
    """A file at an end that was just found. Raises `NotSettledError` if it is shorter by now."""
    check = file.check_of_end(end)
    if check is None:
        raise NotSettledError
    return TrackedFile(file.path, file.id, end, check, file.head())


def open_found(path: str, id_: str, most: int) -> LineFile:
    """The file itself, and no other that got its name. Raises `NotSettledError` for another."""
    try:
        file = LineFile(path, most)
    except FileNotFoundError:
        raise NotSettledError from None
    if file.id == id_:
        return file
    file.close()
    raise NotSettledError


def warn_of_loss(file: TrackedFile) -> None:
    log.warning(
        "%s was deleted, truncated or rewritten. Lines that came behind byte %d and are gone "
        "were not read; what the file holds now is read from its start.",
        file.path,
        file.next,
    )


# ---- Reading: where the bytes of a planned batch are now -----------------------------------------


@dataclass(frozen=True)
class Planned:
    """A file as it was when a batch was planned to read it, from byte `begin` to byte `end`.

    `begin_check` and `check` are those of the two positions; with no `check`, whatever is at
    `path` will do.
    """

    path: str
    id: str
    end: int
    check: str | None = None
    head: str | None = None
    begin: int = 0
    begin_check: str = CHECK_OF_NOTHING


def reopen(planned: Planned, most: int) -> tuple[LineFile, int]:
    """The open file that has what was planned, under whatever name, and how far it has it.

    A copy that was made before the last lines came, and before the file was truncated, ends
    sooner: these lines the writer itself has lost. Raises `FileNotFoundError` if nothing is left,
    with the host's name if it does not even see the folder.
    """
    folder = Path(planned.path).parent
    if not folder.is_dir():
        raise FileNotFoundError(unseen_text(str(folder)))
    if planned.check is None:
        return LineFile(planned.path, most), planned.end
    truncated = False
    for path in _names_of(planned):
        if file := _opened(path, most):
            if file.holds(planned.end, planned.check, planned.head):
                return file, planned.end
            truncated |= file.id == planned.id
            file.close()
    if truncated and (copy := _shorter_copy(planned, most)):
        return copy, copy.last_line_end(planned.begin, copy.size)
    raise FileNotFoundError(
        f"{planned.path} is gone or was rewritten, and its bytes {planned.begin} to {planned.end} "
        "belong to a batch that has to be read again; put it back, or set option "
        "`failOnDataLoss` to false to go on without them"
    )


def _names_of(planned: Planned) -> Iterator[str]:
    """Its own name, those of its inode, and those that go on from its own."""
    yield planned.path
    path = Path(planned.path)
    inode = int(planned.id.rpartition(":")[2])
    for _ in range(LISTINGS):
        names = names_in(path.parent)
        yield from (str(path.parent / name) for name, found, _ in names if found == inode)
    yield from _copies(path)


def _copies(path: Path) -> Iterator[str]:
    names = sorted(name for name, *_ in names_in(path.parent) if name.startswith(path.name))
    yield from (str(path.parent / name) for name in names if name != path.name)


def _shorter_copy(planned: Planned, most: int) -> LineFile | None:
    """Of the copies that begin like the file, but end sooner, the longest."""
    best: LineFile | None = None
    if planned.begin == 0 and planned.head is None:
        return None  # nothing that a copy could be known by
    for file in filter(None, (_opened(path, most) for path in _copies(Path(planned.path)))):
        same = file.holds(planned.begin, planned.begin_check, planned.head)
        if same and (best is None or file.size > best.size):
            best, file = file, best
        if file:
            file.close()
    return best


def _opened(path: str, most: int) -> LineFile | None:
    try:
        return LineFile(path, most)
    except FileNotFoundError:
        return None
