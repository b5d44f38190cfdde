"""Which files `path` means, and what a look into their directories shows."""

from __future__ import annotations

import glob
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import translate
from functools import cached_property
from operator import attrgetter
from pathlib import Path

from tutorial_pkg.core.options import OptionValues

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip")

# Device, inode, bytes, time of the last write, time of the last change of any kind. A plain tuple,
# because a look makes one for each of up to 100,000 files.
Status = tuple[int, int, int, int, int]
status_of = attrgetter("st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


def id_of(status: Status) -> str:
    """Return what stays when a file is renamed: its device and inode."""
    return f"{status[0]}:{status[1]}"


@dataclass
class Listing:
    """The regular files in the directories of `path`, and the names among them that it matches."""

    files: dict[str, Status] = field(default_factory=dict)
    matching: set[str] = field(default_factory=set)
    compressed: list[str] = field(default_factory=list)  # matching names that hold no plain text

    @cached_property
    def path_of(self) -> dict[str, str]:
        """The path of each id. Of several names of one file, it is one that matches."""
        paths = sorted(self.files, key=self.matching.__contains__)
        return {id_of(self.files[path]): path for path in paths}

    @cached_property
    def _names(self) -> list[str]:
        return sorted(self.files)

    def add(self, directory: str, matches: Callable[[str], bool]) -> None:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError:  # deleted a moment ago, or a link that leads nowhere
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                self.files[entry.path] = status_of(status)
                if matches(entry.name) and entry.name.endswith(COMPRESSED):
                    self.compressed.append(entry.path)
                elif matches(entry.name):
                    self.matching.add(entry.path)

    def changed_ids(self, earlier: Listing) -> set[str]:
        """Return the ids of all files that are new, changed, renamed or gone."""
        if self.files == earlier.files:
            return set()
        return {id_of(status) for _, status in self.files.items() ^ earlier.files.items()}

    def longer_names(self, path: str) -> list[str]:
        """Return the names that start with `path`: `app.log.1.gz` for `app.log`.

        And `app.log.2.gz` for `app.log.1`: `delaycompress` renames what it packs.
        """
        names = self._names
        longer = names[bisect_right(names, path) : bisect_right(names, path + chr(0x10FFFF))]
        stem, _, number = path.rpartition(".")
        if number.isdecimal():
            packed = f"{stem}.{int(number) + 1:0{len(number)}}"
            longer += [packed + end for end in COMPRESSED if packed + end in self.files]
        return longer


def list_files(path: str) -> Listing:
    """List the directories of `path`. Raises `ValueError` if it cannot mean files of text."""
    place = Path(path)
    if place.exists() and not place.is_file() and not place.is_dir():
        raise ValueError(f"option `path`: {path} is neither a file nor a directory")
    if place.name.endswith(COMPRESSED) and not place.is_dir():
        raise ValueError(f"option `path`: {path} is compressed; unpack it, or use Spark's `text`")
    listing, matches = Listing(), _name_matcher(place)
    for directory in directories_of(place):
        with suppress(FileNotFoundError, NotADirectoryError):  # removed or replaced a moment ago
            listing.add(str(directory), matches)
    return listing


def local_path(path: str) -> str:
    """Return `path`. Raises `ValueError` if it has no directory to look into."""
    if not directories_of(Path(path)):
        parent = str(Path(path).parent)
        raise ValueError(f"option `path`: no directory {parent!r}; create it, or correct `path`")
    return path


def notes_directory(options: OptionValues) -> str:
    if options.notesDirectory:
        return str(options.notesDirectory)
    path = Path(options.path)
    place = next(at for at in (path, *path.parents) if at.is_dir())
    return str(place / "_file_lines")


def directories_of(path: Path) -> list[Path]:
    """Return the directories to look into: `path`, its parent, or what its parent matches."""
    if path.is_dir():
        return [path]
    if path.parent.is_dir():
        return [path.parent]
    below_root = str(path.parent.relative_to(path.anchor))
    return sorted(place for place in Path(path.anchor).glob(below_root) if place.is_dir())


def _name_matcher(path: Path) -> Callable[[str], bool]:
    """Return a function that tells whether `path` means a name in its directory.

    As in Spark, a name that starts with a dot or an underscore has to be asked for.
    """
    if path.is_dir():
        return lambda name: name[0] not in "._"
    pattern = glob.escape(path.name) if path.exists() else path.name
    fits = re.compile(translate(pattern)).match
    return lambda name: bool((name[0] not in "._" or pattern[0] == name[0]) and fits(name))
