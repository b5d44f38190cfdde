"""How far a query has read: a position for each file, and how that is written in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tutorial_pkg.connectors.file_lines.line_file import CHECK_OF_NOTHING


class TrackedFile(NamedTuple):
    """A file that a query reads, and what it is known by. A tuple, since there are very many.

    `next` is the next unread byte, *behind* the last newline emitted. `check` is the digest of
    up to 1 KiB before it, `head` that of the file's first KiB (None while it has less): names
    and inodes alone are used again.
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


Files = Mapping[int, TrackedFile | None]


@dataclass(frozen=True)
class FileOffset:
    """The next unread position of every file, under the number it got when it was first seen.

    A number is never used again, so that a new file under an old name, or with an old inode,
    cannot be taken for its predecessor. `seen` counts all there ever were. `folded` names the
    notes (see `FoldedFiles`) that hold the files at rest; `files` holds all others, and goes
    before the notes: None there means that a file in them is forgotten.
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
