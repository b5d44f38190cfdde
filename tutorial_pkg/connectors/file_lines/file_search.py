"""Which files a `path` option means: a file, a directory, or a pattern."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

from tutorial_pkg.connectors.file_lines.line_file import file_id

MOST_FILES = 10_000
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".snappy", ".zip")


@dataclass(frozen=True)
class FoundFile:
    """A regular file that a path means, or one beside those, which does not match."""

    path: str
    id: str
    size: int
    matches: bool


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
    if not _directories(path):
        raise ValueError(
            f"option `path`: no directory {str(path.parent)!r}; create it, or correct `path`"
        )
    return str(path)


def find_files(path: str) -> list[FoundFile]:
    """The regular files that `path` means, and their neighbours; each once, whatever its names.

    Raises `ValueError` if `path` is neither file nor directory, and if it means compressed files
    or more than 10000.
    """
    place = Path(path)
    pattern = _name_pattern(place)
    entries = chain.from_iterable(map(_entries, _directories(place)))
    files = filter(None, (_found(entry, _matches(entry.name, pattern)) for entry in entries))
    by_id = {file.id: file for file in sorted(files, key=lambda file: (file.matches, file.path))}
    _check(place, [file for file in by_id.values() if file.matches])
    return list(by_id.values())


def names_of(path: str, id_: str) -> Iterator[str]:
    """Where the file `id_` may be: at `path`, or under another name in its directory."""
    yield path
    for file in filter(None, (_found(entry, False) for entry in _entries(Path(path).parent))):
        if file.id == id_:
            yield file.path


def _directories(path: Path) -> list[Path]:
    if path.is_dir():
        return [path]
    if path.parent.is_dir():
        return [path.parent]
    below_root = str(path.parent.relative_to(path.anchor))
    return sorted(place for place in Path(path.anchor).glob(below_root) if place.is_dir())


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    if not directory.is_dir():
        return []
    with os.scandir(directory) as entries:
        return list(entries)


def _found(entry: os.DirEntry[str], matches: bool) -> FoundFile | None:
    try:
        status = entry.stat()
    except OSError:  # deleted since it was listed, or a link that leads nowhere
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FoundFile(entry.path, file_id(status), status.st_size, matches)


def _name_pattern(path: Path) -> str:
    if path.is_dir():
        return "*"
    return glob.escape(path.name) if path.exists() else path.name


def _matches(name: str, pattern: str) -> bool:
    """As in Spark, names that start with a dot or an underscore have to be asked for."""
    hidden = name[0] in "._" and pattern[0] != name[0]
    return not hidden and fnmatchcase(name, pattern)


def _check(path: Path, files: list[FoundFile]) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"option `path`: {path} is neither a file nor a directory")
    if len(files) > MOST_FILES:
        raise ValueError(
            f"option `path`: {path} means {len(files)} files, and {MOST_FILES} are the most; "
            "narrow the pattern, or move finished files away"
        )
    for file in files:
        if file.path.endswith(_COMPRESSED):
            raise ValueError(
                f"option `path`: {file.path} is compressed, and lines are read from plain text; "
                "use a pattern that leaves it out, such as `*.csv`, or Spark's `text` format"
            )
