"""Publish what many tasks wrote into files that grow, exactly once, whatever crashes.

    data.0.csv, data.1.csv …       what readers see: published bytes, never taken back
    _cpu_log/record.json           the last commit
    _cpu_log/lock                  held by the process that commits
    _cpu_log/staged/<query>/       what tasks have written and no commit has published yet

Why no crash can lose or repeat a line:

1. *Stage.* A task attempt writes to files of its own, under names that are never used again, and
   syncs them. Nobody reads them. An attempt that fails, loses or comes late leaves an orphan.
2. *Record.* The commit of a batch writes one record: which staged bytes go at which offset of which
   file, and that this batch of this query is done. The record is renamed into place: before the
   rename nothing has happened, after it everything has, and only step 3 remains.
3. *Apply.* Each staged file is copied to its exact offset. The same bytes at the same place: doing
   it twice, or half and then again, is doing it once. The files are synced, then the staged files
   go. Lengths grow only, so a reader that follows a file never sees a line that is taken back.
4. *Recover.* Every commit starts by applying the record that it finds. A batch that the record
   names as done is not recorded again, so Spark may replay it as often as it likes.

One record is enough, because a batch is applied before the next one is recorded; its size does
not depend on the number of batches. The idea is the redo log of databases, kept to one entry.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

STATE = "_cpu_log"
DATA_FILES = "data.*.csv"
CHUNK = 1 << 20  # bytes read at once to verify a checksum


@dataclass(frozen=True)
class Staged:
    """Bytes that a task attempt has staged: `length` bytes for `partition`, in a file by `name`."""

    name: str
    partition: int
    length: int
    crc32: int


@dataclass(frozen=True)
class Owner:
    """Who publishes into a directory: a run of a query, in a process."""

    query: str
    run: str
    host: str
    pid: int
    started: float  # seconds since the epoch: tells apart two processes that got the same pid

    def __str__(self) -> str:
        return f"query {self.query} (run {self.run}, process {self.pid} on {self.host})"


@dataclass(frozen=True)
class FileEnd:
    """The file that a partition grows in: the `part`-th of its files, `length` bytes so far."""

    part: int
    length: int


@dataclass(frozen=True)
class Piece:
    """One step of applying a record: the staged bytes `source` go to `offset` of file `target`."""

    source: Staged
    target: str
    offset: int


@dataclass(frozen=True)
class Record:
    """The last commit, and what must be known of all commits before it."""

    owner: Owner | None = None
    done: dict[str, int] = field(default_factory=dict)  # the last batch published, by query
    ends: dict[int, FileEnd] = field(default_factory=dict)  # by partition
    pieces: tuple[Piece, ...] = ()

    def to_json(self) -> str:
        body = json.dumps(asdict(self))
        return json.dumps({"crc32": zlib.crc32(body.encode()), "body": body})

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises `ValueError` when `text` is not what `to_json` wrote, or `KeyError`."""
        envelope = json.loads(text)
        if zlib.crc32(envelope["body"].encode()) != envelope["crc32"]:
            raise ValueError("checksum does not match")
        body = json.loads(envelope["body"])
        pieces = [Piece(Staged(**p["source"]), p["target"], p["offset"]) for p in body["pieces"]]
        return cls(
            owner=Owner(**body["owner"]) if body["owner"] else None,
            done=body["done"],
            ends={int(key): FileEnd(**end) for key, end in body["ends"].items()},
            pieces=tuple(pieces),
        )


