"""Readers driven as Spark drives them, and lines, for the tests of file_lines."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

from tutorial_pkg.connectors.file_lines.data_source import (
    FileLinesDataSource,
    FileLinesStreamReader,
)


class Tailing:
    """A query as Spark drives it, with offsets that pass through JSON.

    Every call is on a new reader, as after a restart, or all are on one with `restarts=False`.
    """

    def __init__(self, path: Path, restarts: bool = True, **options: object) -> None:
        texts = {name: str(value) for name, value in options.items()}
        self._source = FileLinesDataSource({"path": str(path), **texts})
        self._only = None if restarts else self._source.streamReader(schema=None)
        self.offset = self.reader().initialOffset()
        self.last_batch: tuple[dict, dict] | None = None

    def reader(self) -> FileLinesStreamReader:
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
        """Read until a batch is empty, and return the sorted lines."""
        lines: list[str] = []
        while batch := self.batch():
            lines += batch
        return sorted(lines)


def tailed(
    path: Path, *lines: str, pattern: str = "", restarts: bool = True, **options: object
) -> Tailing:
    """Return a query that has read these lines of a new file."""
    append(path, *lines)
    tailing = Tailing(path.parent / pattern if pattern else path, restarts, **options)
    assert tailing.batch() == list(lines)
    return tailing


def rows(reader, partitions: list) -> list[str]:
    shipped = (pickle.loads(pickle.dumps(part)) for part in partitions)
    batches = (batch for part in shipped for batch in reader.read(part))
    return [line for batch in batches for line in batch.column(0).to_pylist()]


def read_all(path: object, **options: str) -> list[str]:
    reader = FileLinesDataSource({"path": str(path), **options}).reader(schema=None)
    return rows(reader, reader.partitions())


def append(path: Path, *lines: object) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def numbers(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last + 1)]
