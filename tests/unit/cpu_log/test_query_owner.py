"""Who owns a directory, and when it gives way to whom."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tutorial_pkg.connectors.cpu_log.query_owner import (
    Owner,
    is_job_that_ended,
    this_job,
    this_owner,
)
from tutorial_pkg.core.waiting import wait_until

HERE = os.uname().nodename
OTHER = Owner("another query", "another run", HERE)


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that this one takes for the JVM that it works for."""
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        parent = psutil.Process(child.pid)
        monkeypatch.setattr(parent, "name", lambda: "java")
        monkeypatch.setattr(psutil.Process, "parents", lambda _: [psutil.Process(1), parent])
        yield child
        child.kill()


def test_an_owner_gives_way_when_its_process_has_ended(jvm: subprocess.Popen[bytes]) -> None:
    owner = this_owner("query", "run")
    assert owner == Owner("query", "run", HERE, jvm.pid, psutil.Process(jvm.pid).create_time())
    assert not owner.gives_way_to(OTHER)
    assert replace(owner, started=owner.started - 60).gives_way_to(OTHER), "the pid is used again"
    jvm.kill()
    wait_until(lambda: owner.gives_way_to(OTHER), 60, "a zombie no longer owns")
    jvm.communicate()
    assert owner.gives_way_to(OTHER)


@pytest.mark.parametrize(
    "owner", [Owner("query", "run", "elsewhere", 1, 0.5), Owner("query", "run", HERE)]
)
def test_an_owner_that_nobody_can_look_at_gives_way_to_its_own_query_only(owner: Owner) -> None:
    assert not owner.gives_way_to(OTHER)
    assert owner.gives_way_to(Owner("query", "another run", HERE))


def test_a_worker_without_parents_names_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil.Process, "parents", lambda _: [psutil.Process(1)])
    assert this_owner("query", "run") == Owner("query", "run", HERE, 0, 0.0)


def test_a_job_gives_way_at_once_and_has_ended_with_its_process(
    jvm: subprocess.Popen[bytes],
) -> None:
    job = this_job()
    assert job.query == job.run
    assert job.gives_way_to(OTHER), "it commits only once"
    assert not is_job_that_ended(f"{job.query}.0123")
    jvm.kill()
    jvm.wait()
    assert is_job_that_ended(f"{job.query}.0123")
    elsewhere = job.query.replace(f"batch-{HERE}-", "batch-elsewhere-")
    assert not is_job_that_ended(f"{elsewhere}.0123")
    assert not is_job_that_ended("d212f59c-5891-451c-a63d-0bdcd6f99656.0123")
