"""A reader with limits on a Spark that has none."""

from __future__ import annotations

from typing import Any

import pytest

from tutorial_pkg.core import spark_versions
from tutorial_pkg.core.spark_versions import ReadMaxRows, stream_reader


class Numbers:
    """A reader with limits, as ours are: positions are numbers."""

    def __init__(self) -> None:
        self.planned: list[tuple[int, int]] = []

    def initialOffset(self) -> int:
        return 0

    def getDefaultReadLimit(self) -> ReadMaxRows:
        return ReadMaxRows(10)

    def latestOffset(self, start: int, limit: Any) -> int:
        return min(25, start + limit.max_rows)

    def partitions(self, start: int, end: int) -> list[Any]:
        self.planned.append((start, end))
        return [start]


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "HAS_LIMITS", False)


def test_old_spark_limits_each_batch(old: None) -> None:
    """As Spark 4.0 calls it: the initial offset comes after the first look."""
    numbers = Numbers()
    reader: Any = stream_reader(numbers)
    ends = []
    for start in (0, 10, 20, 25):
        ends.append(reader.latestOffset())
        assert reader.initialOffset() == 0
        reader.partitions(start, ends[-1])
    assert ends == [10, 20, 25, 25]
    assert numbers.planned == [(0, 10), (10, 20), (20, 25)]


def test_old_spark_resumes_after_restart(old: None) -> None:
    """Spark 4.0 has it plan nothing at the last offset; that batch may have to be repeated."""
    numbers = Numbers()
    reader: Any = stream_reader(numbers)
    assert reader.partitions(20, 20) == []
    assert reader.latestOffset() == 25
    repeating: Any = stream_reader(numbers)
    repeating.partitions(10, 10)
    repeating.partitions(0, 10)
    assert repeating.latestOffset() == 20
    assert numbers.planned == [(0, 10)]


def test_new_spark_gets_the_reader_itself() -> None:
    numbers = Numbers()
    assert stream_reader(numbers) is numbers
