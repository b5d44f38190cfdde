"""Start, kill and restart a query that runs in its own process, and wait for conditions."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import psutil

Answer = TypeVar("Answer")


def wait_for(condition: Callable[[], Answer], seconds: float, every: float = 0.05) -> Answer:
    """Call `condition()` until it is true, or `seconds` have passed; return its last result."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(every)
    return answer


def wait_until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """Return `condition()` once it is true, or raise `TimeoutError`: `what` did not happen."""
    if answer := wait_for(condition, seconds):
        return answer
    raise TimeoutError(f"{what} did not happen within {seconds:g} s")


def wait_for_end(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until all processes have ended; return those that still run after `seconds`.

    A zombie without other threads has ended. `psutil.wait_procs` would wait for process 1 to
    collect it. In a container without an init that never happens.
    """
    watched = list(processes)
    wait_for(lambda: not any(map(_runs, watched)), seconds, every=0.01)
    return [process for process in watched if _runs(process)]


class QueryProcess:
    """A Python script that runs a Spark query, in a process that can be killed like a machine.

    `output` collects what the script and its JVM print. Use it as a context manager, so that no
    process survives an error; in notebooks, use `close_all` and `end_with_parent` for that.
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
        """Close the processes that an interrupted lesson has left running."""
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

        The Python workers have to notice that by themselves, as after a real crash.
        """
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "java" in process.name():
                    process.kill()
        self._python.kill()
        self._python.wait()

    def wait(self, seconds: float) -> int:
        """Wait for the script to end, and return its exit code."""
        return self._python.wait(timeout=seconds)

    def close(self) -> None:
        """End everything that this process has started."""
        family = self._family()
        if self.running:
            self.kill()
        for process in family:
            kill_process(process)
        wait_for_end(family, 10)
        if self._python.stdin:
            self._python.stdin.close()
        QueryProcess._open.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _family(self) -> list[psutil.Process]:
        """Return all living descendants; remember them, since their parent may die."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._python.pid).children(recursive=True):
                self._started.setdefault(process.pid, process)
        return [process for process in self._started.values() if _runs(process)]


def end_with_parent() -> None:
    """In a `QueryProcess`'s script: end it, and all it has started, when the notebook has ended."""
    threading.Thread(target=_wait_for_end_of_input, daemon=True).start()


def _wait_for_end_of_input() -> None:
    sys.stdin.read()
    for process in psutil.Process().children(recursive=True):
        kill_process(process)
    os._exit(1)


def kill_process(process: psutil.Process) -> None:
    """Kill it with `kill -9`, unless it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        # Its locks and ports are in use until its last thread has ended.
        return bool(process.is_running() and (not is_zombie or process.num_threads() > 1))
    return False
