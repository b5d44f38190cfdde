"""The record of the last commit: what is done, where files end, and which staged bytes go where.

`record.json` is replaced by a rename, which happens entirely or not at all: it is the one moment
in which a batch becomes part of the log.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.query_owner import Owner
from tutorial_pkg.connectors.cpu_log.state_folder import PRIVATE_FILE, words_for_another_user
from tutorial_pkg.core.disk import replace_file


@dataclass(frozen=True)
class Staged:
    """`length` bytes for `partition`, in the staged file `name`."""

    name: str
    partition: int
    length: int
    crc32: int


@dataclass(frozen=True)
class Piece:
    """One step of applying a record: the bytes of `staged` go to `offset` of the file `target`."""

    staged: Staged
    target: str
    offset: int


@dataclass(frozen=True)
class FileEnd:
    """Where a partition goes on: the `part`-th of its files, which holds `length` bytes."""

    part: int = 0
    length: int = 0


@dataclass(frozen=True)
class Record:
    """The last commit, and what must be known of all before it: batches done, ends of files."""

    owner: Owner | None = None
    done: dict[str, int] = field(default_factory=dict)  # the last batch of each query
    ends: dict[int, FileEnd] = field(default_factory=dict)  # by partition
    pieces: tuple[Piece, ...] = ()
    plans: dict[str, str] = field(default_factory=dict)  # of the last batches, where known

    def with_batch(self, query: str, batch: int, plan: str | None) -> Record:
        """The same, with this batch as the query's last one."""
        plans = {other: known for other, known in self.plans.items() if other != query}
        if plan is not None:
            plans[query] = plan
        return replace(self, done={**self.done, query: batch}, plans=plans)

    def to_json(self) -> str:
        body = json.dumps(asdict(self))
        return json.dumps({"crc32": zlib.crc32(body.encode()), "body": body})

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises `ValueError`, `KeyError` or `TypeError` when `to_json` did not write `text`."""
        envelope = json.loads(text)
        if zlib.crc32(envelope["body"].encode()) != envelope["crc32"]:
            raise ValueError("its checksum does not match")
        body = json.loads(envelope["body"])
        return cls(
            owner=body["owner"] and Owner(**body["owner"]),
            done=body["done"],
            ends={int(partition): FileEnd(**end) for partition, end in body["ends"].items()},
            pieces=tuple(
                Piece(Staged(**piece["staged"]), piece["target"], piece["offset"])
                for piece in body["pieces"]
            ),
            plans=body.get("plans", {}),  # version 0.1.0 did not know them
        )


class RecordFile:
    """`record.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        with words_for_another_user(self.path.parent):
            return self.path.exists()

    def committed_at(self) -> float:
        """Seconds since the epoch; 0 if nothing was ever committed."""
        return self.path.stat().st_mtime if self.exists() else 0.0

    def read(self) -> Record:
        """Raises `RuntimeError` when the record is damaged."""
        if not self.exists():
            return Record()
        try:
            with words_for_another_user(self.path.parent):
                return Record.from_json(self.path.read_text())
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(
                f"the commit record {self.path} is damaged ({error}): move "
                f"{self.path.parent.parent} away and begin a new directory"
            ) from error

    def write(self, record: Record) -> None:
        """The commit point."""
        replace_file(self.path, record.to_json(), PRIVATE_FILE)
