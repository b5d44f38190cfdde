"""The segment log: lines on disk, written once, read by many, found again after a crash.

One writer appends *frames* to the files of one directory, the *segments*. A frame is a header and
a payload of complete lines. A *position* counts the log's bytes from its very first; it never goes
back, and a segment is named after the position of its first byte. So an offset is one number, and
deleting old segments changes no position.

A crash can leave half a frame at the log's end: opening the log for writing cuts it off. Anything
else that does not match its checksum is damage, and an error.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import socket
import struct
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

try:
    from isal.isal_zlib import crc32  # zlib's, more than twenty times as fast; extra `fast`
except ModuleNotFoundError:
    from zlib import crc32

from tutorial_pkg.core.disk import naming, sync_directory
from tutorial_pkg.core.places import unseen_text
from tutorial_pkg.durable_log.lock import FOLDER_MODE

SEGMENT_BYTES = 64 * 1024 * 1024

# Payload bytes, rows, received-at, CRC-32 of the payload; then the CRC-32 of these four.
_HEADER = struct.Struct("<IIqII")
_FIELDS = struct.Struct("<IIqI")
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _HEADER.size

_FILE_MODE = 0o640  # what senders wrote is for the user, and a group that tasks may run under

_SEGMENT_NAME = re.compile(r"[0-9]{20}\.segment")  # no other file there is ours
_WRONG_PAYLOAD = "the payload does not match its CRC-32"

_log = logging.getLogger(__name__)


class LogDamagedError(Exception):
    """The log does not hold what was written to it; the text names segment and position."""


class LogNotVisibleError(Exception):
    """This host sees no log in the folder; the text names both."""


class Frame(NamedTuple):
    """A frame's header; `received_at` is in microseconds since 1970, in UTC."""

    position: int
    payload_bytes: int
    rows: int
    received_at: int
    payload_crc: int

    @property
    def end(self) -> int:
        """The position of the next frame."""
        return self.position + HEADER_BYTES + self.payload_bytes


# Reading. All raise `LogDamagedError`, and `LogNotVisibleError` where no segment is there.


def frames(directory: Path, start: int, end: int) -> Iterator[Frame]:
    """Yield the frames from position `start` to `end`, from their headers alone."""
    return (frame for _, frame in _scan(directory, start, end))


def read_frames(directory: Path, start: int, end: int) -> Iterator[tuple[Frame, memoryview]]:
    """Yield the frames from position `start` to `end` with their payloads, and check the CRC-32."""
    for segment, frame in _scan(directory, start, end):
        if not segment.is_sound(frame):
            raise segment.damaged(frame.position, _WRONG_PAYLOAD)
        yield frame, segment.payload(frame)


def last_frame(directory: Path, start: int, end: int) -> tuple[Frame, memoryview] | None:
    """Return the last frame from position `start` to `end`, with its payload, or None.

    Of all segments only the headers of the newest that has one are looked at.
    """
    bases = [_base(segment) for segment in _segments(directory)]
    for base in reversed([base for base in bases if base < end]):
        last = deque(frames(directory, max(base, start), end), maxlen=1)
        if last:
            return next(read_frames(directory, last[0].position, last[0].end))
    return None


def newest_frames(directory: Path, end: int) -> Iterator[tuple[Frame, memoryview]]:
    """Yield the frames, with payloads, of the newest segment that begins before position `end`."""
    bases = [_base(segment) for segment in _segments(directory)]
    return read_frames(directory, max((base for base in bases if base < end), default=end), end)


def _scan(directory: Path, start: int, end: int) -> Iterator[tuple[_Segment, Frame]]:
    position = start
    while position < end:
        segment = _segment_with(directory, position)
        while position < min(end, segment.end):
            frame = segment.frame_at(position)
            if frame is None:
                raise segment.damaged(position, "the frame goes beyond the segment's end")
            yield segment, frame
            position = frame.end


