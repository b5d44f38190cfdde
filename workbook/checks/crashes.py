"""Kill the process of a learner's store while it appends, and count the lines afterwards.

As a script: `FOLDER`, `lines` or `bytes`, and the pickled class as its input.
"""

from __future__ import annotations

import itertools
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from pyspark import cloudpickle

from workbook.checks.verdict import Wrong

LINES = [f"line {number}" for number in range(30)]
FIRST, SECOND = 10, 20  # where the first and the second block end


def crash_everywhere(store: type, unit: Literal["lines", "bytes"]) -> str:
    """Return what happens to the lines if `append` is killed in each line, or also at each byte.

    Another process tries the class, because a fork of this one, which has threads, may hang.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", __name__, folder, unit]
        pickled = cloudpickle.dumps(store)
        done = subprocess.run(command, input=pickled, capture_output=True, check=False)
    if done.returncode:
        text = f"Your class: {done.stderr.decode().strip().splitlines()[-1]}. A new object must "
        raise Wrong(f"{text}have the lines and the position, even if a write was cut short.")
    return str(done.stdout.decode().splitlines()[-1])


def _try(store: Any, folder: Path, unit: str) -> str:
    whole, sizes = folder / "whole", list[int]()
    whole.mkdir()
    empty = store(whole).position()
    for start, end in ((0, FIRST), (FIRST, SECOND)):
        store(whole).append(LINES[start:end], end)
        files = [file for file in whole.rglob("*") if file.is_file()]
        sizes.append(max((file.stat().st_size for file in files), default=0))
    lines, position = list(store(whole).lines()), store(whole).position()
    if (empty, lines, position) != (0, LINES[:SECOND], SECOND):
        sys.exit(f"{len(lines)} lines, position {position}, and {empty!r} of an empty folder")
    most = 500 if unit == "bytes" else 0  # a database may grow by more bytes
    places = list(_killed(store, folder, range(*sizes)[:most]))
    after = [_resume(store, place) for place in places]
    lost, duplicated = (sum(counts) for counts in zip(*after, strict=True))
    return f"{len(after)} crashes: {lost} lines lost, {duplicated} duplicated"


def _killed(store: Any, folder: Path, sizes: range) -> Iterator[Path]:
    """Yield folders in which `append` was killed: in its first, second … line, or at a size."""
    for line in itertools.count(1):
        if not _is_killed(store, folder / f"line-{line}", line, resource.RLIM_INFINITY):
            break
        yield folder / f"line-{line}"
    for size in sizes:
        _is_killed(store, folder / f"size-{size}", 0, size)
        yield folder / f"size-{size}"


def _is_killed(store: Any, place: Path, line: int, size: int) -> bool:
    place.mkdir()
    store(place).append(LINES[:FIRST], FIRST)
    process = get_context("fork").Process(target=_append, args=(store(place), line, size))
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def _append(store: Any, line: int, size: int) -> None:
    """Append, and die in this line, or when a file reaches this size."""
    file, numbers = type(store).append.__code__.co_filename, itertools.count(1)

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and next(numbers) == line:
            signal.raise_signal(signal.SIGKILL)
        return trace if frame.f_code.co_filename == file else None

    signal.signal(signal.SIGXFSZ, lambda *_: signal.raise_signal(signal.SIGKILL))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    sys.settrace(trace)
    store.append(LINES[FIRST:SECOND], SECOND)


def _resume(store: Any, place: Path) -> tuple[int, int]:
    """Send the rest, as after a restart; return how many lines are lost, and duplicated."""
    position = store(place).position()
    store(place).append(LINES[position:], len(LINES))
    lines = Counter(store(place).lines())
    return (Counter(LINES) - lines).total(), (lines - Counter(LINES)).total()


if __name__ == "__main__":
    folder, unit = sys.argv[1:]
    print(_try(cloudpickle.loads(sys.stdin.buffer.read()), Path(folder), unit))
