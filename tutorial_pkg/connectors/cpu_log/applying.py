"""Carry a record out: the staged bytes go to their exact places in the files that readers see.

Doing it twice, or half and then again, is doing it once.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from tutorial_pkg.connectors.cpu_log.crash_point import crash_point
from tutorial_pkg.connectors.cpu_log.record import Piece, Record
from tutorial_pkg.connectors.cpu_log.staging import named_error
from tutorial_pkg.core.disk import READ_BYTES, begin_sync, copy_some, open_own, sync_directory

COPY_BYTES = 1 << 23  # at once, before the disk is told of them
APPLY_THREADS = 4

_FOREIGN = "it was not written by this sink; move it away, or choose another directory"
_CHANGED = "somebody else has changed it; restore it, or move the whole directory away"
_STAGED_CHANGED = "it was removed or changed before its commit; run the query again"


class Applying:
    """Applies records: from the folder `staged` to the files of `directory`."""

    def __init__(self, staged: Path, directory: Path) -> None:
        self._staged = staged
        self._directory = directory

    def check(self, record: Record) -> None:
        """Before recording: the staged bytes are there, and nobody has touched the targets."""
        offsets: dict[str, int] = {}
        for piece in record.pieces:
            _check_length(self._source(piece), piece.staged.length, _STAGED_CHANGED)
            offsets.setdefault(piece.target, piece.offset)
        for target, offset in offsets.items():
            _check_length(self._directory / target, offset, _CHANGED if offset else _FOREIGN)

    def apply(self, pieces: Sequence[Piece]) -> None:
        """Several files at once, so that copying one overlaps with syncing another."""
        files = groupby(sorted(pieces, key=_place), key=lambda piece: piece.target)
        with ThreadPoolExecutor(APPLY_THREADS) as pool:
            applied = []
            for number, (target, parts) in enumerate(files):
                if number == 1:
                    crash_point("half_applied")
                applied.append(pool.submit(self._extend, self._directory / target, [*parts]))
            for file in applied:
                file.result()  # raises what `_extend` raised
            sync_directory(self._directory)  # also what was renamed before a crash
            for _ in pool.map(_remove, map(self._source, pieces)):
                pass

    def finish(self, record: Record) -> None:
        """Apply what a crash has left of `record`. Raises `RuntimeError` when that cannot be."""
        left = [piece for piece in record.pieces if self._source(piece).exists()]
        for piece in left:  # a crash of the machine, not only of Spark, may lie behind us
            _check_checksum(self._source(piece), piece.staged.crc32)
        self.apply(left)
        for target, end in {x.target: x.offset + x.staged.length for x in record.pieces}.items():
            _check_length(self._directory / target, end, _CHANGED)

    def _source(self, piece: Piece) -> Path:
        return self._staged / piece.staged.name

    def _extend(self, target: Path, pieces: Sequence[Piece]) -> None:
        """In the order of their offsets: a reader must never see a hole."""
        with named_error(target, "while publishing; the next commit finishes it"):
            if not target.exists() and pieces[0].offset == 0:
                first, *pieces = pieces
                self._source(first).rename(target)  # synced before; whole for every reader
            if pieces:
                with os.fdopen(open_own(target, os.O_RDWR), "r+b", buffering=0) as writer:
                    for piece in pieces:
                        with self._source(piece).open("rb") as reader:
                            _copy_piece(reader.fileno(), writer.fileno(), piece)
                    os.fsync(writer.fileno())


def _place(piece: Piece) -> tuple[str, int]:
    return piece.target, piece.offset


def _copy_piece(reader: int, writer: int, piece: Piece) -> None:
    done = 0
    while done < piece.staged.length:
        count, target = min(COPY_BYTES, piece.staged.length - done), piece.offset + done
        copied = copy_some(reader, writer, count, done, target)
        if not copied:
            raise OSError(errno.EIO, "the staged file ends too early")
        begin_sync(writer, target, copied)
        done += copied


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)  # a file that was renamed is gone already


def _check_length(path: Path, expected: int, otherwise: str) -> None:
    if path.is_symlink():
        raise RuntimeError(f"{path} is a symbolic link: {_FOREIGN}")
    found = path.stat().st_size if path.exists() else 0
    if found != expected:
        raise RuntimeError(f"{path} has {found} bytes instead of {expected}: {otherwise}")


def _check_checksum(path: Path, expected: int) -> None:
    crc32 = 0
    with path.open("rb") as file:
        while data := file.read(READ_BYTES):
            crc32 = zlib.crc32(data, crc32)
    if crc32 != expected:
        raise RuntimeError(
            f"the staged file {path} is damaged: its checksum does not match the record"
        )
