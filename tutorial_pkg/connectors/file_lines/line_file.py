"""One file: how it is recognized wherever a rotation puts it, and where lines begin and end in it.

*Renamed*: the same inode has a different name. *Replaced* by a file that begins with the same bytes
(an editor, rsync, a backup): a different inode has the same name. *Truncated* (`copytruncate`) or
*compressed*: the unread rest is in a file beside it with a longer name.
Whatever the name, a file counts as the same only if it holds the same bytes before the position.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import lzma
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import IO, NamedTuple

from tutorial_pkg.connectors.file_lines.files import COMPRESSED, id_of, list_files, status_of
from tutorial_pkg.core.places import unseen_text

CHUNK_BYTES = 1 << 19
_SEARCH_BYTES = 1 << 16
CHECKED_BYTES = 1024
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

OPENERS: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def digest(data: bytes, size: int = 8) -> str:
    return hashlib.blake2b(data, digest_size=size).hexdigest()


CHECK_OF_NOTHING = digest(b"")


class TrackedFile(NamedTuple):
    """A file that a query reads, and how to recognize it.

    `next` is the next unread byte, *after* the last newline emitted. `check` is the digest of up
    to 1 KiB before it, and `head` that of the file's first KiB (None while it has less): names
    and inodes alone get reused. A tuple, because there may be 100,000.
    """

    path: str
    id: str
    next: int = 0
    check: str = CHECK_OF_NOTHING
    head: str | None = None


class CutOffError(ValueError):
    """A file became shorter, or a different one, while it was read."""


class LineFile(FileIO):
    """A regular file, open for reading.

    Every read names its position, so no read depends on an earlier one. A position that a method
    returns is the byte after a newline, or the given end of the search.
    """

    def __init__(self, path: str, max_line_bytes: int) -> None:
        # A pipe that nobody writes to would block without the flag.
        super().__init__(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
        self.path = path
        self._max_line_bytes = max_line_bytes
        status = os.fstat(self.fileno())
        # Of the *opened* file: by now the name may belong to a different one.
        self.id, self.size = id_of(status_of(status)), status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise FileNotFoundError(f"{path} is not a regular file")

    def tracked(self, position: int) -> TrackedFile:
        """Return what recognizes the file, read up to `position`, while it is only appended to."""
        length = min(position, CHECKED_BYTES)
        check = digest(self._read_all(position - length, length))
        head = self._read(0, CHECKED_BYTES)
        known = digest(head) if len(head) == CHECKED_BYTES else None
        return TrackedFile(self.path, self.id, position, check, known)

    def holds(self, file: TrackedFile) -> bool:
        """Return whether the bytes before the position, and the first ones, are still the same."""
        if not (file.next or file.head):
            return True
        try:
            now = self.tracked(file.next)
        except CutOffError:
            return False
        return now.check == file.check and file.head in (None, now.head)

    def line_end(self, position: int, stop: int) -> int:
        """Return the position after the first newline in `position`..`stop`."""
        for start in range(position, stop, _SEARCH_BYTES):
            newline = self._read(start, min(_SEARCH_BYTES, stop - start)).find(b"\n")
            if newline >= 0:
                return start + newline + 1
        return stop

    def first_line_start(self, position: int, stop: int) -> int:
        """Return where the first line begins that begins at or after `position`."""
        return self.line_end(position - 1, stop) if position else 0

    def last_line_end(self, start: int, stop: int) -> int:
        """Return the position after the last newline in `start`..`stop`, or `start`."""
        low = stop
        while low > start:
            low, high = max(start, low - _SEARCH_BYTES), low
            newline = self._read(low, high - low).rfind(b"\n")
            if newline >= 0:
                return low + newline + 1
        return start

    def end_of_lines(self, start: int, stop: int, most: int) -> tuple[int, int]:
        """Return where the last of at most `most` lines in `start`..`stop` ends, and their number.

        Lines that are too long are passed over and do not count.
        """
        count = 0
        for end, text in self.chunks(start, stop, on_long_line=lambda *_: None):
            lines = text.count(b"\n")
            if count + lines > most:
                return end - len(text.split(b"\n", most - count)[-1]), most
            count += lines
        return stop, count

    def chunks(
        self, start: int, stop: int, on_long_line: Callable[[int, int], object] | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the lines in `start`..`stop` in chunks, each after the position of its end.

        A byte order mark at the file's start is left out, and a newline that the last line lacks is
        added. A line of more than `max_line_bytes` is skipped and reported to
        `on_long_line(bytes, position)`; without that function it is a `ValueError`.
        """
        while start < stop:
            data = self._read_all(start, min(CHUNK_BYTES, stop - start))
            if start == 0 and data.startswith(_UTF_16):
                raise ValueError(
                    f"{self.path} is encoded in UTF-16, and lines are read as UTF-8; convert it "
                    "(`iconv -f UTF-16 -t UTF-8`), or use a path that leaves it out"
                )
            end = start + data.rfind(b"\n") + 1
            if start + len(data) == stop:
                end = stop
            elif end == start:  # one line, longer than a chunk
                end = self.line_end(start + len(data), stop)
                newline = self._read_all(end - 1, 1) == b"\n"
                if end - start - newline > self._max_line_bytes:
                    if on_long_line is None:
                        raise ValueError(
                            f"{self.path} has no newline within {self._max_line_bytes} bytes from "
                            f"byte {start}; raise option `maxLineBytes` if its lines are that long"
                        )
                    on_long_line(end - start, start)
                    start = end
                    continue
                data = self._read_all(start, end - start)
            text = data[: end - start].removeprefix(b"" if start else codecs.BOM_UTF8)
            yield end, text if text.endswith(b"\n") or not text else text + b"\n"
            start = end

    def _read(self, position: int, length: int) -> bytes:
        return os.pread(self.fileno(), length, position)

    def _read_all(self, position: int, length: int) -> bytes:
        data = self._read(position, length)
        if len(data) < length:
            raise CutOffError(f"{self.path} was truncated while being read")
        return data


