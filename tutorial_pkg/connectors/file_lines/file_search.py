"""Which files a `path` option means: a file, a directory, or a pattern."""

from __future__ import annotations

import glob
import os
import re
import stat
import struct
from collections.abc import Callable
from fnmatch import translate
from pathlib import Path
from typing import NamedTuple

from tutorial_pkg.connectors.file_lines.line_file import file_id
from tutorial_pkg.core.options import OptionValues

_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip")
Name = tuple[str, int, bool]  # with its inode, and whether it is a regular file, not a link
_NUMBERS, _NUMBERS_END = "qqq?", struct.calcsize("qqq?")


class FoundFile(NamedTuple):
    """A regular file that a path means, or one beside those, which does not match.

    `modified` and `changed` are its times in nanoseconds: when its content changed, which may be
    set at will, and when anything did, which the system alone sets.
    """

    path: str
    id: str
    size: int
    modified: int
    changed: int
    matches: bool

    @property
    def rank(self) -> tuple[bool, str]:
        """Which of several names of a file counts: the highest."""
        return self.matches, self.path

    def packed(self) -> bytes:
        """All but the path, in a third of the memory: it is kept of very many files."""
        _, id_, size, modified, changed, matches = self
        return struct.pack(_NUMBERS, size, modified, changed, matches) + id_.encode()


def unpacked(path: str, data: bytes) -> FoundFile:
    return FoundFile(path, packed_id(data), *struct.unpack_from(_NUMBERS, data))


def packed_id(data: bytes) -> str:
    return data[_NUMBERS_END:].decode()


def local_path(text: str) -> str:
    """The absolute path that option `path` means on this machine.

    Raises `ValueError` for another file system, and if there is no directory to look into.
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
    """Where the notes of files at rest are: as said, or in the directory that `path` is about."""
    if options.notesDirectory:
        return str(options.notesDirectory)
    path = Path(options.path)
    place = next(at for at in (path, *path.parents) if at.is_dir())
    return str(place / "_file_lines")


def find_files(path: str) -> list[FoundFile]:
    """The regular files that `path` means, each once, whatever its names.

    Raises `ValueError` if `path` is neither file nor directory, or means compressed files.
    """
    place = Path(path)
    check_place(place)
    matches = name_matcher(place)
    names = ((at, name) for at in directories_of(place) for name, *_ in names_in(at))
    files = filter(None, (found_file(str(at / name), True) for at, name in names if matches(name)))
    return list({file.id: file for file in sorted(files, key=lambda file: file.path)}.values())


def sizes_now(path: str) -> dict[str, int]:
    """The size of each file that `path` means, and of those beside them, by their ids."""
    places = directories_of(Path(path))
    files = (found_file(str(at / name), False) for at in places for name, *_ in names_in(at))
    return {file.id: file.size for file in files if file}


def found_file(path: str, matches: bool) -> FoundFile | None:
    """What is at `path` now, if it is a regular file; a compressed one must not match."""
    try:
        status = os.stat(path)  # noqa: PTH116 -- a Path for each of very many files takes longer
    except OSError:  # deleted since it was listed, or a link that leads nowhere
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return found_with(status, path, file_id(status), matches)


def found_with(status: os.stat_result, path: str, id_: str, matches: bool) -> FoundFile:
    """A regular file with that status; a compressed one must not match."""
    if matches:
        _check_content(path)
    modified, changed = status.st_mtime_ns, status.st_ctime_ns
    return FoundFile(path, id_, status.st_size, modified, changed, matches)


def directories_of(path: Path) -> list[Path]:
    """Where the files that `path` means are: itself, its parent, or what its parent matches."""
    if path.is_dir():
        return [path]
    if path.parent.is_dir():
        return [path.parent]
    below_root = str(path.parent.relative_to(path.anchor))
    return sorted(place for place in Path(path.anchor).glob(below_root) if place.is_dir())


def names_in(directory: Path) -> list[Name]:
    """The names in a directory; none if there is no such directory.

    A file that is renamed meanwhile may be missed, or have both names.
    """
    try:
        with os.scandir(directory) as entries:
            return [
                (entry.name, entry.inode(), entry.is_file(follow_symlinks=False))
                for entry in entries
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []


def name_matcher(path: Path) -> Callable[[str], bool]:
    """Whether `path` means a name in its directory.

    As in Spark, names that start with a dot or an underscore have to be asked for.
    """
    pattern = _name_pattern(path)
    if pattern == "*":  # asked of each of very many names
        return lambda name: name[0] not in "._"
    fits = re.compile(translate(pattern)).match
    return lambda name: bool((name[0] not in "._" or pattern[0] == name[0]) and fits(name))


def _name_pattern(path: Path) -> str:
    if path.is_dir():
        return "*"
    return glob.escape(path.name) if path.exists() else path.name


def check_place(path: Path) -> None:
    """Raises `ValueError` if there is something else than files at `path`."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"option `path`: {path} is neither a file nor a directory")


def _check_content(path: str) -> None:
    if path.endswith(_COMPRESSED):
        raise ValueError(
            f"option `path`: {path} is compressed, and lines are read from plain text; "
            "use a pattern that leaves it out, such as `*.csv`, or Spark's `text` format"
        )
