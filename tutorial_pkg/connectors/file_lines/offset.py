"""How far a query has read each file, and how that is written in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tutorial_pkg.connectors.file_lines.line_file import CHECK_OF_NOTHING


class TrackedFile(NamedTuple):
    """A file that a query reads, and how to recognize it.

    `next` is the next unread byte, *after* the last newline emitted. `check` is the digest of up
    to 1 KiB before it, and `head` that of the file's first KiB (None while it has less): names
    and inodes alone get reused. A tuple, because there may be 100,000.
    """

    path: str
    id: str
    next: int = 0
    check: str = CHECK_OF_NOTHING
    head: str | None = None

    @classmethod
    def from_json(cls, json: dict[str, Any] | None) -> TrackedFile | None:
        return None if json is None else cls(**json)

    def to_json(self) -> dict[str, Any]:
        json = {"path": self.path, "id": self.id, "next": self.next, "check": self.check}
        return json if self.head is None else {**json, "head": self.head}

    def at_start(self) -> TrackedFile:
        return self._replace(next=0, check=CHECK_OF_NOTHING)


Files = Mapping[int, TrackedFile | None]


@dataclass(frozen=True)
class FileOffset:
    """The next unread position of every file, under the number it got when it was first seen.

    A number is never reused, so a new file with an old name or an old inode is not mistaken for
    its predecessor. `seen` counts all files so far. `folded` names the notes (see `notes.py`) that
    hold the resting files. `files` holds all others and takes precedence over the notes: None
    means that a file in a note is forgotten.
    """

    files: Files
    seen: int = 0
    folded: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, json: dict[str, Any]) -> FileOffset:
        files = {int(number): TrackedFile.from_json(file) for number, file in json["files"].items()}
        return cls(files, json["seen"], tuple(json.get("folded", ())))

    def to_json(self) -> dict[str, Any]:
        files = {str(number): file and file.to_json() for number, file in self.files.items()}
        json = {"files": files, "seen": self.seen}
        return {**json, "folded": list(self.folded)} if self.folded else json
