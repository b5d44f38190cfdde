"""Which run of a streaming query writes to a directory, and whether it still runs.

The commit of a Python sink runs in a worker process that knows nothing of the query's life: the
worker stays when the query stops, and so does the JVM. What lives exactly as long as a run is its
thread in the JVM, which Spark names after it: `stream execution thread for … [id = …, runId = …]`.
The JVM tells its threads to any process of the same user, by the same socket that `jstack` uses.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ATTACH_SECONDS = 5.0
CLOCK_SECONDS = 2.0  # a start time is counted from a boot time that moves with the clock
THREAD_DUMP = b"1\0threaddump\0\0\0\0"  # version of the protocol, command, three empty arguments


@dataclass(frozen=True)
class Owner:
    """A run of a query, or a batch job, in a driver's process."""

    query: str
    run: str
    host: str
    pid: int
    started: float  # seconds since the epoch: tells apart two processes with one pid

    def __str__(self) -> str:
        return f"query {self.query} (run {self.run}, process {self.pid} on {self.host})"


def this_owner(query: str, run: str) -> Owner:
    """The owner `run` of `query`, in the JVM that this process works for."""
    jvm = _jvm_above(psutil.Process())
    return Owner(query, run, os.uname().nodename, jvm.pid, jvm.create_time())


def is_running(owner: Owner) -> bool:
    """Whether that run is still under way; True as well when its JVM does not tell.

    A run on another host counts as ended: nothing here could tell, and a host's name may change
    between two starts of one container.
    """
    process = _process_of(owner)
    if process is None:
        return False
    try:
        return process.name() != "java" or _has_thread(owner)
    except OSError:
        return True


def _has_thread(owner: Owner) -> bool:
    return f"runId = {owner.run}]".encode() in _thread_dump(owner.pid)


def _jvm_above(process: psutil.Process) -> psutil.Process:
    above = process.parents()
    return next((parent for parent in above if parent.name() == "java"), above[0])


def _process_of(owner: Owner) -> psutil.Process | None:
    """The owner's process; None when it has ended or is on another host."""
    try:
        process = psutil.Process(owner.pid)
        here = owner.host == os.uname().nodename
        same = here and abs(process.create_time() - owner.started) < CLOCK_SECONDS
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
