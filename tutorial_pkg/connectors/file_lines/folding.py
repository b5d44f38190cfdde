"""What an offset would be too small for: the positions of files at rest, in notes beside the files.

An offset is written with every batch, so it must not hold a line for each file that was ever
read. `FoldedFiles` moves what rests into *notes*, and the offset keeps their names. A note is a
file that is never changed, named after the digest of its content, and on disk before an offset
names it. So an offset means the same for ever: after a kill, to a reader that is built anew, and
in a checkpoint that was restored from a copy. Notes that a killed driver wrote and no offset names
do no harm. Nothing is lost by folding: a file that grows again is found in its note, and its new
position stands in the offset, which goes before the notes.

Each note is at least `_GROWTH` times as large as the one behind it: a few notes, whatever the
number of files, and each file's line is written some times only. Notes that were joined stay, for
the older offsets that name them; all may be deleted together with the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import logging
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tutorial_pkg.connectors.file_lines.offset import FileOffset, Files, TrackedFile
from tutorial_pkg.core.disk import replace_file, sync_directory

FOLD_FILES = 128  # at rest, before a note is worth writing
_GROWTH = 4
_LINE_FILES = 256  # in a line of a note, which is what is read to look up one file

log = logging.getLogger(__name__)


class Note:
    """A note that was read or written once: JSON, of which each line holds some files.

    Memory holds only where the lines begin. A file is looked up by reading the line that has its
    number. A note of an earlier version is one long line.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._starts = [0]
        while end := data.find(b"\n", self._starts[-1]) + 1:
            self._starts.append(end)
        self._firsts = [int(data[at : at + 32].split(b'"', 2)[1]) for at in self._starts]
        self._starts.append(len(data))
        self._last: tuple[int, Files] = -1, {}

    @cached_property
    def count(self) -> int:
        return len(self.files())

    def files(self) -> dict[int, TrackedFile | None]:
        return _files_in(self._read(0, self._starts[-1]))

    def near(self, number: int) -> Files:
        """The files in the line of file `number`, with that if the note has it."""
        line = max(0, bisect_right(self._firsts, number) - 1)
        if line != self._last[0]:
            self._last = line, _files_in(self._read(*self._starts[line : line + 2]))
        return self._last[1]

    def _read(self, start: int, stop: int) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return file.read(stop - start)
        except FileNotFoundError:
            raise _damaged(self._path) from None


def _files_in(lines: bytes) -> dict[int, TrackedFile | None]:
    rows = json.loads(b"{" + lines.strip(b"{},\n") + b"}").items()
    return {int(number): TrackedFile(*row) if row else None for number, row in rows}


def _lines_of(files: Files) -> bytes:
    numbers = sorted(files)
    starts = range(0, len(numbers), _LINE_FILES)
    parts = ({n: files[n] for n in numbers[start : start + _LINE_FILES]} for start in starts)
    lines = (json.dumps(part, separators=(",", ":")).strip("{}") for part in parts)
    return ("{" + ",\n".join(lines) + "}").encode()


class FoldedFiles:
    """The notes in `directory`."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._notes: dict[str, Note] = {}
        self._refused = False

    def all_of(self, offset: FileOffset) -> dict[int, TrackedFile]:
        """Every file of an offset."""
        return self.changed(FileOffset({}), offset)

    def find(self, offset: FileOffset, number: int) -> TrackedFile | None:
        """File `number` as an offset knows it; None if it does not."""
        if number in offset.files:
            return offset.files[number]
        return self._noted(offset.folded, number)

    def changed(self, start: FileOffset, end: FileOffset) -> dict[int, TrackedFile]:
        """The files that may have moved on from `start` to `end`."""
        files: dict[int, TrackedFile | None] = {}
        for name in end.folded:
            files |= self._note(name).files() if name not in start.folded else {}
        files |= end.files
        return {number: file for number, file in files.items() if file}

    def without_forgotten(self, offset: FileOffset) -> FileOffset:
        """`offset` without the Nones that hide nothing."""
        files = offset.files.items()
        needless = {n for n, file in files if not file and not self._noted(offset.folded, n)}
        if not needless:
            return offset
        return replace(offset, files={n: file for n, file in files if n not in needless})

    def folded(self, offset: FileOffset, at_rest: Iterable[int]) -> FileOffset:
        """`offset` with what rests moved into a note, if that is enough to be worth it."""
        resting = {number: offset.files[number] for number in at_rest}
        if len(resting) < FOLD_FILES or self._refused:
            return offset
        self._notes = {name: self._note(name) for name in offset.folded}  # no older ones
        try:
            names = self._added(offset.folded, resting)
        except OSError as error:
            self._refuse(error)
            return offset
        left = {number: file for number, file in offset.files.items() if number not in resting}
        return replace(offset, files=left, folded=names)

    def _noted(self, names: tuple[str, ...], number: int) -> TrackedFile | None:
        near = (self._note(name).near(number) for name in reversed(names))
        return next((files[number] for files in near if number in files), None)

    def _added(self, names: tuple[str, ...], files: Files) -> tuple[str, ...]:
        """The names with `files` behind them, joined with those that are not much larger."""
        before = list(names)
        while before and self._note(before[-1]).count < _GROWTH * len(files):
            files = {**self._note(before.pop()).files(), **files}
        if not before:  # nothing older is left that a None would have to hide
            files = {number: file for number, file in files.items() if file}
        return (*before, self._write(files)) if files else ()

    def _write(self, files: Files) -> str:
        data = _lines_of(files)
        name = _digest(data)
        self._directory.mkdir(exist_ok=True)
        replace_file(self._path(name), data, mode=0o666)  # who reads the files may read it, too
        sync_directory(self._directory.parent)
        self._notes[name] = Note(self._path(name), data)
        return name

    def _note(self, name: str) -> Note:
        if name not in self._notes:
            self._notes[name] = self._read(name)
        return self._notes[name]

    def _read(self, name: str) -> Note:
        path = self._path(name)
        data = path.read_bytes() if path.exists() else b""
        if _digest(data) != name:
            raise _damaged(path)
        return Note(path, data)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _refuse(self, error: OSError) -> None:
        self._refused = True
        log.warning(
            "%s: no notes of files at rest can be written (%s), so every offset names each file; "
            "let option `notesDirectory` name a directory that can be written.",
            self._directory,
            error.strerror,
        )


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"{path} is missing or damaged, and the checkpoint needs it: it holds how far files at "
        "rest were read; put it back, let option `notesDirectory` name where it is, or start with "
        "a new checkpoint directory"
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
