"""Spark's Python processes, seen from within."""

from __future__ import annotations

import gc
import os
import signal
import sys
from functools import cache

CORES = "TUTORIAL_PKG_CORES"  # in the environment: what `cores` returns
SOURCE_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"


@cache
def freeze_imports() -> None:
    """Exclude the objects of imported modules from garbage collection.

    PySpark collects garbage after every task. Walking through all imported modules takes 15 ms a
    task, as long as reading 40,000 lines.
    """
    gc.collect()
    gc.freeze()


def outlive_ctrl_c() -> None:
    """Ignore Ctrl-C in the process of a stream reader, so that the driver can end the query.

    A terminal sends Ctrl-C to all processes of a job. In the reader's process it would fail the
    query before the driver can stop it after its batch. Elsewhere this does nothing.
    """
    spec = sys.modules["__main__"].__spec__
    if spec and spec.name == SOURCE_RUNNER:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def cores() -> int:
    """Return how many tasks may run at once; by default the cores of this machine.

    `start_spark` and `register` put the number into the environment of processes that plan.
    """
    text = os.environ.get(CORES, "")
    return int(text) if text.isdigit() and int(text) > 0 else os.cpu_count() or 1
