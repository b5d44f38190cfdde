"""file_lines beside a program whose log is rotated all the time: every line once.

The reader is driven as Spark drives it, in this process, for `TUTORIAL_PKG_ROTATION_SECONDS` (8)
each. Each plan is read a moment later, so that rotations fall between planning and reading too.
A reader that stands still for longer than a rotation takes cannot know of the file between.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tutorial_pkg.connectors.file_lines.data_source import FileLinesDataSource

WRITER = Path(__file__).with_name("rotating_writer.py")
SECONDS = float(os.environ.get("TUTORIAL_PKG_ROTATION_SECONDS", "8"))
NEIGHBOURS = 3000


class Query:
    """Batches one after the other, offsets through JSON, as Spark does it."""

    def __init__(self, path: Path) -> None:
        self._reader = FileLinesDataSource({"path": str(path)}).streamReader(schema=None)
        self._offset = self._reader.initialOffset()
        self.rows: Counter[str] = Counter()

    def batch(self, pause: float = 0.0) -> int:
        limit = self._reader.getDefaultReadLimit()
        end = json.loads(json.dumps(self._reader.latestOffset(self._offset, limit)))
        time.sleep(pause)
        before = self.rows.total()
        for partition in self._reader.partitions(self._offset, end):
            for batch in self._reader.read(partition):
                self.rows.update(batch.column(0).to_pylist())
        self._offset = end
        return self.rows.total() - before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(NEIGHBOURS):
        (tmp_path / f"neighbour.{number}").write_text(f"of neighbour {number}\n")
    return tmp_path


def follow(query: Query, log: Path, kind: str, every: float) -> tuple[int, int]:
    """Run a query beside the program, and on until nothing is left; what the program did."""
    command = [sys.executable, WRITER, log, kind, str(every), str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            while writer.poll() is None:
                query.batch(pause=0.005)
        finally:
            writer.kill()
        written, rotations = map(int, writer.stdout.read().split())
    while query.batch():
        pass
    print(f"{kind}: {written} lines, {rotations} rotations")
    return written, rotations


def numbered(rows: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if row.startswith("line ")})


@pytest.mark.parametrize("pattern", ["app.log", "*"])
def test_rename_rotation_every_second(folder: Path, pattern: str) -> None:
    query = Query(folder / pattern)
    written, rotations = follow(query, folder / "app.log", "rename", every=min(1, SECONDS / 8))
    assert rotations > 1
    assert numbered(query.rows) == Counter(f"line {number}" for number in range(written))


def test_copytruncate_every_three_seconds(folder: Path, caplog) -> None:
    """What is in no file any more was lost by the copying itself, unless it was read before."""
    query = Query(folder / "app.log")
    written, rotations = follow(
        query, folder / "app.log", "copytruncate", every=min(3, SECONDS / 3)
    )
    on_disk = lines_of(folder.glob("app.log*"))
    lost = written - len(query.rows)
    print(f"lost between copying and truncating: {lost} lines; warnings: {len(caplog.records)}")
    assert rotations > 1
    assert max(query.rows.values()) == 1
    assert not on_disk - query.rows
    assert lost <= written - on_disk.total()


def lines_of(files) -> Counter[str]:
    return Counter(line for file in files for line in file.read_text().splitlines())
