"""Kill the process of a learner's store in every line of its `append`, and count the lines.

As a script: `FOLDER`, and the pickled class as its input. It prints an `Outcome`, or what is wrong
even without a crash.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyspark import cloudpickle

from workbook.checks.verdict import Wrong

LINES = [f"line {number}" for number in range(30)]
FIRST, SECOND = 10, 20  # where the first and the second block end


class Outcome(NamedTuple):
    """The number of crashes, and the lines that were lost or duplicated after them."""

    crashes: int
    lost: int
    duplicated: int

    def __str__(self) -> str:
        return f"{self.crashes} crashes: {self.lost} lines lost, {self.duplicated} duplicated"


def crash_everywhere(store: type) -> Outcome:
    """Try the class in another process, which may be killed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __name__, folder]
        pickled = cloudpickle.dumps(store)
        done = subprocess.run(command, input=pickled, capture_output=True, check=False)
    if done.returncode:
        text = f"Your class: {done.stderr.decode().strip().splitlines()[-1]}. Both calls of "
        text += "append() must show in lines() and position() of a new object, even if a write "
        raise Wrong(f"{text}was cut short.")
    return Outcome(*json.loads(done.stdout.splitlines()[-1]))


def _outcome(store: Any, folder: Path) -> Outcome:
    whole = folder / "whole"
    whole.mkdir()
    empty = store(whole).position()
    store(whole).append(LINES[:FIRST], FIRST)
    before = _contents(whole)
    store(whole).append(LINES[FIRST:SECOND], SECOND)
    lines, position = list(store(whole).lines()), store(whole).position()
    if (empty, lines, position) != (0, LINES[:SECOND], SECOND):
        text = f"the position {empty!r} of an empty folder; later "
        sys.exit(f"{text}{len(lines)} lines and the position {position}")
    crashes = [_resume(store, place) for place in _killed(store, folder)]
    crashes += [_resume(store, place) for place in _cut(whole, before, folder)]
    return Outcome(len(crashes), *map(sum, zip(*crashes, strict=True)))


def _killed(store: Any, folder: Path) -> Iterator[Path]:
    """Yield folders in which a process has died in the first, second … line of `append`."""
    for number in itertools.count(1):
        place = folder / f"killed-{number}"
        place.mkdir()
        store(place).append(LINES[:FIRST], FIRST)
        child = os.fork()
        if not child:
            _append_and_die(store(place), number)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return
        yield place


def _append_and_die(store: Any, number: int) -> None:
    file, numbers = type(store).append.__code__.co_filename, itertools.count(1)

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace if frame.f_code.co_filename == file else None

    sys.settrace(trace)
    store.append(LINES[FIRST:SECOND], SECOND)
    os._exit(0)


def _contents(place: Path) -> dict[Any, bytes]:
    """Return the contents of files by path and inode."""
    files = [file for file in place.rglob("*") if file.is_file()]
    return {(file.relative_to(place), file.stat().st_ino): file.read_bytes() for file in files}


def _cut(whole: Path, before: dict[Any, bytes], folder: Path) -> Iterator[Path]:
    """Yield folders in which a write to the only changed file was cut short."""
    changed = [item for item in _contents(whole).items() if item[1] != before.get(item[0])]
    if len(changed) != 1 or changed[0][0] not in before:
        return  # several files, or a new one in place of the old one
    [(file, new)] = changed
    old = before[file]
    if new.startswith(b"SQLite"):
        return  # it has a journal
    for size in range(len(old) if new.startswith(old) else 0, len(new)):
        place = folder / f"cut-{size}"
        shutil.copytree(whole, place)
        (place / file[0]).write_bytes(new[:size])
        yield place


def _resume(store: Any, place: Path) -> tuple[int, int]:
    """Send the rest, as after a restart; return how many lines are lost, and duplicated."""
    position = store(place).position()
    store(place).append(LINES[position:], len(LINES))
    lines = Counter(store(place).lines())
    return (Counter(LINES) - lines).total(), (lines - Counter(LINES)).total()


if __name__ == "__main__":
    print(json.dumps(_outcome(cloudpickle.loads(sys.stdin.buffer.read()), Path(sys.argv[1]))))
