"""Builders in the test's own process."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

TASK = SimpleNamespace(index=0)  # the running task of a sink; every batch is number 7


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let functions share memory with the test: nothing is pickled."""
    monkeypatch.setattr("tutorial_pkg.builder.declaration.check_travel", lambda *_: None)
    properties = {
        "sql.streaming.queryId": "q",
        "streaming.sql.batchId": "7",
        "spark.jobGroup.id": "r",
    }
    task = SimpleNamespace(
        partitionId=lambda: TASK.index, getLocalProperty=lambda name: "/checkpoints"
    )
    sink = "tutorial_pkg.builder.sink_builder"
    monkeypatch.setattr(f"{sink}.task_property", properties.__getitem__)
    monkeypatch.setattr(f"{sink}.this_task", lambda: task)
