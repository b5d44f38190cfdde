"""What the tests of file_lines share: readers driven as Spark drives them, and lines."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

from tutorial_pkg.connectors.file_lines.data_source import (
    FileLinesDataSource,
    FileLinesStreamReader,
)

LONG_AGO = 1_600_000_000


class Clock:
    """One that stands still until a test moves it."""

    now = float(LONG_AGO + 1_000_000)

    def __call__(self) -> float:
        return self.now


class Tailing:
    """A query as Spark drives it, offsets through JSON text: every call on a new reader, as if it
    were restarted, or all on one with `restarts=False`."""

    def __init__(self, path: Path, restarts: bool = True, **options: object) -> None:
        given = {name: str(value) for name, value in options.items()}
        self._source = FileLinesDataSource({"path": str(path), **given})
        self._only = None if restarts else self._source.streamReader(schema=None)
        self.offset = self.reader().initialOffset()
        self.last_batch: tuple[dict, dict] | None = None

    def reader(self):
        return self._only or pickle.loads(pickle.dumps(self._source)).streamReader(schema=None)

    def plan(self) -> None:
        """Fix the next batch, as Spark does before it reads it."""
        reader = self.reader()
        end = json.loads(json.dumps(reader.latestOffset(self.offset, reader.getDefaultReadLimit())))
        self.last_batch, self.offset = (self.offset, end), end

    def replay(self) -> list[str]:
        """Read the fixed batch (again)."""
        reader = self.reader()
        return rows(reader, reader.partitions(*self.last_batch))

    def batch(self) -> list[str]:
        self.plan()
        return self.replay()

    def rest(self) -> list[str]:
        """What comes until a batch is empty, sorted."""
        lines: list[str] = []
        while batch := self.batch():
            lines += batch
        return sorted(lines)


def tailed(
    path: Path, *lines: str, pattern: str = "", restarts: bool = True, **options: object
) -> Tailing:
    """A query that has read these lines of a new file, to which others may now come."""
    append(path, *lines)
    tailing = Tailing(path.parent / pattern if pattern else path, restarts, **options)
    assert tailing.batch() == list(lines)
    return tailing


def reader_of(path: Path, **options: str) -> FileLinesStreamReader:
    return FileLinesDataSource({"path": str(path), **options}).streamReader(schema=None)


def rows(reader, partitions: list) -> list[str]:
    batches = (batch for part in partitions for batch in reader.read(reshipped(part)))
    return [line for batch in batches for line in batch.column(0).to_pylist()]


def reshipped(partition):
    return pickle.loads(pickle.dumps(partition))


def read_all(path: object, **options: str) -> list[str]:
    reader = FileLinesDataSource({"path": str(path), **options}).reader(schema=None)
    return rows(reader, reader.partitions())


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def numbers(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last + 1)]


def age(path: Path) -> None:
    """Let a file look as if it had not changed for years."""
    os.utime(path, (LONG_AGO, LONG_AGO))