class _Segment:
    """A segment's bytes, mapped, so that only the bytes in use are read from the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self._data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        self.base = _base(path)
        self.end = self.base + len(self._data)

    def frame_at(self, position: int) -> Frame | None:
        """Return the frame at `position`, or None if the segment ends within it."""
        place = position - self.base
        if self.end - position < HEADER_BYTES:
            return None
        *fields, header_crc = _HEADER.unpack_from(self._data, place)
        if crc32(self._data[place : place + _FIELDS.size]) != header_crc:
            raise self.damaged(position, "no frame's header is here")
        frame = Frame(position, *fields)
        return frame if frame.end <= self.end else None

    def payload(self, frame: Frame) -> memoryview:
        return self._data[frame.position - self.base + HEADER_BYTES : frame.end - self.base]

    def is_sound(self, frame: Frame) -> bool:
        return crc32(self.payload(frame)) == frame.payload_crc

    def is_zero_from(self, position: int) -> bool:
        rest = self._data[position - self.base :]
        return not bytes(rest[:HEADER_BYTES]).strip(b"\0") and not bytes(rest).strip(b"\0")

    def damaged(self, position: int, what: str) -> LogDamagedError:
        return LogDamagedError(
            f"segment {self._path}, position {position} (byte {position - self.base} of the file): "
            f"{what}. The log is damaged here and cannot be read past this point; restore the "
            "segment from a copy, or start a new query with a new log and a new checkpoint"
        )


def _segments(directory: Path) -> list[Path]:
    """Return the segments, oldest first: their names have leading zeros."""
    return sorted(path for path in directory.glob("*") if _SEGMENT_NAME.fullmatch(path.name))


def _base(segment: Path) -> int:
    return int(segment.stem)


def _segment_with(directory: Path, position: int) -> _Segment:
    """Open the segment before measuring it: only that makes a network share look again."""
    segments = _segments(directory)
    if not segments:  # the writer keeps one in any case
        raise LogNotVisibleError(unseen_text(f"the log {directory}"))
    index = bisect_right(segments, position, key=_base) - 1
    found = _Segment(segments[index]) if index >= 0 else None
    if found is None or position >= found.end:
        raise LogDamagedError(_no_segment_text(directory, position))
    return found


def _no_segment_text(directory: Path, position: int) -> str:
    return (
        f"{directory}: no segment holds position {position}. It was deleted or cut; or host "
        f"{socket.gethostname()} has another folder of this name: put the log on storage that all "
        "workers share"
    )


# Writing


class SegmentWriter:
    """The one writer of a log directory; take the `WriterLock` above it first (`lock`).

    One thread appends; any thread may `sync`, `delete_below` and read the positions: `first` is
    the oldest that is still there, `end` where the next frame will be. `repair` says what opening
    had to cut off, or is None. `appended` is set by each frame.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = SEGMENT_BYTES,
        appended: threading.Event | None = None,
    ) -> None:
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._appended = appended or threading.Event()
        self._file_in_use = threading.Lock()
        self._sync_failure: OSError | None = None
        self.repair: str | None = None
        directory.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        self.end = self._synced = self._open_last_segment()
        self.first = _base(_segments(directory)[0])

    @property
    def at_segment_start(self) -> bool:
        """Whether the next frame will be the first one of a segment."""
        return self.end == self._base or self.end - self._base >= self._segment_bytes

    def append(self, payload: bytes | memoryview, rows: int, received_at: int) -> None:
        """Write one frame. After an error nothing of it is in the log.

        Raises `OSError`, for instance when the disk is full.
        """
        fields = _FIELDS.pack(len(payload), rows, received_at, crc32(payload))
        header = fields + _CHECKSUM.pack(crc32(fields))
        if self.end - self._base >= self._segment_bytes:
            self._roll()
        with naming(self.directory):
            written = os.writev(self._file, [header, payload])
        if written < HEADER_BYTES + len(payload):
            os.ftruncate(self._file, self.end - self._base)
            raise OSError(f"{self.directory}: no room for a frame of {len(payload)} bytes")
        self.end += written
        self._appended.set()

    def sync(self) -> int:
        """Put everything appended so far on disk, and return the position up to which it is.

        Raises `OSError`, and from then on always: the system forgets what it could not write.
        """
        with self._file_in_use:
            if self._sync_failure:
                raise self._sync_failure
            end = self.end
            if end != self._synced:
                self._sync_file()
                self._synced = end
        return end

    def _sync_file(self) -> None:
        try:
            with naming(self.directory):
                os.fdatasync(self._file)
        except OSError as failure:
            self._sync_failure = failure
            raise

    def delete_below(self, position: int) -> None:
        """Delete the segments that lie wholly below `position`, never the one being written.

        Nor the one before it, as long as that has nothing on disk: its frames tell what a
        connector needs after a power failure (`last_frame`, `newest_frames`).
        """
        segments = _segments(self.directory)
        for segment, following in pairwise(segments):
            if _base(following) <= position and _base(following) < self._synced:
                segment.unlink()
                self.first = _base(following)

    def close(self) -> None:
        """Sync and close; only after the last `append`."""
        try:
            self.sync()
        finally:
            os.close(self._file)

    def _open_last_segment(self) -> int:
        """Repair and open the newest segment, or start the first; the position of its end."""
        segments = _segments(self.directory)
        if not segments:
            sync_directory(self.directory.parent)
            self._start_segment(0)
            return 0
        self._base = _base(segments[-1])
        self._file = os.open(segments[-1], os.O_WRONLY | os.O_APPEND)
        try:
            with naming(self.directory):
                end = self._cut_torn_tail(segments[-1])
                os.fdatasync(self._file)  # a killed process had no time for it
        except BaseException:
            os.close(self._file)
            raise
        return end

    def _cut_torn_tail(self, segment: Path) -> int:
        size = segment.stat().st_size
        end = _end_of_whole_frames(_Segment(segment)) if size else _base(segment)
        torn = _base(segment) + size - end
        if torn:
            os.ftruncate(self._file, size - torn)
            self.repair = f"segment {segment}: cut off {torn} bytes of an unfinished frame at {end}"
            _log.warning(self.repair)
        return end

    def _roll(self) -> None:
        """Start the next segment when this one is on disk, so that only the newest can be torn."""
        self.sync()
        with self._file_in_use:
            full = self._file
            self._start_segment(self.end)  # an error, as of a full disk, leaves the old one open
            os.close(full)

    def _start_segment(self, base: int) -> None:
        name = self.directory / f"{base:020d}.segment"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._file = os.open(name, flags, _FILE_MODE)
        self._base = base
        sync_directory(self.directory)


def _end_of_whole_frames(segment: _Segment) -> int:
    """Check every frame of the newest segment, and return where the last whole one ends.

    Only the end can be torn: a frame that is cut off, or the last one with a wrong checksum, or
    zeros, which a file system may leave behind after a power failure.
    """
    position = segment.base
    while position < segment.end and not segment.is_zero_from(position):
        frame = segment.frame_at(position)
        if frame is None:
            break
        if not segment.is_sound(frame):
            if frame.end == segment.end:
                break
            raise segment.damaged(position, _WRONG_PAYLOAD)
        position = frame.end
    return position
