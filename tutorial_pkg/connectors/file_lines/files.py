"""Which files a `path` option means, and what a look at them shows."""

from __future__ import annotations

import glob
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Callable
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

from tutorial_pkg.core.options import OptionValues

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip")

# Device, inode, bytes, time of the last write, time of the last change of any kind. A plain tuple,
# because a look makes one for each of up to 100,000 files.
Status = tuple[int, int, int, int, int]
_UNKNOWN = (-1, 0, 0)  # the last three of a file that a look need not examine


class Listing(NamedTuple):
    """The files in the directories that a path is about, by their paths."""

    matching: dict[str, Status]
    beside: dict[str, Status]  # names that `path` does not match: rotated files may be among them
    compressed: list[str]  # names that `path` matches, but that hold no text

    def changed_ids(self, earlier: Listing) -> set[str]:
        """Return the ids of all files that are new, changed, renamed or gone."""
        return {
            id_of(status)
            for now, before in zip(self[:2], earlier[:2], strict=True)
            if now != before
            for _, status in now.items() ^ before.items()
        }

    def status(self, path: str) -> Status | None:
        return self.matching.get(path) or self.beside.get(path)


def id_of(status: Status) -> str:
    """Return what stays when a file is renamed: its device and inode."""
    return f"{status[0]}:{status[1]}"


def list_files(path: str, is_followed: Callable[[str], bool] = lambda _: False) -> Listing:
    """List the regular files in the directories that `path` is about.

    Files that do not match are examined only if `is_followed` returns True for their id.

    Raises:
        ValueError: `path` is neither a file nor a directory, or means compressed files only.
    """
    place = Path(path)
    _check_place(place)
    matches = _name_matcher(place)
    listing = Listing({}, {}, [])
    for directory in directories_of(place):
        try:
            _list_directory(str(directory), matches, is_followed, listing)
        except (FileNotFoundError, NotADirectoryError):  # removed or replaced a moment ago
            continue
    return listing


def _list_directory(
    directory: str,
    matches: Callable[[str], bool],
    is_followed: Callable[[str], bool],
    listing: Listing,
) -> None:
    device = os.stat(directory).st_dev  # noqa: PTH116
    folder = directory.rstrip("/")
    with os.scandir(directory) as entries:
        for entry in entries:
            name, is_match = entry.name, False
            path = f"{folder}/{name}"
            if matches(name):
                is_match = not name.endswith(COMPRESSED)
                if not is_match:
                    listing.compressed.append(path)
            inode = entry.inode()
            if not is_match and not is_followed(f"{device}:{inode}"):
                listing.beside[path] = (device, inode, *_UNKNOWN)
                continue
            try:
                status = entry.stat()
            except OSError:  # deleted a moment ago, or a link that leads nowhere
                continue
            if stat.S_ISREG(status.st_mode):
                files = listing.matching if is_match else listing.beside
                files[path] = (
                    status.st_dev,
                    status.st_ino,
                    status.st_size,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                )


def find_files(path: str) -> dict[str, Status]:
    """Return the files that `path` means, each once however many names it has."""
    listing = list_files(path)
    if listing.compressed:
        raise ValueError(
            f"option `path`: {min(listing.compressed)} is compressed, and lines are read from "
            "plain text; use a pattern that leaves it out, such as `*.csv`, or Spark's `text`"
        )
    names = {id_of(status): path for path, status in sorted(listing.matching.items())}
    return {path: listing.matching[path] for path in names.values()}


def sizes_now(path: str) -> dict[str, int]:
    """Return the size of each file in the directories that `path` is about, by its id."""
    listing = list_files(path, is_followed=lambda _: True)
    statuses = (*listing.matching.values(), *listing.beside.values())
    return {id_of(status): status[2] for status in statuses}


def siblings(path: str, names: list[str]) -> list[str]:
    """Return those of the sorted `names` that continue `path`: `app.log.1.gz` for `app.log`."""
    first = bisect_right(names, path)
    last = bisect_right(names, path + chr(0x10FFFF))
    return names[first:last]


# ---- The path


def local_path(text: str) -> str:
    """Return the absolute path that option `path` means on this machine.

    Raises:
        ValueError: it is on another file system, or no directory is there to look into.
    """
    if re.match(r"(?!file:)[A-Za-z][\w+.-]*:/", text):
        raise ValueError(
            f"option `path` must be a local file, directory or glob, got {text!r}; "
            "Spark's own `text` format reads other file systems"
        )
    path = Path(re.sub(r"^file:(//)?(?=/)", "", text)).expanduser().absolute()
    if not directories_of(path):
        raise ValueError(
            f"option `path`: no directory {str(path.parent)!r}; create it, or correct `path`"
        )
    return str(path)


def notes_directory(options: OptionValues) -> str:
    """Return the directory for the positions of resting files."""
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


def _check_place(path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"option `path`: {path} is neither a file nor a directory")
    if path.name.endswith(COMPRESSED) and not path.is_dir():
        raise ValueError(
            f"option `path`: {path} is compressed, and lines are read from plain text; "
            "decompress it, or use Spark's `text` format"
        )
