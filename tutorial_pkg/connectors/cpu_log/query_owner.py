"""Which run of a streaming query writes to a directory, and whether it still runs.

The commit of a Python sink runs in a worker process that knows nothing of the query's life: the
worker stays when the query stops, and so does the JVM. What lives exactly as long as a run is its
thread in the JVM, which Spark names after it: `stream execution thread for … [id = …, runId = …]`.
The JVM tells its threads to any process of the same user, by the same socket that `jstack` uses.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

ATTACH_SECONDS = 5.0
LEASE_SECONDS = 60.0  # what a commit is good for on another host
CLOCK_SECONDS = 2.0  # a start time is counted from a boot time that moves with the clock
THREAD_DUMP = b"1\0threaddump\0\0\0\0"  # version of the protocol, command, three empty arguments


@dataclass(frozen=True)
class Owner:
    """A run of a query, or a batch job, in a driver's process."""

    query: str
    run: str
    host: str
    pid: int = 0
    started: float = 0.0  # seconds since the epoch: tells apart two processes with one pid

    def __str__(self) -> str:
        return f"query {self.query} (run {self.run}, process {self.pid} on {self.host})"

    def has_moved_to(self, other: Owner) -> bool:
        """Whether `other` is the same query on another host: its checkpoint lets only one run."""
        return self.query == other.query and self.host != other.host


def this_owner(query: str, run: str) -> Owner:
    """The owner `run` of `query`, in the JVM that this process works for.

    Where that is not found, the owner names no process, and keeps nobody out.
    """
    host, jvm = os.uname().nodename, _jvm_above() or _jvm_that_runs(run)
    return Owner(query, run, host, jvm.pid, jvm.create_time()) if jvm else Owner(query, run, host)


def this_job() -> Owner:
    """The owner for a new batch job, whose id tells everybody which process it belongs to."""
    owner = this_owner("", "")
    job = f"batch-{owner.host}-{owner.pid}-{owner.started:.0f}-{uuid.uuid4().hex}"
    return replace(owner, query=job, run=job)


def is_job_that_ended(name: str) -> bool:
    """Whether `name` begins with the id of a batch job of this host whose process has ended."""
    job = re.match(r"batch-(.+)-([0-9]+)-([0-9]+)-[0-9a-f]{32}(\.|$)", name)
    if not job or job[1] != os.uname().nodename:
        return False
    return _process_of(Owner(name, name, job[1], int(job[2]), float(job[3]))) is None


def is_running(owner: Owner, seconds_since_commit: float) -> bool:
    """Whether that run is still under way; True as well when its JVM does not tell.

    Nothing here could tell of a run on another host, so that its last commit is a lease: for
    `LEASE_SECONDS` it counts as running.
    """
    if owner.host != os.uname().nodename:
        return seconds_since_commit < LEASE_SECONDS
    process = _process_of(owner)
    if process is None or process.name() != "java":  # version 0.1.0 could name process 1
        return False
    try:
        return _has_thread(owner.pid, owner.run)
    except OSError:
        return True


def words_for_takeover(owner: Owner) -> str:
    """What an error adds when the owner is on another host."""
    if owner.host == os.uname().nodename:
        return ""
    return f"; if that host has gone, wait until {LEASE_SECONDS:g} s have passed since its commit"


def _has_thread(pid: int, run: str) -> bool:
    return f"runId = {run}]".encode() in _thread_dump(pid)


def _jvm_above() -> psutil.Process | None:
    return next((p for p in psutil.Process().parents() if p.name() == "java"), None)


def _jvm_that_runs(run: str) -> psutil.Process | None:
    """For a worker that has lost its parents: a killed process leaves its children to process 1."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):  # it ends just now, or is another user's
            if process.name() == "java" and _has_thread(process.pid, run):
                return process
    return None


def _process_of(owner: Owner) -> psutil.Process | None:
    """The owner's process on this host; None when it has ended."""
    try:
        process = psutil.Process(owner.pid)
        same = abs(process.create_time() - owner.started) < CLOCK_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None


def _thread_dump(pid: int) -> bytes:
    """Raises `OSError` when the JVM does not answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ATTACH_SECONDS)
        connection.connect(str(_attach_socket(pid)))
        connection.sendall(THREAD_DUMP)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def _attach_socket(pid: int) -> Path:
    """The JVM's socket for tools; it opens when asked by a file and a signal, as `jstack` does."""
    folder = Path("/tmp" if sys.platform == "linux" else tempfile.gettempdir())
    path, request = folder / f".java_pid{pid}", folder / f".attach_pid{pid}"
    if path.exists():
        return path
    request.touch()
    try:
        os.kill(pid, signal.SIGQUIT)
        end = time.monotonic() + ATTACH_SECONDS
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        request.unlink(missing_ok=True)
    return path
