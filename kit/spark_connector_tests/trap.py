"""A look inside a connector in Python: one of its methods ends before any line of its code.

That a crash or an error inside `commit` or `read` comes at the one bad moment is unlikely, however
often a driver is killed at random. Here it comes at each line in turn.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pyspark.sql.datasource import DataSource

How = Literal["dies", "raises"]
BEHIND_A_ROW = -1  # in the place of a line's number: any that runs behind a row of `read`

_KIT = str(Path(__file__).parent)
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


class ToldToRaise(OSError):
    """An error such as a disk or a network has, raised by the kit."""


@dataclass(frozen=True)
class Trap:
    """Counts the lines that `method` runs, and ends it once before the one that `lay` names.

    A line counts when it runs for the first time in a call, or for the first few `times`: in code
    outside libraries, also in threads that the call starts. Those who set the trap, and those who
    walk into it, are different processes: `folder` is theirs.
    """

    method: str
    folder: Path
    times: int = 1

    def into(self, source: type[DataSource]) -> type[DataSource]:
        """The same source or sink, with a trap in it."""

        def reader(made: Any, schema: Any) -> Any:
            return self.over(source.streamReader(made, schema))

        def writer(made: Any, schema: Any, overwrite: bool) -> Any:
            return self.over(source.streamWriter(made, schema=schema, overwrite=overwrite))

        name = classmethod(lambda _: source.name())
        methods = {"name": name, "streamReader": reader, "streamWriter": writer}
        return type(source.__name__, (source,), methods)

    def over(self, made: Any) -> Any:
        """A reader or a writer with the trap in its method."""
        kind = type(made)
        plain, home = getattr(kind, self.method), _home(kind)

        def read(self_: Any, partition: Any) -> Iterator[Any]:
            with self.watching(home) as walk:
                for row in plain(self_, partition):
                    yield row
                    walk.has_given = True

        def other(self_: Any, *arguments: Any) -> Any:
            with self.watching(home):
                return plain(self_, *arguments)

        method = read if self.method == "read" else other
        made.__class__ = type(kind.__name__, (kind,), {self.method: method})
        return made

    @contextmanager
    def watching(self, home: str = "") -> Iterator[_Walk]:
        """Counts the lines of the block; the one after the last is the method's end."""
        walk = _Walk(self, home)
        before, in_threads = sys.gettrace(), threading.gettrace()
        threading.settrace(walk.enter)
        sys.settrace(walk.enter)
        try:
            yield walk
        finally:
            sys.settrace(before)
            threading.settrace(in_threads)
            walk.end()
        walk.reach("its end", 0)

    # ---- Who sets it ---------------------------------------------------------------------------

    def lines(self) -> int:
        """How many lines there were, in the longest call so far."""
        return max((int(note.suffix[1:]) for note in self.folder.glob("lines.*")), default=0)

    def lay(self, line: int, how: How) -> None:
        """The next call ends before its line of this number, counted from 0, or `BEHIND_A_ROW`."""
        for note in (*self.folder.glob("sprung"), *self.folder.glob("set.*")):
            note.unlink()
        (self.folder / f"set.{line}.{how}").touch()

    def sprung(self) -> str:
        """The line before which it ended, as `file.py:57`; empty as long as it has not."""
        note = self.folder / "sprung"
        return note.read_text() if note.exists() else ""


class _Walk:
    """One call of the method, line by line."""

    def __init__(self, trap: Trap, home: str) -> None:
        self._trap, self._home = trap, home
        self._runs, self._lines, self._over = Counter[tuple[str, int]](), 0, False
        self.has_given = False  # a row, since the last line

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._step if _is_ours(frame.f_code.co_filename, self._home) else None

    def _step(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and not self._over:
            self.reach(frame.f_code.co_filename, frame.f_lineno)
        return self._step

    def reach(self, file: str, line: int) -> None:
        if self.has_given:
            self.has_given = False
            self._end_if_set(BEHIND_A_ROW, file, line)
        if self._runs[file, line] < self._trap.times:
            self._runs[file, line] += 1
            self._lines += 1
            self._end_if_set(self._lines - 1, file, line)

    def _end_if_set(self, number: int, file: str, line: int) -> None:
        for how in ("dies", "raises"):
            self._end(self._trap.folder / f"set.{number}.{how}", how, file, line)

    def _end(self, told: Path, how: str, file: str, line: int) -> None:
        try:
            told.unlink()  # only one of several tasks gets it
        except FileNotFoundError:
            return
        (self._trap.folder / "sprung").write_text(f"{Path(file).name}:{line}" if line else file)
        if how == "dies":
            os._exit(9)
        raise ToldToRaise(f"told to fail before line {line} of {file}")

    def end(self) -> None:
        """A thread may go on, unwatched."""
        self._over = True
        (self._trap.folder / f"lines.{self._lines}").touch()


def _is_ours(file: str, home: str) -> bool:
    """Whether it is the connector's code: in its own folder `home`, or in no library."""
    return bool(home and file.startswith(home)) or not file.startswith((_KIT, *_LIBRARIES, "<"))


def _home(kind: type) -> str:
    """The folder of the class's module; empty when it has none, or shares it with libraries."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    folder = str(Path(file).parent) if file else ""
    return "" if folder in _LIBRARIES else folder


def some_of(lines: int, most: int) -> list[int]:
    """At most that many of the numbers below `lines`: the first, the last, and some in between."""
    return sorted({place * (lines - 1) // max(1, most - 1) for place in range(most)})
