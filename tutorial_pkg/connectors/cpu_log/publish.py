"""Publish what many tasks wrote into files that grow, exactly once, whatever crashes.

    data.0.csv, data.1.csv …     what readers see: bytes that are never taken back
    _cpu_log/record.json         the last commit
    _cpu_log/staged/             what tasks have written and no commit has published yet
    _cpu_log/lock                held by the process that commits; dies with it

Why no crash can lose or repeat a line:

1. *Stage.* A task attempt writes to files of its own, under names that are never used again, and
   syncs them. Nobody reads them. An attempt that fails, loses or comes late leaves an orphan.
2. *Record.* The commit of a batch writes one record: which staged bytes go at which offset of which
   file, and that this batch of this query is done. The record is renamed into place: before the
   rename nothing has happened, after it everything has, and only step 3 remains.
3. *Apply.* Each staged file is copied to its exact offset; one that begins a new file is renamed
   to it, whole. The same bytes at the same place: doing it twice, or half and then again, is doing
   it once. When files and folder are synced, the staged files go. So a staged file that a record
   names and that is not there any more has been applied.
4. *Recover.* Every commit starts by applying what is left of the record that it finds. A batch
   that the record names as done is not recorded again, so Spark may replay it as often as it likes.

One record is enough, because a batch is applied before the next one is recorded; so its size does
not grow with the number of batches. The idea is the redo log of databases, kept to one entry.

What it asks for: ids of queries that are never used again, batches numbered in order, and a caller
that commits a batch again until it hears that it is done. A job without batches (`batch=None`) that
fails may have published all the same: only its caller can tell whether to run it again. A reader
sees the bytes of a batch come in pieces, and must wait for a line's newline.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.query_owner import Owner, is_running
from tutorial_pkg.core.disk import READ_BYTES, begin_sync, copy_some, sync_directory

STATE = "_cpu_log"
DATA_FILES = "data.*.csv"
COPY_BYTES = 1 << 23  # at once, before the disk is told of them
APPLY_THREADS = 4
CRASH_AT = "TUTORIAL_PKG_CRASH_AT"  # for fault drills: `<point>@<file to make on arrival>`


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

    def has(self, query: str, batch: int | None) -> bool:
        """Whether this batch has been recorded; a job without batches never has."""
        return batch is not None and batch <= self.done.get(query, -1)

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
        )


class PublishedDirectory:
    """A directory whose `data.<partition>.csv` files grow by whole batches, each exactly once.

    With `max_file_bytes`, a file that would grow past it is followed by `data.<partition>.1.csv`
    and so on. `owner_is_running` tells whether the owner that a record names may still commit.
    The lock alone makes commits of several owners safe; owners are there to stop an accident.
    """

    def __init__(
        self,
        path: Path | str,
        max_file_bytes: int | None = None,
        owner_is_running: Callable[[Owner], bool] = is_running,
    ) -> None:
        self.path = Path(path)
        self._max_file_bytes = max_file_bytes
        self._owner_is_running = owner_is_running
        self._staged = self.path / STATE / "staged"
        self._record_file = self.path / STATE / "record.json"

    def stage(self, query: str, partition: int) -> Stage:
        """Where one task attempt of `query` (an id without wildcards) writes for `partition`."""
        return Stage(self._staged, query, partition, self._max_file_bytes)

    def commit(self, owner: Owner, batch: int | None, staged: Sequence[Staged]) -> bool:
        """Publish `staged` as this batch of the owner's query; False when there is nothing to do.

        `batch` is None for a job that is never repeated. Raises `RuntimeError` when another owner
        is running, when somebody else has changed a file, or when the record is damaged; `OSError`
        when the disk refuses: the next commit then goes on from a whole state.
        """
        if not staged and not self._record_file.exists():
            return False
        with self._locked():
            record = self._recovered()
            self._check_owner(record, owner)
            fresh = bool(staged) and not record.has(owner.query, batch)
            if fresh:
                self._publish(self._next(record, owner, batch, staged))
            self._sweep(owner.query)
        _drill("applied")
        return fresh

    def recover(self) -> None:
        """Finish what a crash has interrupted."""
        if self._record_file.exists():
            with self._locked():
                self._recovered()

    def check_record(self) -> None:
        """Raises `RuntimeError` when the record is damaged: better before a batch than after it."""
        self._read()

    def check_owner(self, owner: Owner) -> None:
        """Raises `RuntimeError` that names the other owner, when one is running."""
        self._check_owner(self._read(), owner)

    def sweep(self, query: str) -> None:
        """Remove what attempts of `query` have staged and no record needs."""
        if self._staged.exists():
            with self._locked():
                self._sweep(query)

    def _publish(self, record: Record) -> None:
        self._check_files(record)
        _drill("staged")
        self._write(record)
        _drill("recorded")
        self._apply(record.pieces)

    def _next(
        self, record: Record, owner: Owner, batch: int | None, staged: Sequence[Staged]
    ) -> Record:
        ends, pieces = dict(record.ends), []
        for each in staged:
            end = self._room_for(each.length, ends.get(each.partition, FileEnd()))
            pieces.append(Piece(each, file_name(each.partition, end.part), end.length))
            ends[each.partition] = replace(end, length=end.length + each.length)
        done = record.done if batch is None else {**record.done, owner.query: batch}
        return Record(owner, done, ends, tuple(pieces))

    def _room_for(self, length: int, end: FileEnd) -> FileEnd:
        limit = self._max_file_bytes
        full = limit and end.length and end.length + length > limit
        return FileEnd(end.part + 1) if full else end

    def _check_owner(self, record: Record, owner: Owner) -> None:
        holder = record.owner
        if holder and holder.run != owner.run and self._owner_is_running(holder):
            raise RuntimeError(
                f"{self.path} is being written by {holder}, so {owner} cannot write to it; "
                "stop the other query first, or choose another directory"
            )

    def _check_files(self, record: Record) -> None:
        """Before recording: the staged bytes are there, and nobody has touched the targets."""
        offsets: dict[str, int] = {}
        for piece in record.pieces:
            _check_length(self._staged / piece.staged.name, piece.staged.length, _STAGED_CHANGED)
            offsets.setdefault(piece.target, piece.offset)
        for target, offset in offsets.items():
            _check_length(self.path / target, offset, _CHANGED if offset else _FOREIGN)

    def _recovered(self) -> Record:
        record = self._read()
        if record.pieces:
            sync_directory(self._record_file.parent)  # a crash may lie between rename and sync
        left = [piece for piece in record.pieces if (self._staged / piece.staged.name).exists()]
        for piece in left:  # a crash of the machine, not only of Spark, may lie behind us
            _check_checksum(self._staged / piece.staged.name, piece.staged)
        self._apply(left)
        for target, end in {x.target: x.offset + x.staged.length for x in record.pieces}.items():
            _check_length(self.path / target, end, _CHANGED)
        return record

    def _apply(self, pieces: Sequence[Piece]) -> None:
        """Several files at once, so that copying one overlaps with syncing another."""
        files = groupby(sorted(pieces, key=_place), key=lambda piece: piece.target)
        with ThreadPoolExecutor(APPLY_THREADS) as pool:
            applied = []
            for number, (target, parts) in enumerate(files):
                if number == 1:
                    _drill("half_applied")
                applied.append(pool.submit(_extend, self._staged, self.path / target, [*parts]))
            for file in applied:
                file.result()  # raises what `_extend` raised
            sync_directory(self.path)  # also what was renamed before a crash
            for _ in pool.map(_remove, [self._staged / piece.staged.name for piece in pieces]):
                pass

    def _read(self) -> Record:
        if not self._record_file.exists():
            return Record()
        try:
            return Record.from_json(self._record_file.read_text())
        except (ValueError, KeyError, TypeError) as error:
            raise RuntimeError(
                f"the commit record {self._record_file} is damaged ({error}): move {self.path} "
                "away and begin a new directory"
            ) from error

    def _write(self, record: Record) -> None:
        if not self._record_file.exists():  # the folders may be new, too
            for folder in (self.path.parent, self.path):
                sync_directory(folder)
        sync_directory(self._staged)
        draft = self._record_file.with_suffix(".draft")
        with draft.open("w") as file:
            file.write(record.to_json())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._record_file)  # the commit point
        sync_directory(self._record_file.parent)

    def _sweep(self, query: str) -> None:
        needed = {piece.staged.name for piece in self._read().pieces}
        for orphan in self._staged.glob(f"{query}.*"):
            if orphan.name not in needed:
                orphan.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._staged.mkdir(parents=True, exist_ok=True)
        with (self.path / STATE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


class Stage:
    """What one task attempt writes: nothing is created before its first byte."""

    def __init__(
        self, folder: Path, query: str, partition: int, max_file_bytes: int | None
    ) -> None:
        self._folder = folder
        self._query = query
        self._partition = partition
        self._limit = max_file_bytes
        self._files: list[_StagedFile] = []

    def write(self, lines: bytes) -> None:
        """Append whole lines."""
        if not self._files or self._is_full(len(lines)):
            self._files.append(_StagedFile(self._folder, f"{self._query}.{uuid.uuid4().hex}"))
        self._files[-1].write(lines)

    def finish(self) -> list[Staged]:
        """Sync what was written; what to hand to `commit`, empty when nothing was written."""
        _drill("staging")
        return [file.finish(self._partition) for file in self._files]

    def discard(self) -> None:
        """Remove what was written."""
        for file in self._files:
            file.discard()

    def _is_full(self, more: int) -> bool:
        return self._limit is not None and self._files[-1].length + more > self._limit


class _StagedFile:
    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / name
        self._file = self._path.open("xb", buffering=0)
        self._crc32 = 0
        self.length = 0

    def write(self, lines: bytes) -> None:
        self._crc32 = zlib.crc32(lines, self._crc32)
        left = memoryview(lines)
        with _named_error(self._path, "while staging lines"):
            while left:
                left = left[self._file.write(left) :]
            begin_sync(self._file.fileno(), self.length, len(lines))
        self.length += len(lines)

    def finish(self, partition: int) -> Staged:
        with self._file, _named_error(self._path, "while staging lines"):
            os.fsync(self._file.fileno())
        return Staged(self._path.name, partition, self.length, self._crc32)

    def discard(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def file_name(partition: int, part: int = 0) -> str:
    """`data.<partition>.csv`, and `data.<partition>.<part>.csv` for those that follow it."""
    return f"data.{partition}.{part}.csv" if part else f"data.{partition}.csv"


_FOREIGN = "it was not written by this sink; move it away, or choose another directory"
_CHANGED = "somebody else has changed it; restore it, or move the whole directory away"
_STAGED_CHANGED = "it was removed or changed before its commit; run the query again"


def _check_length(path: Path, expected: int, otherwise: str) -> None:
    found = path.stat().st_size if path.exists() else 0
    if found != expected:
        raise RuntimeError(f"{path} has {found} bytes instead of {expected}: {otherwise}")


def _check_checksum(path: Path, staged: Staged) -> None:
    crc32 = 0
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            crc32 = zlib.crc32(data, crc32)
    if crc32 != staged.crc32:
        raise RuntimeError(
            f"the staged file {path} is damaged: its checksum does not match the record"
        )


def _place(piece: Piece) -> tuple[str, int]:
    return piece.target, piece.offset


def _extend(staged: Path, target: Path, pieces: Sequence[Piece]) -> None:
    """In the order of their offsets: a reader must never see a hole."""
    with _named_error(target, "while publishing; the next commit finishes it"):
        if not target.exists() and pieces[0].offset == 0:
            first, *pieces = pieces
            (staged / first.staged.name).rename(target)  # synced before; whole for every reader
        if pieces:
            with target.open("r+b", buffering=0) as writer:
                for piece in pieces:
                    with (staged / piece.staged.name).open("rb") as reader:
                        _copy_piece(reader.fileno(), writer.fileno(), piece)
                os.fsync(writer.fileno())


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)  # a file that was renamed is gone already


def _copy_piece(reader: int, writer: int, piece: Piece) -> None:
    done = 0
    while done < piece.staged.length:
        count, target = min(COPY_BYTES, piece.staged.length - done), piece.offset + done
        copied = copy_some(reader, writer, count, done, target)
        if not copied:
            raise OSError(errno.EIO, "the staged file ends too early")
        begin_sync(writer, target, copied)
        done += copied


@contextlib.contextmanager
def _named_error(path: Path, when: str) -> Iterator[None]:
    """The kernel's errors on an open file name no file; these do."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} {when}", str(path)) from error


def _drill(point: str) -> None:
    """Where a fault drill says so: tell that we are here, and go no further until we are killed."""
    wanted, _, marker = os.environ.get(CRASH_AT, "").partition("@")
    if wanted == point:
        Path(marker).touch()
        signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
