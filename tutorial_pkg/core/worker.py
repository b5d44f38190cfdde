"""What the code of a connector asks of the Python worker process that it runs in."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from pyspark import TaskContext

CORES = "TUTORIAL_PKG_CORES"  # in the environment: what `cores` returns
SOURCE_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


def this_task() -> TaskContext:
    """The task that runs in this worker. Raises `RuntimeError` outside of one."""
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("this runs in Spark's tasks only; Spark calls it, nobody else")
    return task


def task_property(name: str) -> str:
    """What the driver has set for all tasks of a job. Raises `RuntimeError` if it has not."""
    value = this_task().getLocalProperty(name)
    if value is None:
        raise RuntimeError(f"Spark has not set {name!r} here: an unsupported Spark version?")
    return value


@cache
def freeze_imports() -> None:
    """Spare this worker process the walk through all that its imports have made.

    PySpark collects garbage after every task. That looks at each object of each imported module:
    some 15 ms a task, as long as reading 40,000 lines. What is there when the first task begins
    stays until the process ends anyway; from now on the collector leaves it alone.
    """
    gc.collect()
    gc.freeze()


def outlive_ctrl_c() -> None:
    """Called by each stream reader's `__init__`: leave it to the driver to end the query.

    A terminal sends Ctrl-C to all processes of a job, also to the one in which Spark asks a source
    what is new. An interrupt there fails the query before the driver can stop it after its batch.
    That process ends anyway when its query does. Anywhere else this does nothing.
    """
    spec = sys.modules["__main__"].__spec__
    if spec and spec.name == SOURCE_RUNNER:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def uncollected() -> Iterator[None]:
    """Make very many objects that stay, without the collector's walks through those made so far."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def cores() -> int:
    """How many tasks of the session may run at once; the cores of this machine by default.

    A process that plans work knows nothing of Spark's session. What `start_spark` or `register`
    has found is in its environment; on a cluster that grows, `spark.default.parallelism` decides.
    """
    told = os.environ.get(CORES, "")
    return int(told) if told.isdigit() and int(told) > 0 else os.cpu_count() or 1
