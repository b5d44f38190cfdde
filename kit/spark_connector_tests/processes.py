"""The JVM of a session, and the Python workers of its tasks."""

from __future__ import annotations

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_connector_tests.promise import Mistake
from spark_connector_tests.query_process import kill_process

DAEMON = "pyspark.daemon"  # forks the workers of tasks, and keeps them for the next task


def context_of(spark: SparkSession) -> SparkContext:
    """Return the session's context; with Spark Connect, that of a server that this Python started.

    Raises `Mistake` if another process has started the server.
    """
    context = SparkContext._active_spark_context if is_remote() else spark.sparkContext
    if context is None:
        raise Mistake(
            "with Spark Connect, the kit needs a server that this Python has started: "
            'use `SparkSession.builder.remote("local[2]")`'
        )
    return context


def end_task_workers(spark: SparkSession) -> None:
    """Have the next task run in a new process.

    Wait until all workers are gone: Spark could still hand a task to a dying one.
    """
    java = psutil.Process(context_of(spark)._jvm.ProcessHandle.current().pid())  # type: ignore
    workers = []
    for process in java.children(recursive=True):
        if _is_worker(process):
            workers.append(process)
            kill_process(process)
    psutil.wait_procs(workers, timeout=5)


def _is_worker(process: psutil.Process) -> bool:
    """Return whether the daemon of a JVM has forked it; both have the same command."""
    try:
        daemon = process.parent()
        jvm = daemon and daemon.parent()
        return bool(jvm and DAEMON in daemon.cmdline() and DAEMON not in jvm.cmdline())
    except psutil.Error:
        return False
