"""Start, kill and restart a query that runs in a process of its own.

A fault drill needs a driver that can die without taking with it whoever watches: a notebook, a
test, an examination.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

import psutil

from spark_connector_tests.waiting import wait_for
from spark_connector_tests.waiting import wait_until as wait_until


def wait_for_end(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until all have ended; returns those that have not within `seconds`.

    A zombie has ended. `psutil.wait_procs` would wait for process 1 to collect it, which takes
    process 1 as long as it likes; in a container without an init, for ever.
    """
    watched = list(processes)
    wait_for(lambda: not any(map(_runs, watched)), seconds, every=0.01)
    return [process for process in watched if _runs(process)]


class QueryProcess:
    """A Python script that runs a Spark query, in a process that can be killed like a machine.

    `output` collects what the script and its JVM print. Use it as a context manager, so that
    nothing is left behind whatever happens; where a notebook cannot, because the process lives
    from cell to cell, `close_all` and `end_with_parent` see to that.
    """

    _open: ClassVar[weakref.WeakSet[QueryProcess]] = weakref.WeakSet()

    def __init__(
        self,
        script: Path,
        *args: object,
        output: Path,
        env: dict[str, str] | None = None,
        python: str | Path = sys.executable,
    ) -> None:
        self.output = Path(output)
        self._started: dict[int, psutil.Process] = {}
        with open(self.output, "ab") as log:
            self._python = subprocess.Popen(
                [python, str(script), *map(str, args)],
                stdin=subprocess.PIPE,  # never written to: it ends when this process does
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            )
        QueryProcess._open.add(self)

    @classmethod
    def close_all(cls) -> None:
        """Close those that an interrupted lesson has left running."""
        for process in list(cls._open):
            process.close()

    @property
    def pid(self) -> int:
        return self._python.pid

    @property
    def running(self) -> bool:
        return self._python.poll() is None

    def kill(self) -> None:
        """`kill -9` the driver: its JVM and its Python, with no chance to clean up.

        The Python workers are left to notice by themselves, as they would have to.
        """
        for process in [p for p in self._family() if "java" in _name(p)]:
            _kill(process)
        self._python.kill()
        self._python.wait()

    def wait(self, seconds: float) -> int:
        """Wait for the script to end by itself; its exit code."""
        return self._python.wait(timeout=seconds)

    def close(self) -> None:
        """End everything that this process started and that still lives."""
        family = self._family()
        if self.running:
            self.kill()
        for process in family:
            _kill(process)
        wait_for_end(family, 10)
        if self._python.stdin:
            self._python.stdin.close()
        QueryProcess._open.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _family(self) -> list[psutil.Process]:
        """All descendants seen so far: after a parent's death only memory knows them."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._python.pid).children(recursive=True):
                self._started.setdefault(process.pid, process)
        return [process for process in self._started.values() if _runs(process)]


def end_with_parent() -> None:
    """For a script of a `QueryProcess`: end it, and all it started, when the notebook has ended."""
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def _wait_for_end_of_input() -> None:
    sys.stdin.read()
    for process in psutil.Process().children(recursive=True):
        _kill(process)
    os._exit(1)


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.NoSuchProcess:
        return ""


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
