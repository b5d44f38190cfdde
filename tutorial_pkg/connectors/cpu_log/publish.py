"""Publish the lines of many tasks in files that grow, exactly once, despite crashes.

    data.0.csv, data.1.csv …     what readers see: bytes that are never taken back
    _cpu_log/record.json         the last commit
    _cpu_log/staged/             lines that tasks have written and no commit has published yet
    _cpu_log/lock                locked by the process that commits

Why no crash can lose or repeat a line:

1. *Stage.* Each task attempt writes to new files and syncs them. No reader looks at them.
2. *Record.* The commit of a batch replaces one small file, the record: which staged bytes belong at
   which offset of which file, and that this batch of this query is done. Before its rename nothing
   has happened, after it everything has, and only step 3 remains.
3. *Apply.* Each staged file is copied to its exact offset, or renamed if it starts a new file. Both
   can be repeated. Once files and folder are synced, the staged files are deleted.
4. *Recover.* Every commit starts by applying the rest of the record that it finds. If the record
   contains its batch, it publishes nothing. So Spark may repeat a batch any number of times.

It is the redo log of databases with one entry: a batch is applied before the next is recorded.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.record import Batch, Piece, Record, Staged, read_record
from tutorial_pkg.core.batch_order import is_repeated
from tutorial_pkg.core.disk import naming, replace_file, sync_directory
from tutorial_pkg.durable_log.lock import FileLock

CRASH_AT = "TUTORIAL_PKG_CRASH_AT"  # environment variable: `<point>@<file to create on arrival>`
LOCK_SECONDS = 30.0  # far longer than another commit takes
ORPHAN_SECONDS = 7 * 24 * 3600  # no task takes that long
COPY_BYTES = 1 << 23

_CHANGED = "another program wrote to it; restore it, or move the whole directory away"
_MISSING = (
    "it was deleted before its commit, or its task ran on a machine that sees another directory: "
    "use storage that all workers share, and run the query again"
)


def crash_point(point: str) -> None:
    """Stop here until killed, if the environment variable `CRASH_AT` names this point."""
    stop_at, _, marker = os.environ.get(CRASH_AT, "").partition("@")
    if stop_at == point:
        Path(marker).touch()
        signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)


class PublishedDirectory:
    """A directory with files that grow by whole batches, each of them exactly once."""

    def __init__(
        self, path: Path | str, max_file_bytes: int | None = None, fail_on_duplicates: bool = True
    ) -> None:
        self.path = Path(path)
        self.max_file_bytes = max_file_bytes
        self._fail_on_duplicates = fail_on_duplicates
        self._state = self.path / "_cpu_log"
        self._staged = self._state / "staged"
        self._record = self._state / "record.json"

    def staged_path(self, name: str) -> Path:
        """Return the path for a new staged file. Only this user may look into its folder."""
        for folder in (self._state, self._staged):
            folder.mkdir(0o700, parents=True, exist_ok=True)
        return self._staged / name

    def commit(self, batch: Batch, staged: Sequence[Staged]) -> bool:
        """Publish the staged lines of a batch, and return False if there was nothing to do.

        Raises `RuntimeError` for a second query, a batch that differs from the published one with
        its number, a changed file or a damaged record. After an `OSError`, such as a full disk, the
        next commit continues.
        """
        if not staged and not self._record.exists():
            return False
        with self._locked():
            record = self._recover()
            is_new = bool(staged) and not self._is_published(record, batch)
            if is_new:
                if rival := record.rival_of(batch):
                    raise RuntimeError(
                        f"query {rival} writes to {self.path}, too, and was there before query "
                        f"{batch.query}; stop one of them, or choose another directory"
                    )
                self._publish(record.following(batch, staged, self.max_file_bytes))
            self._sweep(batch.query)
        crash_point("applied")
        return is_new

    def sweep(self, query: str) -> None:
        """Delete staged files that the record does not need: those of `query`, and very old ones.

        Batch jobs that were killed leave some.
        """
        if self._staged.exists():
            with self._locked():
                self._sweep(query)

    def _sweep(self, query: str) -> None:
        needed = {piece.staged.name for piece in read_record(self._record).pieces}
        for orphan in self._staged.glob("*"):  # none without the folder
            with suppress(FileNotFoundError):  # a task of another query has just deleted it
                is_old = time.time() - orphan.stat().st_mtime > ORPHAN_SECONDS
                if (is_old or orphan.name.startswith(f"{query}.")) and orphan.name not in needed:
                    orphan.unlink()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other commits out. Raise `RuntimeError` that names a process that blocks this."""
        remedy = "another commit: end that process, then start the query again"
        lock = FileLock(self._state / "lock", LOCK_SECONDS, remedy, 0o600)
        try:
            yield
        finally:
            lock.release()

    # ---- Recording

    def _is_published(self, record: Record, batch: Batch) -> bool:
        """Return whether the batch is published. Raise `RuntimeError` if only its number is."""
        if batch.number is None:
            return False
        plan = record.plans.get(batch.query)
        same = plan is None or batch.plan is None or plan == batch.plan
        last = record.done.get(batch.query)
        try:
            return is_repeated(f"directory {self.path}", batch.number, last, same)
        except ValueError as error:
            if not self._fail_on_duplicates:
                return False
            raise RuntimeError(
                f"{error}. To lose no line and perhaps duplicate some, set `failOnDuplicates` to "
                "false"
            ) from None

    def _publish(self, record: Record) -> None:
        for piece in record.pieces:
            _check_length(self._source(piece), piece.staged.length, _MISSING)
        for target, offset in {x.target: x.offset for x in reversed(record.pieces)}.items():
            _check_length(self.path / target, offset, _CHANGED)
        crash_point("staged")
        if not self._record.exists():  # the folders may be new as well
            for folder in (*self.path.parents, self.path):
                if os.access(folder, os.R_OK):
                    sync_directory(folder)
        sync_directory(self._staged)
        replace_file(self._record, record.to_json(), 0o600)  # the commit point
        crash_point("recorded")
        self._apply(record.pieces)

    # ---- Applying

    def _recover(self) -> Record:
        """Apply the staged files of the record that are still there, and return the record."""
        record = read_record(self._record)
        pieces = [piece for piece in record.pieces if self._source(piece).exists()]
        for piece in pieces:  # the machine may have crashed, not only Spark
            _check_checksum(self._source(piece), piece.staged.crc32)
        sync_directory(self._state)  # the crash may have come between rename and sync
        self._apply(pieces)
        for target, end in {x.target: x.offset + x.staged.length for x in record.pieces}.items():
            _check_length(self.path / target, end, _CHANGED)
        return record

    def _apply(self, pieces: Sequence[Piece]) -> None:
        """Copy everything first, so that the disk works on all files until they are synced."""
        # In the order of their offsets: a reader must never see a hole.
        for piece in sorted(pieces, key=lambda piece: (piece.target, piece.offset)):
            source, target = self._source(piece), self.path / piece.target
            with naming(target):
                if piece.offset == 0 and not target.exists():
                    source.rename(target)  # synced by its task, and complete
                else:
                    _copy(source, target, piece.offset)
            crash_point("half_applied")
        for name in {piece.target for piece in pieces}:
            with naming(self.path / name), (self.path / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_directory(self.path)  # also for files that were renamed before a crash
        for piece in pieces:
            self._source(piece).unlink(missing_ok=True)

    def _source(self, piece: Piece) -> Path:
        return self._staged / piece.staged.name


def _copy(source: Path, target: Path, offset: int) -> None:
    with source.open("rb") as reader, target.open("r+b") as writer:
        writer.seek(offset)
        shutil.copyfileobj(reader, writer, COPY_BYTES)


def _check_length(path: Path, expected: int, remedy: str) -> None:
    length = path.stat().st_size if path.exists() else 0
    if length != expected:
        raise RuntimeError(f"{path} has {length} bytes instead of {expected}: {remedy}")


def _check_checksum(path: Path, expected: int) -> None:
    crc32 = 0
    with path.open("rb") as file:
        while data := file.read(COPY_BYTES):
            crc32 = zlib.crc32(data, crc32)
    if crc32 != expected:
        raise RuntimeError(f"{path} is damaged: its checksum does not match the record")
