"""LineFile: where lines begin and end in a file, and their bytes in chunks of whole lines."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator

CHUNK_BYTES = 1 << 19
_SEARCH_BYTES = 1 << 16
_CHECKED_BYTES = 1024
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


CHECK_OF_NOTHING = _digest(b"")


class CutOffError(ValueError):
    """A file became shorter, or another one, while it was read."""


class LineFile:
    """A regular file, open for reading; a context manager.

    Everything is read at explicit positions, so nothing depends on what was read before. Where a
    position is returned, it is the byte behind a newline, or the given end of the search.

    Raises `FileNotFoundError` if `path` is no regular file (and never waits, as opening a FIFO
    would), `PermissionError` if it is unreadable, from the methods `ValueError` if a line has more
    than `max_line_bytes`, its newline not counted: `CutOffError` if the file gets shorter.
    """

    def __init__(self, path: str, max_line_bytes: int) -> None:
        self.path = path
        self._max_line_bytes = max_line_bytes
        self._descriptor, self.status = _open_regular(path)
        # Of the *opened* file: a name may get another one meanwhile.
        self.id = file_id(self.status)
        self.size = self.status.st_size
        self._searched = 0, b""  # the bytes in which a line's end was last looked for, and where

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def check_before(self, position: int) -> str | None:
        """A digest of up to 1 KiB before `position`; None if the file is shorter.

        It stays what it was as long as the file is only appended to, and changes when the file
        is truncated, rewritten, or another one that got its name or inode.
        """
        if position == 0:
            return CHECK_OF_NOTHING
        length = min(position, _CHECKED_BYTES)
        data = self._read(position - length, length)
        return _digest(data) if len(data) == length else None

    def check_of_end(self, end: int) -> str | None:
        """`check_before` an end that `last_line_end` has just found, of the bytes it found it in.

        That spares a read for each of very many files.
        """
        start, data = self._searched
        length = min(end, _CHECKED_BYTES)
        if start <= end - length and end <= start + len(data):
            return _digest(data[end - length - start : end - start])
        return self.check_before(end)

    def head(self) -> str | None:
        """A digest of the first KiB; None if the file is shorter."""
        if self.size < _CHECKED_BYTES:
            return None
        data = self._read(0, _CHECKED_BYTES)
        return _digest(data) if len(data) == _CHECKED_BYTES else None

    def holds(self, position: int, check: str, head: str | None) -> bool:
        """Whether its bytes before `position`, and its first ones, are those of before."""
        return self.check_before(position) == check and (head is None or head == self.head())

    def line_end(self, position: int, stop: int) -> int:
        """Behind the first newline in `position`..`stop`."""
        for start in range(position, stop, _SEARCH_BYTES):
            newline = self._read(start, min(_SEARCH_BYTES, stop - start)).find(b"\n")
            if newline >= 0:
                return start + newline + 1
            self._limit_line(start - position, position)
        return stop

    def first_line_start(self, position: int, stop: int) -> int:
        """Where the first line begins that begins at or after `position`."""
        return self.line_end(position - 1, stop) if position else 0

    def last_line_end(self, start: int, stop: int) -> int:
        """Behind the last newline in `start`..`stop`; `start` if there is none."""
        low = stop
        while low > start:
            low, high = max(start, low - _SEARCH_BYTES), low
            data = os.pread(self._descriptor, high - low, low)
            self._searched = low, data
            newline = data.rfind(b"\n")
            if newline >= 0:
                return low + newline + 1
        return start

    def end_of_lines(self, start: int, stop: int, most: int) -> tuple[int, int]:
        """Behind the last of at most `most` lines in `start`..`stop`, and how many these are."""
        count = 0
        for chunk in self.chunks(start, stop):
            lines = chunk.count(b"\n")
            if count + lines > most:
                rest = chunk.split(b"\n", most - count)[-1]
                return start + len(chunk) - len(rest), most
            start, count = start + len(chunk), count + lines
        return start, count

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """The lines in `start`..`stop`; only what ends at `stop` may lack its newline."""
        size = CHUNK_BYTES
        while start < stop:
            data = self._read(start, min(size, stop - start))
            if len(data) < min(size, stop - start):
                raise CutOffError(f"{self.path} was truncated while being read")
            length = _whole_lines(data, size, start + len(data) == stop)
            if size > CHUNK_BYTES or not length:  # a single long line, or its beginning
                self._limit_line(len(data[: length or None].removesuffix(b"\n")), start)
            if length:
                yield data[:length]
                start, size = start + length, CHUNK_BYTES
            else:
                size = min(2 * size, self._max_line_bytes + 1)

    def _read(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def _limit_line(self, length: int, position: int) -> None:
        if length > self._max_line_bytes:
            raise ValueError(
                f"{self.path} has no newline within {self._max_line_bytes} bytes from byte "
                f"{position}; raise option `maxLineBytes` if it does hold lines that long"
            )


def _whole_lines(data: bytes, size: int, at_end: bool) -> int:
    """How many bytes of a chunk to take: whole lines; a long one, which `size` grew for, alone."""
    if at_end and size <= CHUNK_BYTES:
        return len(data)
    newline = data.find(b"\n") if size > CHUNK_BYTES else data.rfind(b"\n")
    return newline + 1 or (len(data) if at_end else 0)


def text_of(chunk: bytes, position: int) -> bytes:
    """Whole lines from the chunk at `position`: no byte-order mark at 0, a newline at the end."""
    if position == 0:
        chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
    return chunk if not chunk or chunk.endswith(b"\n") else chunk + b"\n"


def file_id(status: os.stat_result) -> str:
    """What stays when a file is renamed: its device and inode."""
    return f"{status.st_dev}:{status.st_ino}"


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