class Stage:
    """The staged files of one task attempt; made by `PublishedDirectory.stage`."""

    def __init__(self, folder: Path, partition: int, max_file_bytes: int | None) -> None:
        self._folder = folder
        self._partition = partition
        self._limit = max_file_bytes
        self._finished: list[Staged] = []
        self._open_file: _StagedFile | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Append whole lines; nothing is created before the first byte."""
        if self._open_file and self._limit and self._open_file.length + len(data) > self._limit:
            self._finish_file()
        if self._open_file is None:
            self._open_file = _StagedFile(self._folder, self._partition)
        self._open_file.write(data)

    def finish(self) -> list[Staged]:
        """Sync what was written; what to hand to `commit`, empty when nothing was written."""
        self._finish_file()
        return self._finished

    def discard(self) -> None:
        """Remove what was written."""
        self._finish_file()
        for staged in self._finished:
            (self._folder / staged.name).unlink(missing_ok=True)

    def _finish_file(self) -> None:
        if self._open_file is not None:
            self._finished.append(self._open_file.finish())
            self._open_file = None


class _StagedFile:
    def __init__(self, folder: Path, partition: int) -> None:
        self._name = f"{partition}-{uuid.uuid4().hex}"
        self._partition = partition
        self._crc32 = 0
        self.length = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / self._name, "xb", buffering=0)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        self._crc32 = zlib.crc32(view, self._crc32)
        self.length += len(view)
        while view:
            view = view[self._file.write(view) :]

    def finish(self) -> Staged:
        with self._file:
            os.fsync(self._file.fileno())
        return Staged(self._name, self._partition, self.length, self._crc32)


class PublishedDirectory:
    """A directory whose `data.<partition>.csv` files grow by whole, exactly-once batches.

    With `max_file_bytes`, a file that would grow past it is followed by `data.<partition>.1.csv`
    and so on. `is_running` tells whether the owner that a record names may still publish.
    """

    def __init__(
        self,
        path: Path,
        max_file_bytes: int | None = None,
        is_running: Callable[[Owner], bool] = lambda _: False,
    ) -> None:
        self.path = Path(path)
        self._max_file_bytes = max_file_bytes
        self._is_running = is_running
        self._state = self.path / STATE
        self._record_path = self._state / "record.json"

    def stage(self, query: str, partition: int) -> Stage:
        """A place for one task attempt to write the bytes of `partition`."""
        return Stage(self._staged_folder(query), partition, self._max_file_bytes)

    def commit(self, owner: Owner, batch: int | None, staged: Sequence[Staged]) -> bool:
        """Publish `staged` as this `batch` of the owner's query; False when it is already.

        A batch without staged bytes leaves no trace. `batch=None` is a job that Spark never
        repeats: it is not remembered.
        """
        with self._locked():
            record = self._read_record()
            self._check_owner(record, owner)
            self._apply(record)
            fresh = bool(staged) and (batch is None or batch > record.done.get(owner.query, -1))
            if fresh:
                record = self._next_record(record, owner, batch, staged)
                self._check_files(record)
                self._write_record(record)
                self._apply(record)
            self._sweep(owner.query)
            return fresh

    def recover(self) -> None:
        """Finish a publication that a crash has interrupted."""
        with self._locked():
            self._apply(self._read_record())

    def sweep(self, query: str) -> None:
        """Remove what attempts of `query` have staged and no commit will publish."""
        with self._locked():
            self._sweep(query)

    def _next_record(
        self, record: Record, owner: Owner, batch: int | None, staged: Sequence[Staged]
    ) -> Record:
        ends, pieces = dict(record.ends), []
        for source in staged:
            end = self._end_for(ends.get(source.partition, FileEnd(0, 0)), source.length)
            pieces.append(Piece(source, file_name(source.partition, end.part), end.length))
            ends[source.partition] = replace(end, length=end.length + source.length)
        done = record.done if batch is None else {**record.done, owner.query: batch}
        return Record(owner, done, ends, tuple(pieces))

    def _end_for(self, end: FileEnd, more: int) -> FileEnd:
        full = self._max_file_bytes and end.length and end.length + more > self._max_file_bytes
        return FileEnd(end.part + 1, 0) if full else end

    def _check_owner(self, record: Record, owner: Owner) -> None:
        holder = record.owner
        if holder and holder.run != owner.run and self._is_running(holder):
            raise RuntimeError(
                f"{self.path} is being written by {holder}; {owner} cannot write to it as well. "
                f"Stop the other query first, or choose another directory."
            )

    def _check_files(self, record: Record) -> None:
        """Nobody else may have touched the files that `record` is about to grow."""
        first_offset: dict[str, int] = {}
        for piece in record.pieces:
            first_offset.setdefault(piece.target, piece.offset)
            _check_length(self._staged_path(record, piece), piece.source.length)
        for target, expected in first_offset.items():
            path = self.path / target
            found = path.stat().st_size if path.exists() else 0
            if found != expected:
                raise RuntimeError(_foreign_text(path, found, expected))

    def _apply(self, record: Record) -> None:
        left = [piece for piece in record.pieces if self._staged_path(record, piece).exists()]
        for piece in left:
            self._copy(self._staged_path(record, piece), piece)
        _sync_folder(self.path)
        for piece in left:
            self._staged_path(record, piece).unlink()

    def _copy(self, source: Path, piece: Piece) -> None:
        _check_checksum(source, piece.source)
        with open(source, "rb") as reader, _open_to_patch(self.path / piece.target) as writer:
            done = 0
            while done < piece.source.length:
                done += os.copy_file_range(
                    reader.fileno(),
                    writer.fileno(),
                    piece.source.length - done,
                    done,
                    piece.offset + done,
                )
            os.fsync(writer.fileno())

    def _read_record(self) -> Record:
        if not self._record_path.exists():
            return Record()
        try:
            return Record.from_json(self._record_path.read_text())
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(
                f"the commit record {self._record_path} is damaged: {error}"
            ) from error

    def _write_record(self, record: Record) -> None:
        draft = self._record_path.with_suffix(".draft")
        with open(draft, "w") as file:
            file.write(record.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._record_path)
        _sync_folder(self._state)

    def _staged_folder(self, query: str) -> Path:
        return self._state / "staged" / query

    def _staged_path(self, record: Record, piece: Piece) -> Path:
        return self._staged_folder(record.owner.query) / piece.source.name

    def _sweep(self, query: str) -> None:
        shutil.rmtree(self._staged_folder(query), ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; the lock dies with its process."""
        self._state.mkdir(parents=True, exist_ok=True)
        with open(self._state / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def file_name(partition: int, part: int) -> str:
    """`data.<partition>.csv`, and `data.<partition>.<part>.csv` for those that follow it."""
    return f"data.{partition}.{part}.csv" if part else f"data.{partition}.csv"


def _open_to_patch(path: Path):
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb", buffering=0)


def _check_length(path: Path, expected: int) -> None:
    found = path.stat().st_size if path.exists() else 0
    if found != expected:
        raise RuntimeError(f"staged file {path} has {found} bytes, {expected} were reported")


def _check_checksum(path: Path, staged: Staged) -> None:
    crc32 = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            crc32 = zlib.crc32(chunk, crc32)
    if crc32 != staged.crc32:
        raise RuntimeError(f"staged file {path} is damaged: its checksum does not match the record")


def _foreign_text(path: Path, found: int, expected: int) -> str:
    if not expected:
        return (
            f"{path} exists ({found} bytes) but was not written by this sink; "
            "move it away or choose another directory"
        )
    return (
        f"{path} has {found} bytes, the commit record says {expected}: something else has changed "
        "it; move the whole directory away, or restore the file"
    )


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
