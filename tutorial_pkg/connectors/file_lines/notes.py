"""The positions of resting files, in notes beside the files, so that offsets stay small.

Spark writes an offset with every batch, so it must not list every file that was ever read. Once
128 files rest, `Notes` moves their positions into a *note*, and the offset keeps the note's name. A
note is a JSON file that never changes. Its name is the digest of its content, and it is on disk
before an offset names it. So an offset means the same forever: after a kill, in a new reader, and
in a checkpoint that was copied or set back. A note that no offset names does no harm.

To keep their number small, a new note absorbs older ones that are not much larger. The absorbed
files stay on disk for older offsets. You can delete all notes together with the checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tutorial_pkg.connectors.file_lines.offset import FileOffset, Files, TrackedFile
from tutorial_pkg.core.disk import replace_file, sync_directory

FOLD_FILES = 128  # that rest, before a note is worth writing
_GROWTH = 4  # a note stays if it has this many times the files of the new one

log = logging.getLogger(__name__)


class Notes:
    """The notes in `directory`; without one, nothing is folded."""

    def __init__(self, directory: str | None) -> None:
        self._directory = Path(directory or "")
        self._notes: dict[str, Files] = {}  # those that an offset names
        self._cannot_write = directory is None

    def all_files(self, offset: FileOffset) -> dict[int, TrackedFile]:
        """Return every file that an offset knows."""
        return self.changed_files(FileOffset({}), offset)

    def changed_files(self, start: FileOffset, end: FileOffset) -> dict[int, TrackedFile]:
        """Return the files that may have moved on between two offsets, as `end` has them."""
        files: dict[int, TrackedFile | None] = {}
        for name in end.folded:
            files |= self._note(name) if name not in start.folded else {}
        files |= end.files
        return {number: file for number, file in files.items() if file}

    def find(self, offset: FileOffset, number: int) -> TrackedFile | None:
        """Return a file as an offset knows it, or None."""
        if number in offset.files:
            return offset.files[number]
        return self.find_folded(offset, number)

    def find_folded(self, offset: FileOffset, number: int) -> TrackedFile | None:
        """Return a file as an offset's notes know it, or None."""
        notes = map(self._note, reversed(offset.folded))
        return next((note[number] for note in notes if number in note), None)

    def fold(self, offset: FileOffset, resting: Iterable[int]) -> FileOffset:
        """Return `offset` with the resting files moved into a note, if there are enough."""
        files = {number: offset.files[number] for number in resting}
        if len(files) < FOLD_FILES or self._cannot_write:
            return offset
        try:
            names = self._add(offset.folded, files)
        except OSError as error:
            self._give_up(error)
            return offset
        self._notes = {name: self._note(name) for name in {*offset.folded, *names}}
        others = {number: file for number, file in offset.files.items() if number not in files}
        return replace(offset, files=others, folded=names)

    def _add(self, names: tuple[str, ...], files: Files) -> tuple[str, ...]:
        older = list(names)
        while older and len(self._note(older[-1])) < _GROWTH * len(files):
            files = {**self._note(older.pop()), **files}
        if not older:  # no note is left in which None would have to hide a file
            files = {number: file for number, file in files.items() if file}
        return (*older, self._write(files)) if files else ()

    def _write(self, files: Files) -> str:
        lines = (json.dumps({str(n): files[n]}, separators=(",", ":"))[1:-1] for n in sorted(files))
        data = ("{" + ",\n".join(lines) + "}").encode()
        name = _digest(data)
        self._directory.mkdir(exist_ok=True)
        replace_file(self._path(name), data, mode=0o666)  # readable by those who read the files
        sync_directory(self._directory.parent)
        self._notes[name] = files
        return name

    def _note(self, name: str) -> Files:
        if name not in self._notes:
            path = self._path(name)
            data = path.read_bytes() if path.exists() else b""
            if _digest(data) != name:
                raise ValueError(_damaged_text(path))
            rows = json.loads(data).items()
            self._notes[name] = {int(n): TrackedFile(*row) if row else None for n, row in rows}
        return self._notes[name]

    def _path(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _give_up(self, error: OSError) -> None:
        self._cannot_write = True
        log.warning(
            "%s: no notes of resting files can be written (%s), so every offset lists each file. "
            "Point option `notesDirectory` at a directory that can be written.",
            self._directory,
            error.strerror,
        )


def _damaged_text(path: Path) -> str:
    return (
        f"{path} is missing or damaged, and the checkpoint needs it: it holds how far resting "
        "files were read; put it back, let option `notesDirectory` name where it is, or start with "
        "a new checkpoint directory"
    )


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
