"""A running query as a family of processes, each of which may be killed.

They are the driver's Python, its JVM, the reader, the workers of tasks and commits, and the daemons
that fork them.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from spark_connector_tests.query_process import wait_for_end
from tests.faults.spare_driver import SpareDriver

DRIVER = Path(__file__).with_name("network_to_log_driver.py")


class Service:
    """A driver that runs, and another one when it has died."""

    def __init__(self, directory: Path, port: int, cleanup: ExitStack) -> None:
        self._directory, self._port, self._cleanup = directory, port, cleanup
        self._started = 0
        self._seen: set[psutil.Process] = set()
        cleanup.callback(self._end)
        self._start()

    def keep_up(self) -> None:
        """As whoever watches over a service does."""
        if not self._driver.running:
            self._start()

    def family(self) -> dict[str, list[psutil.Process]]:
        """The processes by what they are."""
        driver = psutil.Process(self._driver.pid)
        kinds = {"driver": [driver]}
        for process in driver.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if kind := _kind(process):
                    kinds.setdefault(kind, []).append(process)
        self._seen.update(*kinds.values())
        return kinds

    def _end(self) -> None:
        """What a killed process has left behind ends by itself, or here."""
        for process in wait_for_end(self._seen, 10):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def _start(self) -> None:
        self._started += 1
        path = self._directory / f"driver-{self._started}"
        driver = SpareDriver(DRIVER, path, self._directory, self._port)
        self._driver = self._cleanup.enter_context(driver)
        self._driver.go()


def _kind(process: psutil.Process) -> str | None:
    words = process.cmdline()
    if process.name() == "java":
        return "JVM"
    if "pyspark.daemon" not in words:
        return None  # one of the JVM's errands, a `chmod`
    parent = process.parent()
    return f"{'daemon' if parent and parent.name() == 'java' else 'worker'} of {words[-1]}"
