"""Make a file or a connection fail, or a process die, while a connector reads or writes.

Python reports each file that it opens, renames or removes, and each connection, to audit hooks. If
a hook raises an error, the call fails, as on a full disk. Calls of C libraries are not reported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark.sql.datasource import DataSource

How = Literal["dies", "raises"]
EVENTS = {"open", "os.rename", "os.remove", "os.link", "os.mkdir", "os.scandir"}
EVENTS |= {"socket.connect", "sqlite3.connect"}


class InjectedError(OSError):
    """An error such as a disk or a network has, raised by the kit."""


@dataclass(frozen=True)
class Faults:
    """Counts the calls of a connector's `method` to the system, and ends one of them.

    The kit and the method run in different processes; they exchange notes in `folder`.
    """

    method: str
    folder: Path

    def into(self, source: type[DataSource]) -> type[DataSource]:
        """Return the same source or sink, with this method watched."""

        def reader(made: Any, schema: Any) -> Any:
            return self._watched(source.streamReader(made, schema))

        def writer(made: Any, schema: Any, overwrite: bool) -> Any:
            return self._watched(source.streamWriter(made, schema=schema, overwrite=overwrite))

        name = classmethod(lambda _: source.name())
        methods = {"name": name, "streamReader": reader, "streamWriter": writer}
        return type(source.__name__, (source,), methods)

    def _watched(self, made: Any) -> Any:
        kind = type(made)
        plain = getattr(kind, self.method)

        def read(self_: Any, partition: Any) -> Iterator[Any]:
            with self.watching():
                yield from plain(self_, partition)

        def write(self_: Any, *arguments: Any) -> Any:
            with self.watching():
                return plain(self_, *arguments)

        methods = {self.method: read if self.method == "read" else write}
        object.__setattr__(made, "__class__", type(kind.__name__, (kind,), methods))
        return made

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the calls of the block, in any thread."""
        calls, active = 0, True

        def on_event(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal calls, active
            if active and event in EVENTS and not _is_import(arguments):
                active = False  # the kit's own files don't count
                self._end_if_planned(calls, f"{event} {_name(arguments)}")
                calls, active = calls + 1, True

        sys.addaudithook(on_event)  # Python can't remove it
        try:
            yield
        finally:
            active = False
            (self.folder / f"calls.{calls}").touch()

    def _end_if_planned(self, call: int, place: str) -> None:
        for how in ("dies", "raises"):
            with suppress(FileNotFoundError):
                (self.folder / f"planned.{call}.{how}").unlink()  # only one of several tasks can
                (self.folder / "ended").write_text(place)
                if how == "dies":
                    os._exit(9)
                raise InjectedError(f"the kit let this call fail: {place}")

    def plan(self, call: int, how: How) -> None:
        """Have the method's next run end at this call, counted from 0."""
        for note in (*self.folder.glob("ended"), *self.folder.glob("planned.*")):
            note.unlink()
        (self.folder / f"planned.{call}.{how}").touch()

    def ended(self) -> str:
        """Return the call that was ended, as in `open orders.csv`; empty if there was none."""
        note = self.folder / "ended"
        return note.read_text() if note.exists() else ""

    def some(self, most: int) -> list[int]:
        """Return at most that many calls of the longest run: the first, the last, and others."""
        last = max((int(note.suffix[1:]) for note in self.folder.glob("calls.*")), default=0) - 1
        return sorted(
            {place * last // max(1, most - 1) for place in range(most if last >= 0 else 0)}
        )


def _name(arguments: tuple[Any, ...]) -> str:
    first = arguments[0] if arguments else ""
    return Path(os.fsdecode(first)).name if isinstance(first, str | bytes | os.PathLike) else ""


def _is_import(arguments: tuple[Any, ...]) -> bool:
    """Return whether Python imports a module, or reads its text for a stack trace."""
    if _name(arguments).endswith((".py", ".pyc", ".so")):
        return True
    frame: Any = sys._getframe()
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None
