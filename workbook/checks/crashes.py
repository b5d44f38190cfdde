"""Kill the process of a learner's store in every line of its `append`, and count the lines.

As a script: `FILE FOLDER`, where FILE has the pickled class; it prints an `Outcome`, or what is
wrong even without a crash.
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
        pickled = Path(folder) / "store"
        pickled.write_bytes(cloudpickle.dumps(store))
        command = [sys.executable, "-m", __name__, str(pickled), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = f"Your class: {done.stderr.strip().splitlines()[-1]}. Both calls of append() must "
        text += "show in lines() and position() of a new object, even if a write was cut short."
        raise Wrong(text)
    return Outcome(*json.loads(done.stdout.splitlines()[-1]))


def _outcome(store: Any, folder: Path) -> Outcome:
    whole = folder / "whole"
    whole.mkdir()
    if store(whole).position() != 0:
        sys.exit(f"{store(whole).position()!r} as the position of an empty folder")
    _block(store, whole, 0, FIRST)
    before = _contents(whole)
    _block(store, whole, FIRST, SECOND)
    after = _contents(whole)
    lines = list(store(whole).lines())
    if lines != LINES[:SECOND] or store(whole).position() != SECOND:
        sys.exit(f"{len(lines)} lines and the position {store(whole).position()}")
    places = itertools.chain(_killed(store, folder), _cut(folder, whole, before, after))
    crashes = [_resume(store, place) for place in places]
    return Outcome(len(crashes), *map(sum, zip(*crashes, strict=True)))


def _block(store: Any, place: Path, start: int, end: int) -> None:
    place.mkdir(exist_ok=True)
    store(place).append(LINES[start:end], end)


def _killed(store: Any, folder: Path) -> Iterator[Path]:
    """Yield folders in which a process has died in the first, second … line of `append`."""
    for number in itertools.count(1):
        place = folder / f"killed-{number}"
        _block(store, place, 0, FIRST)
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


Contents = dict[tuple[str, int], bytes]  # by the file's name and inode


def _contents(place: Path) -> Contents:
    files = [file for file in place.rglob("*") if file.is_file()]
    return {(str(file.relative_to(place)), file.stat().st_ino): file.read_bytes() for file in files}


def _cut(folder: Path, whole: Path, before: Contents, after: Contents) -> Iterator[Path]:
    """Yield folders in which a write to the only changed file was cut short."""
    changed = [file for file, content in after.items() if content != before.get(file)]
    if len(changed) == 1 and changed[0] in before:  # one file, and not a new one in its place
        old, new = before[changed[0]], after[changed[0]]
        if new.startswith(b"SQLite"):
            return  # it has a journal
        for size in range(len(old) if new.startswith(old) else 0, len(new)):
            place = folder / f"cut-{size}"
            shutil.copytree(whole, place)
            (place / changed[0][0]).write_bytes(new[:size])
            yield place


def _resume(store: Any, place: Path) -> tuple[int, int]:
    """Send the rest, as after a restart; return how many lines are lost, and duplicated."""
    position = store(place).position()
    store(place).append(LINES[position:], len(LINES))
    lines = Counter(store(place).lines())
    return (Counter(LINES) - lines).total(), (lines - Counter(LINES)).total()


if __name__ == "__main__":
    pickled = Path(sys.argv[1]).read_bytes()
    print(json.dumps(_outcome(cloudpickle.loads(pickled), Path(sys.argv[2]))))
