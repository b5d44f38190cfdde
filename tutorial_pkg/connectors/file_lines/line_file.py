"""LineFile: where lines begin and end in a file, and their bytes in chunks of whole lines."""

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
from typing import IO

CHUNK_BYTES = 1 << 19
_SEARCH_BYTES = 1 << 16
CHECKED_BYTES = 1024
# Compressed files in which the unread rest of a known file is found.
READABLE: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

OnLongLine = Callable[[int, int], object]  # called with the line's position and its bytes


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


CHECK_OF_NOTHING = digest(b"")


class CutOffError(ValueError):
    """A file became shorter, or a different one, while it was read."""


class LineFile:
    """A regular file, open for reading; a context manager.

    Every read names its position, so no read depends on an earlier one. A position that a method
    returns is the byte after a newline, or the given end of the search. A compressed file is
    decompressed into a temporary file first.

    Raises:
        FileNotFoundError: `path` is not a regular file. Opening a FIFO never blocks.
        PermissionError: the file is unreadable.
        CutOffError: the file became shorter while it was read.
    """

    def __init__(self, path: str, max_line_bytes: int) -> None:
        self.path = path
        self._max_line_bytes = max_line_bytes
        self.descriptor, status = _open_regular(path)
        # Of the *opened* file: by now the name may belong to a different one.
        self.id = f"{status.st_dev}:{status.st_ino}"
        if is_readable(path):
            self.descriptor = _decompressed(path, self.descriptor)
        self.size = os.fstat(self.descriptor).st_size

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def close(self) -> None:
        os.close(self.descriptor)

    def check_before(self, position: int) -> str | None:
        """Return a digest of up to 1 KiB before `position`; None if the file is shorter.

        It stays the same while the file is only appended to, and changes when the file is
        truncated, rewritten, or replaced by one that got its name or inode.
        """
        if position == 0:
            return CHECK_OF_NOTHING
        length = min(position, CHECKED_BYTES)
        data = self._read(position - length, length)
        return digest(data) if len(data) == length else None

    def head(self) -> str | None:
        """Return a digest of the first KiB; None if the file is shorter."""
        if self.size < CHECKED_BYTES:
            return None
        data = self._read(0, CHECKED_BYTES)
        return digest(data) if len(data) == CHECKED_BYTES else None

    def holds(self, position: int, check: str, head: str | None) -> bool:
        """Return whether the bytes before `position`, and the first ones, are still the same."""
        return self.check_before(position) == check and (head is None or head == self.head())

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
        for position, chunk in self.chunks(start, stop, on_long_line=lambda *_: None):
            lines = chunk.count(b"\n")
            if count + lines > most:
                rest = chunk.split(b"\n", most - count)[-1]
                return position + len(chunk) - len(rest), most
            count += lines
        return stop, count

    def chunks(
        self, start: int, stop: int, on_long_line: OnLongLine | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the lines in `start`..`stop` in chunks, each with its position.

        Only the last line may lack its newline. A line of more than `max_line_bytes` is skipped
        and reported to `on_long_line`; without that function it is a `ValueError`.
        """
        size = CHUNK_BYTES
        while start < stop:
            data = self._read(start, min(size, stop - start))
            if len(data) < min(size, stop - start):
                raise CutOffError(f"{self.path} was truncated while being read")
            if start == 0 and data.startswith(_UTF_16):
                raise ValueError(_utf_16_text(self.path))
            length = _whole_lines(data, size, start + len(data) == stop)
            is_single = size > CHUNK_BYTES or not length  # one long line, or its beginning
            if is_single and self._is_too_long(data[: length or None]):
                if on_long_line is None:
                    raise ValueError(self._too_long_text(start))
                start, line = self.line_end(start, stop), start
                on_long_line(line, start - line)
                size = CHUNK_BYTES
            elif length:
                yield start, data[:length]
                start, size = start + length, CHUNK_BYTES
            else:
                size = min(2 * size, self._max_line_bytes + 1)

    def _read(self, position: int, length: int) -> bytes:
        return os.pread(self.descriptor, length, position)

    def _is_too_long(self, line: bytes) -> bool:
        return len(line.removesuffix(b"\n")) > self._max_line_bytes

    def _too_long_text(self, position: int) -> str:
        return (
            f"{self.path} has no newline within {self._max_line_bytes} bytes from byte "
            f"{position}; raise option `maxLineBytes` if it does hold lines that long"
        )


def _whole_lines(data: bytes, size: int, at_end: bool) -> int:
    """Return how many bytes of a chunk to take: whole lines, or one line if `size` has grown."""
    if at_end and size <= CHUNK_BYTES:
        return len(data)
    newline = data.find(b"\n") if size > CHUNK_BYTES else data.rfind(b"\n")
    return newline + 1 or (len(data) if at_end else 0)


def text_of(chunk: bytes, position: int) -> bytes:
    """Return whole lines without the byte order mark of a file's start, ended by a newline."""
    if position == 0:
        chunk = chunk.removeprefix(codecs.BOM_UTF8)
    return chunk if not chunk or chunk.endswith(b"\n") else chunk + b"\n"


def _utf_16_text(path: str) -> str:
    return (
        f"{path} is encoded in UTF-16, and lines are read as UTF-8; convert it "
        "(`iconv -f UTF-16 -t UTF-8`), or use a path that leaves it out"
    )


# ---- Opening -----------------------------------------------------------------------------------


def _open_regular(path: str) -> tuple[int, os.stat_result]:
    try:
        descriptor = os.open(path, _FLAGS)
    except PermissionError as error:
        raise PermissionError(
            f"cannot read {path}: {error.strerror}; let the user who runs Spark read it, "
            "or use a path that leaves it out"
        ) from None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    raise FileNotFoundError(f"{path} is not a regular file")


def is_readable(path: str) -> bool:
    """Return whether a file is compressed in a way that can be read here."""
    return os.path.splitext(path)[1] in READABLE  # noqa: PTH122


def first_bytes(path: str) -> bytes:
    """Return up to 1 KiB of what a compressed file holds; nothing if it is damaged or gone."""
    try:
        with open(path, "rb") as packed, _opened(path, packed) as text:
            return text.read(CHECKED_BYTES)
    except (OSError, *_DAMAGED):
        return b""


def _decompressed(path: str, descriptor: int) -> int:
    """Decompress into a temporary file without a name, and return its descriptor."""
    with os.fdopen(descriptor, "rb") as packed, tempfile.TemporaryFile() as text:
        try:
            with _opened(path, packed) as source:
                shutil.copyfileobj(source, text, CHUNK_BYTES)
        except (gzip.BadGzipFile, *_DAMAGED) as error:
            raise FileNotFoundError(f"{path} cannot be decompressed: {error}") from None
        text.flush()
        return os.dup(text.fileno())


def _opened(path: str, packed: IO[bytes]) -> IO[bytes]:
    return READABLE[os.path.splitext(path)[1]](packed)  # noqa: PTH122


_DAMAGED = (EOFError, ValueError, zlib.error, lzma.LZMAError)
