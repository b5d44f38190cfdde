"""file_lines reads every line once, although the log is rotated all the time.

The reader is driven as Spark drives it, in this process. Each batch is read a moment after it was
planned, so that rotations happen between the two. The log is rotated only after the reader has
looked at it, because a file that comes and goes between two looks cannot be read.
"""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.soak import few_or_many
from tests.unit.file_lines.driving import Tailing

NEIGHBORS = 3000


class Query(Tailing):
    """Batches one after the other, all of one reader."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, restarts=False)
        self.looks: float = 0
        self.rows: Counter[str] = Counter()

    def look(self) -> list[str]:
        self.plan()
        self.looks += 1
        time.sleep(0.005)
        lines = self.replay()
        self.rows.update(line for line in lines if line.startswith("line "))
        return lines


class Program:
    """Logs numbered lines. Its file stays open, as that of most programs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0
        self._file = path.open("ab", buffering=0)

    def write(self) -> None:
        last = self.written + 10
        self._file.write(b"".join(b"line %d\n" % number for number in range(self.written, last)))
        self.written = last
        time.sleep(0.001)

    def rename(self, number: int) -> None:
        """As logrotate does: lines before the new file is open go to the old one."""
        self.path.rename(f"{self.path}.{number}")
        self.write()
        self._file = self.path.open("ab", buffering=0)

    def copytruncate(self, number: int) -> None:
        shutil.copyfile(self.path, f"{self.path}.{number}")
        os.truncate(self.path, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(NEIGHBORS):
        (tmp_path / f"neighbor.{number}").write_text(f"of neighbor {number}\n")
    return tmp_path


def run_beside(query: Query, program: Program, rotate: Callable[[int], None], count: int) -> None:
    """Run a query beside the program and its rotations, until everything is read."""

    def work() -> None:
        for number in range(count):
            seen = query.looks + 2  # of those, one has begun after the last rotation
            while query.looks < seen:
                program.write()
            rotate(number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while thread.is_alive():
            query.look()
    finally:
        query.looks = math.inf  # end the thread even if the reader has failed
        thread.join()
    while query.look():
        pass


@few_or_many("rotations", 8, 100)
@pytest.mark.parametrize("pattern", ["app.log", "*"])
def test_renames_lose_and_repeat_nothing(folder: Path, pattern: str, rotations: int) -> None:
    query, program = Query(folder / pattern), Program(folder / "app.log")
    run_beside(query, program, program.rename, rotations)
    assert query.rows == Counter(f"line {number}" for number in range(program.written))


@few_or_many("rotations", 8, 100)
def test_copytruncate_loses_and_repeats_nothing(folder: Path, rotations: int) -> None:
    """The program writes nothing between copy and truncation: `copytruncate` would lose that."""
    query, program = Query(folder / "app.log"), Program(folder / "app.log")
    run_beside(query, program, program.copytruncate, rotations)
    assert query.rows == Counter(f"line {number}" for number in range(program.written))
