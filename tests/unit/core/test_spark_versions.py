"""One module knows what differs between versions of Spark, and what to do without limits."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import tutorial_pkg
from tutorial_pkg.core import spark_versions
from tutorial_pkg.core.spark_versions import ReadMaxRows, stream_reader

PACKAGE = Path(tutorial_pkg.__file__).parent
# What differs, and how one would look at a version.
OF_SOME_VERSIONS = {"DataSourceStreamArrowWriter", "DatetimeType"}
ONLY_SINCE_4_2 = "pyspark.sql.streaming.datasource"
LOOKS = re.compile(r"(__version__|spark_version|spark\.version)\W*(<|>|==|split|startswith)")


def looks_at_versions(file: Path) -> bool:
    tree = ast.parse(file.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    of_spark = [node for node in imports if str(node.module).startswith("pyspark")]
    names = {alias.name for node in of_spark for alias in node.names}
    modules = {node.module for node in of_spark}
    text = LOOKS.search(file.read_text())
    return bool(names & OF_SOME_VERSIONS or ONLY_SINCE_4_2 in modules or text)


def test_no_other_file_looks_at_versions() -> None:
    """But for the workbook, which needs the newest."""
    workbook = PACKAGE / "workbook"
    files = [file for file in PACKAGE.rglob("*.py") if workbook not in file.parents]
    assert [file for file in files if looks_at_versions(file)] == [Path(spark_versions.__file__)]


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