# ---- After a rotation ----------------------------------------------------------------------------


def open_same(path: str, file: TrackedFile, most: int) -> LineFile | None:
    """Open the file at `path` if it holds the bytes before `file`'s position, else return None."""
    try:
        lines = LineFile(path, most)
    except (FileNotFoundError, IsADirectoryError):
        return None
    is_text = not path.endswith(COMPRESSED) or _unpack(lines, file)
    if is_text and lines.holds(file):
        return lines
    lines.close()
    return None


def _unpack(lines: LineFile, file: TrackedFile) -> bool:
    """Replace an archive by its text; return False if it is damaged or begins unlike `file`."""
    opener = OPENERS.get(Path(lines.path).suffix)
    if opener is None:
        return False
    with tempfile.TemporaryFile() as text:
        try:
            with opener(lines) as source:
                first = source.read(CHECKED_BYTES)
                # A file without a head is shorter than what is checked.
                if digest(first if file.head else first[: file.next]) != (file.head or file.check):
                    return False
                text.write(first)
                shutil.copyfileobj(source, text)
            text.flush()
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            if getattr(error, "errno", None):  # a full disk, for example
                raise
            return False
        os.dup2(text.fileno(), lines.fileno(), inheritable=False)
    lines.size = os.fstat(lines.fileno()).st_size
    return True


def reopen(file: TrackedFile, most: int) -> LineFile | None:
    """Open the file that a batch was planned to read, even if rotated; None if it is gone."""
    folder = str(Path(file.path).parent)
    if not Path(folder).is_dir():
        raise FileNotFoundError(unseen_text(folder))
    if lines := open_same(file.path, file, most):
        return lines
    inode = int(file.id.rpartition(":")[2])  # the device's number differs between hosts
    listing = list_files(folder)
    renamed = [path for path, status in listing.files.items() if status[1] == inode]
    places = (open_same(path, file, most) for path in renamed + listing.longer_names(file.path))
    return next((lines for lines in places if lines), None)
