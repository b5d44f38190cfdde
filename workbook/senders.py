"""Free ports, commands and workers to kill."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from spark_connector_tests.query_process import QueryProcess, wait_until
from tutorial_pkg import last_error
from tutorial_pkg.core.places import LOOPBACK, is_free
from workbook.services import Daemon, reserve

HOST = LOOPBACK
FIRST_PORT = 11000
LAST_PORT = 32_000  # the system takes higher ports for its own clients


def free_ports(count: int = 1) -> int:
    """Return the first of `count` consecutive free ports, 11000 if possible.

    They stay reserved as long as this process lives, so that two notebooks that run at the same
    time never send to each other's queries. Raises `OSError` when there are none.
    """
    for first in range(FIRST_PORT, LAST_PORT - count, count):
        if all(reserve(port) and is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} consecutive free ports from {FIRST_PORT} to {LAST_PORT}")


def wait_for_listener(port: int, query: Any) -> None:
    """Wait until something listens on `port`, without connecting to it.

    Raises `TimeoutError`, or `RuntimeError` if the `query` that should listen has ended.
    """
    wait_until(lambda: not is_free(port) or not query.isActive, 60, f"a listener on {port}")
    if is_free(port):
        raise RuntimeError(f"the query ended before it listened: {last_error(query)}")


class Command(Daemon):
    """`python -m tutorial_pkg WORDS` in a process to kill; it ends with this one."""

    def __init__(self, *words: object, output: Path) -> None:
        super().__init__(sys.executable, "-m", "tutorial_pkg", *words, output=output)


def kill_a_worker(driver: QueryProcess) -> None:
    """`kill -9` a Python worker that runs tasks of the driver's queries, if there is one now.

    Spark's other daemons fork what plans and commits, which no retry of a task replaces.
    """
    for process in psutil.Process(driver.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            runs_tasks = process.cmdline()[-2:] == ["pyspark.daemon", "pyspark.worker"]
            if runs_tasks and not process.children():
                process.kill()
                return
