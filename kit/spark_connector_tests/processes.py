"""The processes that Spark has started: what they cost, what they keep open, which stay."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_connector_tests.promise import Mistake
from spark_connector_tests.query_process import wait_for_end

ENDING = 5.0  # seconds that a process has to end after its query

Found = TypeVar("Found")


def context_of(spark: SparkSession) -> SparkContext:
    """The session's; with Spark Connect that of the server that this Python has started.

    Raises `Mistake` if it has not.
    """
    context = SparkContext._active_spark_context if is_remote() else spark.sparkContext
    if context is None:
        raise Mistake(
            "the kit looks at Spark's processes, so with Spark Connect it needs a server that this "
            'Python has started: `SparkSession.builder.remote("local[2]")`'
        )
    return context


def java_of(spark: SparkSession) -> Any:
    """Its JVM."""
    return context_of(spark)._jvm


class SparkProcesses:
    """The JVM of a session, and all below it."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = psutil.Process(java_of(spark).ProcessHandle.current().pid())

    def started(self) -> set[psutil.Process]:
        """All that the JVM has started, and what those have."""
        return set(self._java.children(recursive=True))

    def end_task_workers(self) -> None:
        """Whatever a task does next, it does in another process.

        Spark checks that a worker lives before it takes it, so wait until all are gone: Spark would
        write to one that is dying, and the task would fail.
        """
        workers = [worker for daemon in self._daemons() for worker in _children(daemon)]
        for worker in workers:
            _kill(worker)
        psutil.wait_procs(workers, timeout=ENDING)

    def end_survivors(self, started: set[psutil.Process]) -> list[str]:
        """End what does not end within some seconds, and describe it; Spark's own may go on.

        Its own are the daemons and what they have forked. What a worker has forked has the same
        name, but does not count.
        """
        daemons = self._daemons()
        own = {*daemons, *(worker for daemon in daemons for worker in _children(daemon))}
        left = wait_for_end(started - own, ENDING)
        described = [_described(process) for process in left]
        for process in left:
            if _is_of(process, DAEMON) or not _is_of(process, "pyspark"):  # else another query's
                _kill(process)
        return described

    def _daemons(self) -> list[psutil.Process]:
        """Each is a child of a JVM: of the driver's, or of an executor's below it."""
        parents = [self._java, *self.started()]
        jvms = [process for process in parents if not _is_of(process, DAEMON)]
        found = [child for process in jvms for child in _children(process)]
        return [process for process in found if _is_of(process, DAEMON)]

    def cpu_seconds(self) -> dict[int, float]:
        """For each process the time on a processor so far."""
        return dict(self._of_each(lambda process: [sum(process.cpu_times()[:2])]))

    def ports(self) -> set[str]:
        """Where somebody listens, except Spark's own: the JVM, and the daemons of its workers."""
        own = {self._java.pid, *(daemon.pid for daemon in self._daemons())}
        return {
            f"port {at.laddr.port} of process {pid}"
            for pid, at in self._of_each(lambda process: process.net_connections())
            if at.status == psutil.CONN_LISTEN and pid not in own
        }

    def sizes(self) -> dict[int, Size]:
        """Of each process in Python, what a leak would let grow."""
        return dict(self._of_each(_size))

    def files(self, folder: Path) -> set[str]:
        """Those below `folder` that are open."""
        return {
            f"file {path.name} in process {pid}"
            for pid, path in self._of_each(open_paths)
            if path.is_relative_to(folder)
        }

    def _of_each(self, ask: Callable[[psutil.Process], Iterable[Found]]) -> list[tuple[int, Found]]:
        """What each process answers; one that ends meanwhile is passed over."""
        answers: list[tuple[int, Found]] = []
        for process in [self._java, *self.started()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                answers += [(process.pid, answer) for answer in ask(process)]
        return answers


def open_paths(process: psutil.Process) -> list[Path]:
    """All that it keeps open, on Linux also deleted files, which psutil leaves out."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    if not descriptors.exists():
        return [Path(file.path) for file in process.open_files()]
    paths = []
    with contextlib.suppress(OSError):  # it ends meanwhile
        for descriptor in descriptors.iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                paths.append(Path(str(descriptor.readlink()).removesuffix(" (deleted)")))
    return paths


class Size(NamedTuple):
    """What a process holds."""

    threads: float
    descriptors: float
    megabytes: float


def _size(process: psutil.Process) -> list[Size]:
    if not _is_of(process, "pyspark."):  # the JVM has "pyspark-shell" in its command
        return []
    memory = process.memory_info().rss / 2**20
    return [Size(process.num_threads(), len(open_paths(process)), memory)]


DAEMON = "pyspark.daemon"  # which forks the workers of tasks, and keeps them for the next task


def _is_of(process: psutil.Process, module: str) -> bool:
    """Whether it is a Python that runs a module of this name; False for one that has ended."""
    try:
        return any(word.startswith(module) for word in process.cmdline())
    except psutil.Error:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    """Empty if it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(process.children())
    return []


def _described(process: psutil.Process) -> str:
    try:
        return f"process {process.pid} ({' '.join(process.cmdline())[:80]})"
    except psutil.Error:
        return f"process {process.pid}"


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
