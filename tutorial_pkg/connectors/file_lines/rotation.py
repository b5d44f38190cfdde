"""Open a known file wherever its lines are after a rotation.

*Renamed*: the same inode has a different name. *Replaced* by a file that begins with the same bytes
(an editor, rsync, a backup): a different inode has the same name. *Truncated* (`copytruncate`) or
*compressed*: the unread rest is in a file beside it with a longer name.
Whatever the name, a file counts as the same only if it holds the same bytes before the position.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from tutorial_pkg.connectors.file_lines.files import COMPRESSED, list_files
from tutorial_pkg.connectors.file_lines.line_file import (
    CHECKED_BYTES,
    LineFile,
    TrackedFile,
    digest,
)
from tutorial_pkg.core.places import unseen_text

OPENERS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def open_same(path: str, file: TrackedFile, most: int) -> LineFile | None:
    """Open the file at `path` if it holds the bytes before `file`'s position, else return None."""
    unpack = None
    if path.endswith(COMPRESSED):
        opener = OPENERS.get(Path(path).suffix)
        if opener is None:
            return None
        unpack = partial(_unpacked, file, opener)
    try:
        lines = LineFile(path, most, unpack)
    except FileNotFoundError:
        return None
    if lines.holds(file):
        return lines
    lines.close()
    return None


def _unpacked(file: TrackedFile, opener: Callable[[IO[bytes]], IO[bytes]], descriptor: int) -> int:
    """Decompress a file into one without a name, unless it begins differently than `file`.

    Raises `FileNotFoundError` then, and for a damaged one.
    """
    with os.fdopen(descriptor, "rb") as packed, tempfile.TemporaryFile() as text:
        try:
            with opener(packed) as source:
                first = source.read(CHECKED_BYTES)
                # A file without a head is shorter than what is checked.
                if digest(first if file.head else first[: file.next]) != (file.head or file.check):
                    raise EOFError("it begins differently")
                text.write(first)
                shutil.copyfileobj(source, text)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            if getattr(error, "errno", None):  # a full disk, for example
                raise
            raise FileNotFoundError(f"it cannot be decompressed: {error}") from None
        text.flush()
        return os.dup(text.fileno())


def reopen(file: TrackedFile, most: int) -> LineFile | None:
    """Open the file that a batch was planned to read, also if it was rotated; None if it is gone.

    Raises:
        FileNotFoundError: this host does not see the file's directory.
    """
    folder = str(Path(file.path).parent)
    if not Path(folder).is_dir():
        raise FileNotFoundError(unseen_text(folder))
    places = (open_same(path, file, most) for path in _possible_paths(file, folder))
    return next((lines for lines in places if lines), None)


def _possible_paths(file: TrackedFile, folder: str) -> Iterator[str]:
    yield file.path
    inode = int(file.id.rpartition(":")[2])  # the device's number differs between hosts
    listing = list_files(folder)
    yield from (path for path, status in listing.files.items() if status[1] == inode)
    yield from listing.longer_names(file.path)
