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
        "spark.sql.streaming.checkpointLocation": "/checkpoints",
    }
    task = SimpleNamespace(partitionId=lambda: TASK.index, getLocalProperty=properties.__getitem__)
    context = SimpleNamespace(get=lambda: task)
    monkeypatch.setattr("tutorial_pkg.builder.sink_builder.TaskContext", context)
