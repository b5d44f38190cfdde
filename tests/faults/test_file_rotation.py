"""file_lines beside a program whose log is rotated all the time: every line once.

The reader is driven as Spark drives it, in this process. Each plan is read a moment later, so that
rotations fall between planning and reading too. A reader that misses a rotation altogether cannot
know of the file between, so the log is rotated when the reader has looked at it since.
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

NEIGHBOURS = 3000


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
        self.rows.update(lines)
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
        """As logrotate does: what is written before there is a new file goes to the old one."""
        self.path.rename(f"{self.path}.{number}")
        self.write()
        self._file = self.path.open("ab", buffering=0)

    def copytruncate(self, number: int) -> None:
        shutil.copyfile(self.path, f"{self.path}.{number}")
        os.truncate(self.path, 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(NEIGHBOURS):
        (tmp_path / f"neighbour.{number}").write_text(f"of neighbour {number}\n")
    return tmp_path


def rotate(query: Query, rotations: int, once: Callable[[int], None], idle: Callable[[], None]):
    for number in range(rotations):
        seen = query.looks + 2  # of those, one has begun after the last rotation
        while query.looks < seen:
            idle()
        once(number)


def follow(query: Query, *work: Callable[[], None]) -> None:
    """Run a query beside the program's threads, and on until nothing is left."""
    threads = [threading.Thread(target=each) for each in work]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            query.look()
    finally:
        query.looks = math.inf  # nobody waits for a reader that has failed
    while query.look():
        pass


def numbered(rows: Counter[str]) -> Counter[str]:
    return Counter({row: count for row, count in rows.items() if row.startswith("line ")})


@few_or_many("rotations", 8, 100)
@pytest.mark.parametrize("pattern", ["app.log", "*"])
def test_a_log_that_is_renamed_again_and_again(folder: Path, pattern: str, rotations: int) -> None:
    query, program = Query(folder / pattern), Program(folder / "app.log")
    follow(query, lambda: rotate(query, rotations, program.rename, idle=program.write))
    assert numbered(query.rows) == Counter(f"line {number}" for number in range(program.written))


@few_or_many("rotations", 8, 100)
def test_a_log_that_is_copied_and_truncated_again_and_again(folder: Path, rotations: int) -> None:
    """What is in no file any more was lost by the copying itself, unless it was read before."""
    query, program = Query(folder / "app.log"), Program(folder / "app.log")
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            program.write()

    def rotate_beside_it() -> None:
        rotate(query, rotations, program.copytruncate, idle=lambda: time.sleep(0.001))
        done.set()

    follow(query, write, rotate_beside_it)
    on_disk = lines_of(folder.glob("app.log*"))
    lost = program.written - len(query.rows)
    print(f"lost between copying and truncating: {lost} lines of {program.written}")
    assert max(query.rows.values()) == 1
    assert not on_disk - query.rows
    assert lost <= program.written - on_disk.total()


def lines_of(files) -> Counter[str]:
    return Counter(line for file in files for line in file.read_text().splitlines())
