"""What the listener of peeks does with rows, without Spark."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from tutorial_pkg.observe.peek import Peeked, _Listener


@pytest.mark.parametrize("kind", [LookupError, asyncio.CancelledError, SystemExit])
def test_failing_peek_is_logged(
    kind: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    found: list[Peeked] = []

    def fails(peeked: Peeked) -> None:
        raise kind("no room")

    listener = _Listener()
    listener.to = {"peek a": fails, "peek b": found.append}
    first = Row(partition=0, row=Row(value="x"))
    metrics = {"peek a": [first, first], "peek b": [first]}
    progress = SimpleNamespace(observedMetrics=metrics, name="query", batchId=3)
    event: Any = SimpleNamespace(progress=progress)
    listener.onQueryProgress(event)
    assert [peeked.batch for peeked in found] == [3]
    assert caplog.text.count("peek('a'): its `to` failed for a | batch 3, partition 0") == 2
    # Where PySpark has logged before, it has turned caplog's text into JSON.
    causes = [record.exc_info and str(record.exc_info[1]) for record in caplog.records]
    assert causes == ["no room", "no room"]
