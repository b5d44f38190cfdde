"""The commit record: which batches are done, where the files end, and what the last commit adds.

`record.json` is replaced by a rename, which happens entirely or not at all. This rename is the
commit point: it alone makes a batch part of the log.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

DATA_FILES = "data.*.csv"


def file_name(partition: int, part: int = 0) -> str:
    return f"data.{partition}.{part}.csv" if part else f"data.{partition}.csv"


@dataclass(frozen=True)
class Staged:
    """`length` bytes for `partition`, in the staged file `name`."""

    name: str
    partition: int
    length: int
    crc32: int


@dataclass(frozen=True)
class Piece:
    """One step of applying a record: copy the bytes of `staged` to `offset` of file `target`."""

    staged: Staged
    target: str
    offset: int


@dataclass(frozen=True)
class FileEnd:
    """Where a partition continues: in its file number `part`, which has `length` bytes."""

    part: int = 0
    length: int = 0


@dataclass(frozen=True)
class Batch:
    """A batch to commit; a batch job has no `number`.

    `plan` is a digest of what Spark planned for the batch, or None if it is unknown.
    """

    query: str
    run: str
    number: int | None
    plan: str | None = None


@dataclass(frozen=True)
class Record:
    """The state after the last commit.

    `done` has the last batch of each query and `plans` its plan. `runs` has the last run of each
    query, in the order of their first commits; `owner` committed last. `ends` has the file end of
    each partition, and `pieces` what the last commit adds.
    """

    owner: dict[str, Any] | None = None
    done: dict[str, int] = field(default_factory=dict)
    ends: dict[int, FileEnd] = field(default_factory=dict)
    pieces: tuple[Piece, ...] = ()
    plans: dict[str, str | None] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    def rival_of(self, batch: Batch) -> str | None:
        """Return the id of a query that was here first and has committed during this query's run.

        Then both are alive.
        """
        if not self.owner or self.runs.get(batch.query) != batch.run:
            return None
        other, order = str(self.owner["query"]), list(self.runs)
        return other if order.index(other) < order.index(batch.query) else None

    def following(
        self, batch: Batch, staged: Sequence[Staged], max_file_bytes: int | None
    ) -> Record:
        """Return the record that adds the staged lines of a batch."""
        ends, pieces = dict(self.ends), []
        for file in staged:
            end = ends.get(file.partition, FileEnd())
            if max_file_bytes and end.length and end.length + file.length > max_file_bytes:
                end = FileEnd(end.part + 1)
            pieces.append(Piece(file, file_name(file.partition, end.part), end.length))
            ends[file.partition] = FileEnd(end.part, end.length + file.length)
        after = replace(self, ends=ends, pieces=tuple(pieces))
        if batch.number is None:
            return after
        query, runs = batch.query, dict(self.runs)
        if runs.get(query) != batch.run:
            runs.pop(query, None)  # a new run is the youngest
            runs[query] = batch.run
        owner = {"query": query, "run": batch.run, "host": os.uname().nodename}
        done, plans = {**self.done, query: batch.number}, {**self.plans, query: batch.plan}
        return replace(after, owner=owner, done=done, plans=plans, runs=runs)

    def to_json(self) -> str:
        body = json.dumps(asdict(self))
        return json.dumps({"crc32": zlib.crc32(body.encode()), "body": body})

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raise `ValueError`, `KeyError` or `TypeError` if `to_json` did not write `text`."""
        envelope = json.loads(text)
        if zlib.crc32(envelope["body"].encode()) != envelope["crc32"]:
            raise ValueError("its checksum does not match")
        body = json.loads(envelope["body"])
        body["ends"] = {int(partition): FileEnd(**end) for partition, end in body["ends"].items()}
        body["pieces"] = tuple(
            Piece(Staged(**piece["staged"]), piece["target"], piece["offset"])
            for piece in body["pieces"]
        )
        if body["owner"]:  # an earlier version wrote no `runs`
            body.setdefault("runs", {body["owner"]["query"]: body["owner"]["run"]})
        return cls(**body)


def read_record(path: Path) -> Record:
    """Return the record, which is empty if the file does not exist.

    Raises:
        RuntimeError: The record is damaged.
    """
    if not path.exists():
        return Record()
    try:
        return Record.from_json(path.read_text())
    except (ValueError, KeyError, TypeError) as error:
        raise RuntimeError(
            f"the commit record {path} is damaged ({error}): move {path.parent.parent} away and "
            "start with a new directory"
        ) from error
