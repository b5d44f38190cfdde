"""Where a known file is after it was rotated.

*Renamed*: the same inode has a different name. *Replaced* by a file that begins with the same bytes
(an editor, rsync, a backup): a different inode has the same name. *Truncated* (`copytruncate`) or
*compressed*: the unread rest is in a file beside it with a longer name.
Whatever the name, a file counts as the same only if it holds the same bytes before the position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tutorial_pkg.connectors.file_lines.files import COMPRESSED, siblings
from tutorial_pkg.connectors.file_lines.line_file import (
    LineFile,
    digest,
    first_bytes,
    is_readable,
)
from tutorial_pkg.connectors.file_lines.offset import TrackedFile
from tutorial_pkg.core.places import unseen_text


def open_same(path: str, file: TrackedFile, most: int) -> LineFile | None:
    """Open the file at `path` if it holds the bytes before `file`'s position, else return None."""
    if path.endswith(COMPRESSED) and not _begins_alike(path, file):
        return None
    try:
        lines = LineFile(path, most)
    except FileNotFoundError:
        return None
    if lines.holds(file.next, file.check, file.head):
        return lines
    lines.close()
    return None


def _begins_alike(path: str, file: TrackedFile) -> bool:
    """Return whether a compressed file may be the same, without decompressing all of it."""
    data = first_bytes(path) if is_readable(path) else b""
    return file.head == digest(data) if file.head else file.check == digest(data[: file.next])


def reopen(file: TrackedFile, most: int) -> LineFile | None:
    """Open the file that a batch was planned to read, also if it was renamed; None if it is gone.

    Raises:
        FileNotFoundError: this host does not see the file's directory.
    """
    folder = Path(file.path).parent
    if not folder.is_dir():
        raise FileNotFoundError(unseen_text(str(folder)))
    places = (open_same(path, file, most) for path in _names_of(file, str(folder)))
    return next((lines for lines in places if lines), None)


def _names_of(file: TrackedFile, folder: str) -> Iterator[str]:
    yield file.path
    inode = int(file.id.rpartition(":")[2])
    with os.scandir(folder) as entries:
        inodes = {f"{folder.rstrip('/')}/{entry.name}": entry.inode() for entry in entries}
    yield from (path for path, number in inodes.items() if number == inode)
    yield from siblings(file.path, sorted(inodes))
