"""The explainers show what real queries do: run again, they do the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.record_explainers import PORTS, run_crash, run_watermark, watermark_grid
from workbook.explainers import recorded

CRASHES = [
    pytest.param(
        run, id=run["point"], marks=[] if run["point"] == "half_applied" else pytest.mark.soak
    )
    for run in recorded("crash")
]


def test_watermark_of_one_choice(spark: SparkSession, tmp_path: Path) -> None:
    assert run_watermark(spark, tmp_path / "run", delay=10, second=48) in recorded("watermark")


@pytest.mark.soak
def test_watermark_of_every_choice(spark: SparkSession, tmp_path: Path) -> None:
    assert list(watermark_grid(spark, tmp_path)) == recorded("watermark")


@pytest.mark.parametrize("expected", CRASHES)
def test_crash_leaves_what_is_shown(
    spark: SparkSession,
    tmp_path: Path,
    free_ports: Callable[[int], int],
    expected: dict[str, object],
) -> None:
    point = str(expected["point"])
    assert run_crash(spark, tmp_path / point, free_ports(PORTS), point) == expected
