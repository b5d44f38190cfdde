"""What Spark has planned for a micro-batch: its note in the checkpoint, written before it runs.

The number alone does not tell a batch that is repeated from one that is planned anew. Spark does
not sync its checkpoint: after a power failure its last notes may be missing, and what has arrived
since then becomes batch 7 once more, while the log has another batch 7 already. So two things are
done:

1. Before a batch is recorded, its note is synced, and the notes that Spark reads beside it. Then
   no power failure can leave a batch in the log whose plan is gone: Spark repeats just this plan.
2. The record keeps a digest of the note. A batch that is repeated has the very same note, byte by
   byte; one that was planned anew has at least another time in it, whatever rows it holds.

The rows themselves would be a weaker witness: a repeated query with `rand()` or `uuid()` has
others.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from tutorial_pkg.core.options import local_directory

SYNC_THREADS = 8


def local_checkpoint(location: str | None, root: str | None, query: str | None) -> Path | None:
    """Where a query's checkpoint is, if it is a folder of this machine.

    `location` is the query's own, else it is below `root`, which is the session's, by the query's
    name. Other file systems keep what they have confirmed.
    """
    text = location or (f"{root}/{query}" if root and query else None)
    try:
        return Path(local_directory(text)) if text else None
    except ValueError:  # of another file system
        return None


def synced_plan(checkpoint: Path | None, batch: int) -> str | None:
    """A digest of what is planned for `batch`, which is on the disk now; None where unknown."""
    note = checkpoint and checkpoint / "offsets" / str(batch)
    if not checkpoint or not note or not note.is_file():
        return None
    with ThreadPoolExecutor(SYNC_THREADS) as pool:  # the file system syncs together what it can
        for _ in pool.map(_sync, _notes(checkpoint, batch)):
            pass
    return hashlib.sha256(note.read_bytes()).hexdigest()


def _notes(checkpoint: Path, batch: int) -> Iterator[Path]:
    """What a restart reads: notes of the last two batches, Hadoop's checksums, their folders."""
    for folder in (checkpoint / "offsets", checkpoint / "commits", *checkpoint.glob("sources/*")):
        for number in (batch - 1, batch):
            yield from (folder / str(number), folder / f".{number}.crc")
        yield folder
    yield from (checkpoint / "metadata", checkpoint / ".metadata.crc", checkpoint)
    yield checkpoint.parent


def _sync(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # not every note is there
        _sync_once(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _sync_once(path: Path, changed: int) -> None:
    """Again only when it has changed: to sync what is on the disk already still takes a while."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
