"""How far a query has read each file: in the checkpoint, and in notes beside the files.

Spark writes an offset with every batch, so once 128 files rest, their positions move into a *note*:
a JSON file that never changes, named by its digest, and on disk before an offset names it. So an
offset means the same forever, also in a checkpoint that was copied or set back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tutorial_pkg.connectors.file_lines.line_file import TrackedFile, digest
from tutorial_pkg.core.disk import replace_file, sync_directory

FOLD_FILES = 128  # that rest, before a note is worth writing
MOST_NOTES = 32  # in an offset; a further one replaces them all

log = logging.getLogger(__name__)

Files = Mapping[int, TrackedFile | None]


@dataclass(frozen=True)
class FileOffset:
    """The next unread position of every file, under the number it got when it was first seen.

    A number is never reused, so a new file with an old name or an old inode is not mistaken for
    its predecessor. `seen` counts all files so far. `folded` names the notes, of which a later one
    takes precedence. `files` comes before all of them; None means that a file is forgotten.
    """

    files: Files
    seen: int = 0
    folded: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> FileOffset:
        files = {int(n): file and TrackedFile(**file) for n, file in json["files"].items()}
        return cls(files, json["seen"], tuple(json.get("folded", ())))

    def to_json(self) -> dict[str, Any]:
        files = {str(number): file and file._asdict() for number, file in self.files.items()}
        return {"files": files, "seen": self.seen, "folded": list(self.folded)}


class Notes:
    """The notes in `directory`; without one, offsets list each file."""

    def __init__(self, directory: str | None) -> None:
        self._directory = Path(directory or "")
        self._can_write = directory is not None
        self._notes: dict[str, Files] = {}

    def all_files(self, offset: FileOffset) -> dict[int, TrackedFile]:
        """Return every file that an offset knows."""
        files: dict[int, TrackedFile | None] = {}
        for name in offset.folded:
            files |= self._read(name)
        files |= offset.files
        return {number: file for number, file in files.items() if file}

    def fold(self, offset: FileOffset, resting: Iterable[int]) -> FileOffset:
        """Return `offset` with the resting files moved into a note, if there are enough."""
        folding: Files = {number: offset.files[number] for number in resting}
        if len(folding) < FOLD_FILES or not self._can_write:
            return offset
        others = {number: file for number, file in offset.files.items() if number not in folding}
        names = offset.folded
        if len(names) == MOST_NOTES:
            names, folding = (), self.all_files(replace(offset, files=folding))
            self._notes = {}
        try:
            name = self._write(folding)
        except OSError as error:
            self._can_write = False
            text = "no note of resting files can be written, so every offset lists each file; set "
            log.warning("%s`notesDirectory`: %s", text, error)
            return offset
        return replace(offset, files=others, folded=(*names, name))

    def _write(self, files: Files) -> str:
        data = json.dumps(files, separators=(",", ":")).encode()
        name = digest(data, 16)
        self._directory.mkdir(parents=True, exist_ok=True)
        # Readable by everyone who may read the files.
        replace_file(self._directory / f"{name}.json", data, mode=0o666)
        sync_directory(self._directory.parent)
        self._notes[name] = files
        return name

    def _read(self, name: str) -> Files:
        if name not in self._notes:
            path = self._directory / f"{name}.json"
            data = path.read_bytes() if path.exists() else b""
            if digest(data, 16) != name:
                raise ValueError(
                    f"{path} is missing or damaged, and the checkpoint needs it: it holds how far "
                    "resting files were read; put it back, let option `notesDirectory` name where "
                    "it is, or start with a new checkpoint directory"
                )
            rows = json.loads(data).items()
            self._notes[name] = {int(n): TrackedFile(*row) if row else None for n, row in rows}
        return self._notes[name]
