"""Publish what many tasks wrote into files that grow, exactly once, whatever crashes.

    data.0.csv, data.1.csv …     what readers see: bytes that are never taken back
    _cpu_log/record.json         the last commit
    _cpu_log/staged/             what tasks have written and no commit has published yet
    _cpu_log/lock                held by the process that commits; dies with it

(`staging`, `record`, `applying` and `state_folder` are the files that do the work.)

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

What it asks for: ids of queries that are never used again, batches numbered in order, a plan that
tells a repeated batch from another one with its number (`checkpoint_plan`), and a caller that
commits a batch again until it hears that it is done. A job without batches (`batch=None`) that
fails may have published all the same: only its caller can tell whether to run it again. A reader
sees the bytes of a batch come in pieces, and must wait for a line's newline.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.applying import Applying
from tutorial_pkg.connectors.cpu_log.crash_point import CRASH_AT as CRASH_AT
from tutorial_pkg.connectors.cpu_log.crash_point import crash_point
from tutorial_pkg.connectors.cpu_log.data_files import file_name
from tutorial_pkg.connectors.cpu_log.query_owner import LEASE_SECONDS, Owner, is_job_that_ended
from tutorial_pkg.connectors.cpu_log.record import FileEnd, Piece, Record, RecordFile, Staged
from tutorial_pkg.connectors.cpu_log.staging import Stage
from tutorial_pkg.connectors.cpu_log.state_folder import StateFolder
from tutorial_pkg.core.disk import sync_directory
from tutorial_pkg.core.waiting import wait_for


class PublishedDirectory:
    """A directory whose `data.<partition>.csv` files grow by whole batches, each exactly once.

    With `max_file_bytes`, a file that would grow past it is followed by `data.<partition>.1.csv`
    and so on. Without `fail_on_duplicates`, a batch that was planned anew is published as well.
    """

    def __init__(
        self,
        path: Path | str,
        max_file_bytes: int | None = None,
        fail_on_duplicates: bool = True,
    ) -> None:
        self.path = Path(path)
        self._max_file_bytes = max_file_bytes
        self._fail_on_duplicates = fail_on_duplicates
        self._state = StateFolder(self.path)
        self._record = RecordFile(self._state.path / "record.json")
        self._applying = Applying(self._state.staged, self.path)

    def stage(self, query: str, partition: int) -> Stage:
        """Where one task attempt of `query` (an id without wildcards) writes for `partition`."""
        return Stage(self._state, query, partition, self._max_file_bytes)

    def commit(
        self, owner: Owner, batch: int | None, staged: Sequence[Staged], plan: str | None = None
    ) -> bool:
        """Publish `staged` as this batch of the owner's query; False when there is nothing to do.

        `batch` is None for a job that is never repeated; `plan` says what a repeated batch has in
        common with the first one, if that is known. Raises `RuntimeError` when another owner
        commits, too, when the batch is not the one that was published under its number, when
        somebody else has changed a file, or when the record is damaged; `OSError` when the disk
        refuses: the next commit then goes on from a whole state.
        """
        if not staged and not self._record.exists():
            return False
        self.wait_for_turn(owner)  # without the lock, which the other owner needs to commit
        with self._state.locked():
            record = self._recovered()
            fresh = bool(staged) and not self._is_repeated(record, owner.query, batch, plan)
            if fresh:
                self._publish(self._next(record, owner, batch, staged, plan))
            self._sweep(owner.query)
        crash_point("applied")
        return fresh

    def recover(self) -> None:
        """Finish what a crash has interrupted."""
        if self._record.exists():
            with self._state.locked():
                self._recovered()

    def check_record(self) -> None:
        """Raises `RuntimeError` when the record is damaged: better before a batch than after it."""
        self._record.read()

    def wait_for_turn(self, owner: Owner) -> None:
        """Return when nobody else is writing, which may take a lease of the last owner.

        Raises `RuntimeError` that names the other owner, when that commits meanwhile.
        """
        holder, committed = self._record.read().owner, self._record.committed_at()
        if holder is None or holder.gives_way_to(owner):
            return
        wait_for(
            lambda: self._record.committed_at() != committed or holder.gives_way_to(owner),
            seconds=min(LEASE_SECONDS, committed + LEASE_SECONDS - time.time()),  # clocks differ
        )
        if self._record.committed_at() != committed:
            raise RuntimeError(
                f"{self.path} is being written by {self._record.read().owner}, so {owner} cannot "
                "write to it; stop the other query first, or choose another directory"
            )

    def check_sees(self, staged: Sequence[Staged], host: str) -> None:
        """Raises `RuntimeError` when this machine does not see what a task on `host` has staged."""
        if any(not (self._state.staged / each.name).exists() for each in staged):
            raise RuntimeError(
                f"host {host} does not see {self.path} as this machine, {os.uname().nodename}, "
                "does: its lines are not here; put it on storage that all workers share"
            )

    def sweep(self, query: str) -> None:
        """Remove what attempts of `query` have staged and no record needs."""
        if self._state.staged.exists():
            with self._state.locked():
                self._sweep(query)

    def _publish(self, record: Record) -> None:
        self._applying.check(record)
        crash_point("staged")
        if not self._record.exists():  # the folders may be new, too
            for folder in (*self.path.parents, self.path):
                if os.access(folder, os.R_OK):  # one that is not readable is not ours either
                    sync_directory(folder)
        sync_directory(self._state.staged)
        self._record.write(record)  # the commit point
        crash_point("recorded")
        self._applying.apply(record.pieces)

    def _next(
        self,
        record: Record,
        owner: Owner,
        batch: int | None,
        staged: Sequence[Staged],
        plan: str | None,
    ) -> Record:
        ends, pieces = dict(record.ends), []
        for each in staged:
            end = self._room_for(each.length, ends.get(each.partition, FileEnd()))
            pieces.append(Piece(each, file_name(each.partition, end.part), end.length))
            ends[each.partition] = replace(end, length=end.length + each.length)
        noted = record if batch is None else record.with_batch(owner.query, batch, plan)
        return replace(noted, owner=owner, ends=ends, pieces=tuple(pieces))

    def _room_for(self, length: int, end: FileEnd) -> FileEnd:
        limit = self._max_file_bytes
        full = limit and end.length and end.length + length > limit
        return FileEnd(end.part + 1) if full else end

    def _is_repeated(self, record: Record, query: str, batch: int | None, plan: str | None) -> bool:
        """Whether this batch has been recorded; a job without batches never has."""
        last = record.done.get(query, -1)
        if batch is None or batch > last:
            return False
        known = record.plans.get(query)
        if plan is None or known is None or (batch, plan) == (last, known):
            return True  # where no plan is known, the number decides
        if self._fail_on_duplicates:
            raise RuntimeError(
                f"batch {batch} of query {query} was planned anew, but {self.path} has its batches "
                f"up to {last} already: its checkpoint was set back, and lines may come that are "
                "there. Restore the checkpoint; or set `failOnDuplicates` to false, so that the "
                "query goes on, loses nothing, and may repeat lines of these batches"
            )
        return False

    def _recovered(self) -> Record:
        record = self._record.read()
        if record.pieces:
            sync_directory(self._state.path)  # a crash may lie between rename and sync
        self._applying.finish(record)
        return record

    def _sweep(self, query: str) -> None:
        needed = {piece.staged.name for piece in self._record.read().pieces}
        for orphan in self._state.staged.iterdir():
            over = orphan.name.startswith(f"{query}.") or is_job_that_ended(orphan.name)
            if over and orphan.name not in needed:
                orphan.unlink(missing_ok=True)
