"""What the kernel says of changes in directories (inotify): hints where to look, and no more.

Bound by hand, as Linux has it in its C library. A tail must know when the kernel's queue has
overflowed: `watchfiles` (1.3) drops that event, and `watchdog` (7.1) only writes it to its log.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import struct
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_MOST_READS = 16  # at a time, or who writes fast would never let a look end
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x40 | 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES = 0x4000, 0x8000, 0x1000000
_NAMES_CHANGE = _MOVED | _CREATE | _DELETE
_WATCHED = _NAMES_CHANGE | _MODIFY | _ATTRIB | _ONLY_DIRECTORIES

_MOUNTS = Path("/proc/self/mountinfo")
_SHARED = "9p afs beegfs ceph cifs fuse gpfs lustre nfs smb virtiofs"
_LIMITS = {
    errno.ENOSPC: "fs.inotify.max_user_watches is reached",
    errno.EMFILE: "fs.inotify.max_user_instances is reached",
}

log = logging.getLogger(__name__)

Identity = tuple[int, int]  # device and inode: what is at a path may be moved, and replaced


class Hint(NamedTuple):
    """A path at which something changed: perhaps which file has this name, or whether any has."""

    path: str
    is_name: bool


class Hints:
    """Directories that the kernel watches, from `cover` on.

    What it cannot report, the caller must look for: it warns, and covers nothing for `again_after`
    seconds, if a limit of the kernel is reached, events are lost, or a file system has other
    writers than this machine.
    """

    def __init__(self, again_after: float) -> None:
        self._again_after = again_after
        self._refused_at: float | None = None
        self._told: set[str] = set()
        self._kernel: Inotify | None = None
        self._covered: dict[str, tuple[Identity, int]] = {}

    def covers(self, place: str) -> bool:
        return place in self._covered

    def cover(self, place: str, identity: Identity, now: float) -> bool:
        """Whether hints on what is at `place` begin now: what changed before is not told."""
        if self._covered.get(place, (None, 0))[0] == identity:
            return False
        self.drop(place)
        if self._refused_at is not None and abs(now - self._refused_at) < self._again_after:
            return False
        try:
            self._covered[place] = identity, self._watched(place, identity)
        except (FileNotFoundError, NotADirectoryError):  # a moment ago it was there
            return False
        except (OSError, AttributeError) as error:
            self._refuse(_reason(error), now)
        return place in self._covered

    def drop(self, place: str) -> None:
        if place in self._covered and self._kernel:
            _, watch = self._covered.pop(place)
            if all(watch != other for _, other in self._covered.values()):
                self._kernel.remove(watch)

    def read(self, now: float) -> set[Hint]:
        """What changed since the last time."""
        hints: set[Hint] = set()
        events = list(self._kernel.events()) if self._kernel else []
        places: dict[int, list[str]] = {}
        for place, (_, watch) in self._covered.items() if events else ():
            places.setdefault(watch, []).append(place)
        for watch, mask, name in events:
            if mask & _OVERFLOW:
                self._refuse("more changed than fs.inotify.max_queued_events", now)
            for place in places.get(watch, ()):
                if mask & _IGNORED:
                    self._covered.pop(place, None)
                elif name:  # none: the directory itself
                    hints.add(Hint(f"{place.rstrip('/')}/{name}", bool(mask & _NAMES_CHANGE)))
        return hints

    def _watched(self, place: str, identity: Identity) -> int:
        if (kind := file_system(identity[0])).startswith(tuple(_SHARED.split())):
            raise OSError(errno.EOPNOTSUPP, f"{place} is on {kind}, which has other writers")
        self._kernel = self._kernel or Inotify()
        return self._kernel.add(place)

    def _refuse(self, reason: str, now: float) -> None:
        self._kernel, self._covered, self._refused_at = None, {}, now
        if reason not in self._told:
            self._told.add(reason)
            log.warning(
                "The kernel does not tell of all changes (%s), so files are polled: one at rest "
                "that grows again is noticed within two minutes. Nothing is lost.",
                reason,
            )


class Inotify:
    """The three calls of Linux; closed when it is no longer used.

    Raises `OSError` for what the kernel refuses, `AttributeError` if the system is another one.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        weakref.finalize(self, os.close, self._descriptor)

    def add(self, place: str) -> int:
        """The number that events in a directory will have."""
        path = os.fsencode(place)
        return _checked(self._library.inotify_add_watch(self._descriptor, path, _WATCHED))

    def remove(self, watch: int) -> None:
        self._library.inotify_rm_watch(self._descriptor, watch)  # an error: it is gone already

    def events(self) -> Iterator[tuple[int, int, str]]:
        """Number, kind and name of what happened, as far as a queue of the usual length goes."""
        for _ in range(_MOST_READS):
            position = 0
            if not (data := self._read()):
                return
            while position < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, position)
                position += _EVENT.size + length
                yield watch, mask, os.fsdecode(data[position - length : position].rstrip(b"\0"))

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return b""


def file_system(device: int, mounts: Iterable[str] | None = None) -> str:
    """The kind of file system that a device holds, such as `ext4`; empty if that is unknown."""
    if mounts is None:
        mounts = _MOUNTS.read_text().splitlines() if _MOUNTS.exists() else ()
    number = f"{os.major(device)}:{os.minor(device)}"
    kinds = (line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number)
    return next(kinds, "")


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def _reason(error: OSError | AttributeError) -> str:
    if isinstance(error, OSError):
        return _LIMITS.get(error.errno or 0) or str(error.strerror)
    return "this system has no inotify"
