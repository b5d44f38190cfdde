"""Which run of a query writes to a directory, and when it gives way to another one.

The lock of a commit alone makes commits of several runs safe. Owners exist to prevent an accident:
two queries, or two of their drivers, filling one directory without knowing of each other.

The commit of a Python sink runs in a worker process that knows nothing of the query's life: the
worker stays when the query stops, and so does the JVM. So a run shows that it lives by committing.
Its last commit is a lease: for `LEASE_SECONDS` another run waits, and fails if the owner commits
meanwhile. Nobody waits for an owner whose process has ended, for a batch job, which commits once,
or for an earlier run of the same query, whose checkpoint lets only one of them run.

The price: a query that was stopped while its JVM lives delays the first commit of another one by
up to a lease. And of two queries that both commit less often than that, neither is stopped.
"""

from __future__ import annotations

import os
import re
import uuid
from dataclasses import dataclass, replace

from tutorial_pkg.core.file_lock import pid_exists

try:
    import psutil
except ModuleNotFoundError:  # extra `processes`
    psutil = None

LEASE_SECONDS = 10.0
CLOCK_SECONDS = 2.0  # a start time is counted from a boot time that moves with the clock
_BATCH_JOB = re.compile(r"batch-(.+)-([0-9]+)-([0-9]+)-[0-9a-f]{32}(\.|$)")


@dataclass(frozen=True)
class Owner:
    """A run of a query, or a batch job, in a driver's process; `pid` is 0 where that is unknown."""

    query: str
    run: str
    host: str
    pid: int = 0
    started: float = 0.0  # seconds since the epoch: tells apart two processes with one pid

    def __str__(self) -> str:
        return f"query {self.query} (run {self.run}, process {self.pid} on {self.host})"

    def gives_way_to(self, other: Owner) -> bool:
        """Whether `other` may write at once."""
        if other.query == self.query or _BATCH_JOB.match(self.query):
            return True
        return self._is_here() and self.pid != 0 and not self._process_lives()

    def _is_here(self) -> bool:
        return self.host == os.uname().nodename

    def _process_lives(self) -> bool:
        if psutil is None:
            return pid_exists(self.pid)
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < CLOCK_SECONDS
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False


def this_owner(query: str, run: str) -> Owner:
    """The owner `run` of `query`, in the JVM that this process works for.

    A worker whose parents were killed does not find it, nor does one without `psutil`.
    """
    host = os.uname().nodename
    if psutil is None:
        return Owner(query, run, host)
    jvm = next((each for each in psutil.Process().parents() if each.name() == "java"), None)
    return Owner(query, run, host, jvm.pid, jvm.create_time()) if jvm else Owner(query, run, host)


def this_job() -> Owner:
    """The owner for a new batch job, whose id tells everybody which process it belongs to."""
    owner = this_owner("", "")
    job = f"batch-{owner.host}-{owner.pid}-{owner.started:.0f}-{uuid.uuid4().hex}"
    return replace(owner, query=job, run=job)


def is_job_that_ended(name: str) -> bool:
    """Whether `name` begins with the id of a batch job of this host whose process has ended."""
    job = _BATCH_JOB.match(name)
    if not job:
        return False
    owner = Owner(name, name, job[1], int(job[2]), float(job[3]))
    return owner._is_here() and owner.pid != 0 and not owner._process_lives()
