"""Commands of the package in processes that a lesson may kill, and workers of a query."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import psutil

import tutorial_pkg
from spark_connector_tests.query_process import QueryProcess
from workbook.services import Guard

SCRIPT = Path(tutorial_pkg.__file__).with_name("__main__.py")
TASKS = ["pyspark.daemon", "pyspark.worker"]


class Command(QueryProcess):
    """`python -m tutorial_pkg WORDS`; `output` collects what it prints. It ends with this process.

    `again()` starts it once more, after it was killed.
    """

    def __init__(self, *words: object, output: Path) -> None:
        super().__init__(SCRIPT, *words, output=output)
        self._words = words
        self._guard = Guard(self.pid, signal.SIGKILL)

    def again(self) -> Command:
        self.close()
        return Command(*self._words, output=self.output)

    def close(self) -> None:
        self._guard.release()
        super().close()


def kill_a_worker(driver: QueryProcess) -> None:
    """`kill -9` a Python worker that runs tasks of `driver`'s queries, if there is one now.

    The other daemons of Spark fork what plans and commits, which no retry of a task replaces.
    """
    for process in psutil.Process(driver.pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            if process.cmdline()[-2:] == TASKS and not process.children():
                process.kill()
                return
