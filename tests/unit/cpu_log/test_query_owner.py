"""Who owns a directory, until when, and how a worker without parents finds its JVM."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tutorial_pkg.connectors.cpu_log import query_owner
from tutorial_pkg.connectors.cpu_log.query_owner import (
    LEASE_SECONDS,
    Owner,
    is_job_that_ended,
    is_running,
    this_job,
    this_owner,
    words_for_takeover,
)
from tutorial_pkg.processes.query_process import wait_until

HERE = os.uname().nodename
# By its name a JVM; asked for its threads it says nothing, for it is none.
LIKE_A_JVM = """
import pathlib, signal
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
pathlib.Path("/proc/self/comm").write_text("java")
print("ready", flush=True)
input()
"""


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen]:
    monkeypatch.setattr(query_owner, "ATTACH_SECONDS", 0.1)
    command = [sys.executable, "-c", LIKE_A_JVM]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:
        assert child.stdout.readline() == b"ready\n"
        yield child
        child.kill()


def owner_of(child: subprocess.Popen) -> Owner:
    return Owner("query", "run", HERE, child.pid, psutil.Process(child.pid).create_time())


@pytest.mark.skipif(sys.platform != "linux", reason="a process names itself in /proc")
def test_a_jvm_that_does_not_tell_owns_until_it_ends(jvm: subprocess.Popen) -> None:
    owner = owner_of(jvm)
    assert is_running(owner, 1e9)
    assert not is_running(replace(owner, started=owner.started - 60), 0)
    jvm.kill()
    wait_until(lambda: not is_running(owner, 0), 10, "a zombie no longer owns")
    jvm.communicate()
    assert not is_running(owner, 0)


def test_what_is_no_jvm_owns_nothing() -> None:
    """Version 0.1.0 recorded process 1 for a worker whose parents had been killed."""
    init = psutil.Process(1)
    assert not is_running(Owner("query", "run", HERE, 1, init.create_time()), 0)


def test_on_another_host_the_last_commit_is_a_lease() -> None:
    elsewhere = Owner("query", "run", "elsewhere", 1, 0.5)
    assert is_running(elsewhere, LEASE_SECONDS - 1)
    assert not is_running(elsewhere, LEASE_SECONDS + 1)
    assert words_for_takeover(elsewhere) == (
        "; if that host has gone, wait until 60 s have passed since its commit"
    )
    assert words_for_takeover(replace(elsewhere, host=HERE)) == ""


def test_a_query_takes_itself_along_to_another_host() -> None:
    owner = Owner("query", "run", "elsewhere", 1, 0.5)
    assert owner.has_moved_to(Owner("query", "another run", HERE, 1, 0.5))
    assert not owner.has_moved_to(Owner("another", "another run", HERE, 1, 0.5))
    assert not owner.has_moved_to(Owner("query", "another run", "elsewhere", 1, 0.5))


def test_a_worker_without_parents_finds_the_jvm_that_runs_its_query(
    monkeypatch: pytest.MonkeyPatch, jvm: subprocess.Popen
) -> None:
    monkeypatch.setattr(psutil.Process, "parents", lambda _: [psutil.Process(1)])
    dumps = {jvm.pid: b'"stream execution thread for q [id = x, runId = my-run]"'}
    monkeypatch.setattr(query_owner, "_thread_dump", lambda pid: dumps.get(pid, b""))
    assert this_owner("query", "my-run").pid == jvm.pid
    assert this_owner("query", "another-run") == Owner("query", "another-run", HERE, 0, 0.0)


def test_an_owner_without_a_process_keeps_nobody_out() -> None:
    assert not is_running(Owner("query", "run", HERE), 0)


def test_a_job_has_ended_with_its_process(
    monkeypatch: pytest.MonkeyPatch, jvm: subprocess.Popen
) -> None:
    monkeypatch.setattr(psutil.Process, "parents", lambda _: [psutil.Process(jvm.pid)])
    job = this_job()
    assert job.query == job.run
    assert not is_job_that_ended(f"{job.query}.0123")
    jvm.kill()
    jvm.wait()
    assert is_job_that_ended(f"{job.query}.0123")
    elsewhere = job.query.replace(f"batch-{HERE}-", "batch-elsewhere-")
    assert not is_job_that_ended(f"{elsewhere}.0123")
    assert not is_job_that_ended("d212f59c-5891-451c-a63d-0bdcd6f99656.0123")
